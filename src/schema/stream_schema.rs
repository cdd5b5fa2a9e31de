//! One Singer stream against one table.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::build::{Adopted, Builder, Partitions, match_columns, metadata_column};
use super::declared::{Declared, Property, sort_properties};
use super::json_schema::{override_of, resolve};
use super::layout::{Layout, MetadataColumn, Missing, StreamLayout, ValueKind};
use super::types::{DataType, Field, TableSchema};
use super::{OnTypeConflict, Options, SchemaContract, merge};
use crate::{Error, Result};

/// A table that exists.
#[derive(Debug, Clone, Copy)]
pub struct TableFacts<'a> {
    /// Its schema.
    pub schema: &'a TableSchema,
    /// Its partition columns.
    pub partition_columns: &'a [String],
    /// Whether `delta.enableTypeWidening` is true and its protocol has the feature.
    pub is_type_widening_enabled: bool,
}

/// What [`StreamSchema::grow`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The next layout takes the record; under `discard_columns` it leaves the values of new keys out.
    Grown,
    /// The layout is as it was; the record is to be left out.
    DiscardRow,
}

/// What [`StreamSchema::replace`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The same columns, types and keys.
    Unchanged,
    /// Another layout, or other keys.
    Changed,
}

/// The columns, types and keys of one Singer stream against one table.
///
/// Every layout has the columns of the one before at the same places, and the table schema of a layout holds all columns of the table.
#[derive(Debug, Clone)]
pub struct StreamSchema {
    options: Options,
    keys: Vec<String>,
    partition_columns: Vec<String>,
    /// The table as we know it; empty when there is none.
    base: TableSchema,
    has_table: bool,
    may_widen: bool,
    /// What the SCHEMA declares, sorted, to compare the next one with.
    declared: Vec<Property>,
    /// The same in its order, with what records added.
    properties: Vec<Property>,
    grown: Vec<(Vec<String>, Property)>,
    metadata: Vec<MetadataColumn>,
    adopted: Adopted,
    layout: Arc<StreamLayout>,
    notices: Vec<String>,
}

impl StreamSchema {
    /// Returns the schema of a stream whose SCHEMA message came.
    ///
    /// `singer_schema` is the message's `schema`; `key_properties` and `partition_by` are source names, the latter of use only for a
    /// table that does not exist yet (`table` is `None`).
    ///
    /// **Errors** `Input` for what is not a JSON Schema with `properties`, or a key that it lacks; `Config` for wrong `columns` or
    /// `partition_by`; `Schema` for a change that the contract forbids; `Table` for a column that cannot be written.
    pub fn new(
        singer_schema: &Value,
        key_properties: &[String],
        partition_by: &[String],
        options: &Options,
        table: Option<TableFacts<'_>>,
    ) -> Result<Self> {
        let resolved = resolve(singer_schema, options)?;
        let mut declared = resolved.properties.clone();
        sort_properties(&mut declared);
        let mut schema = Self {
            options: options.clone(),
            keys: key_properties.to_vec(),
            partition_columns: table.map(|table| table.partition_columns.to_vec()).unwrap_or_default(),
            base: table.map(|table| table.schema.clone()).unwrap_or_default(),
            has_table: table.is_some(),
            may_widen: table.is_some_and(|table| table.is_type_widening_enabled),
            declared,
            properties: resolved.properties,
            grown: Vec::new(),
            metadata: Vec::new(),
            adopted: Adopted::new(),
            layout: Arc::default(),
            notices: resolved.notices,
        };
        schema.metadata = schema.written_metadata();
        let existing = schema.base.fields.clone();
        let partition_keys = (!schema.has_table).then_some(partition_by);
        schema.rebuild(&existing, partition_keys)?;
        if !schema.has_table {
            schema.partition_columns = schema.new_partition_columns(partition_by)?;
        }
        Ok(schema)
    }

    /// Returns the layout of the next records.
    pub fn layout(&self) -> Arc<StreamLayout> {
        Arc::clone(&self.layout)
    }

    /// Returns the partition columns, by the table's names, of the table that exists or is to be created.
    pub fn partition_columns(&self) -> &[String] {
        &self.partition_columns
    }

    /// Returns what the user should be told once: renamed columns, type conflicts that made columns, decimals that were cut.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Makes room for all that a record lacks; the next layout appends columns only.
    ///
    /// **Errors** `Schema` when the contract is `freeze`, or a metadata column's type in the table is another; the schema is then as before.
    pub fn grow(&mut self, missing: &[Missing]) -> Result<Growth> {
        let mut next = self.clone();
        let mut taken = HashSet::new();
        for missing in missing {
            let growth = match missing {
                Missing::Key { path, kind } => next.grow_key(path, *kind, &mut taken)?,
                Missing::Overflow { path } => next.grow_overflow(path)?,
                Missing::Metadata(column) => next.grow_metadata(*column)?,
            };
            if growth == Growth::DiscardRow {
                return Ok(growth);
            }
        }
        let existing = next.table_fields();
        next.rebuild(&existing, None)?;
        *self = next;
        Ok(Growth::Grown)
    }

    /// Takes a SCHEMA message that came again.
    ///
    /// **Errors** as [`Self::new`]; the schema is then as before.
    pub fn replace(&mut self, singer_schema: &Value, key_properties: &[String]) -> Result<Replaced> {
        let resolved = resolve(singer_schema, &self.options)?;
        let mut declared = resolved.properties.clone();
        sort_properties(&mut declared);
        if declared == self.declared && is_same_set(&self.keys, key_properties) {
            return Ok(Replaced::Unchanged);
        }
        let mut next = self.clone();
        next.keys = key_properties.to_vec();
        next.declared = declared;
        next.properties = resolved.properties;
        for notice in resolved.notices {
            next.note(notice);
        }
        for (path, property) in &self.grown {
            let Some((key, above)) = path.split_last() else { continue };
            if let Some(list) = Property::list_at(&mut next.properties, above)
                && !list.iter().any(|other| other.key == *key)
            {
                list.push(property.clone());
            }
        }
        let existing = next.table_fields();
        next.rebuild(&existing, None)?;
        *self = next;
        Ok(Replaced::Changed)
    }

    /// Takes the facts of a newer version of the table. What we added and is not committed yet is put onto them.
    ///
    /// **Errors** `Schema` when the newer table and our additions, or the declared types, do not go together; the schema is then as before.
    pub fn rebase(&mut self, table: TableFacts<'_>) -> Result<()> {
        let merged = merge(&self.layout.table_schema, &self.base, table.schema)?;
        let mut next = self.clone();
        next.base = table.schema.clone();
        next.has_table = true;
        next.may_widen = table.is_type_widening_enabled;
        next.partition_columns = table.partition_columns.to_vec();
        next.rebuild(&merged.fields, None)?;
        *self = next;
        Ok(())
    }

    fn table_fields(&self) -> Vec<Field> {
        self.layout.table_schema.fields.clone()
    }

    /// Builds the layout on `existing` columns; `partition_keys` are the source names of the partition columns of a table to be made.
    fn rebuild(&mut self, existing: &[Field], partition_keys: Option<&[String]>) -> Result<()> {
        for key in &self.keys {
            if !self.properties.iter().any(|property| property.key == *key) {
                return Err(Error::input(format!("the key property `{key}` is not among the properties of the SCHEMA message"))
                    .hint("correct the tap, or set `key_properties` for the stream"));
            }
        }
        let mut notices = Vec::new();
        let evolves = self.options.schema_contract == SchemaContract::Evolve;
        let mut builder = Builder {
            options: &self.options,
            keys: &self.keys,
            partitions: match partition_keys {
                Some(keys) => Partitions::Keys(keys),
                None => Partitions::Columns(&self.partition_columns),
            },
            may_add: evolves || !self.has_table && existing.is_empty(),
            may_widen: self.may_widen && evolves,
            metadata: &self.metadata,
            adopted: &mut self.adopted,
            notices: &mut notices,
        };
        let (fields, layout) = builder.build(existing, &self.properties)?;
        debug_assert!(
            existing.iter().zip(&fields).all(|(before, after)| before.name == after.name),
            "open builders are extended by place, so a column must keep its own"
        );
        let key_sources = self.keys.iter().filter_map(|key| layout.by_key.get(key).copied()).collect();
        self.layout = Arc::new(StreamLayout { layout, table_schema: Arc::new(TableSchema { fields }), key_sources });
        notices.into_iter().for_each(|notice| self.note(notice));
        Ok(())
    }

    fn note(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// The metadata columns from the start: all seven when they are wanted; else those that rows with a version, and soft deletes,
    /// need and the table has already, so that they are filled without the layout changing under open builders.
    fn written_metadata(&self) -> Vec<MetadataColumn> {
        if self.options.add_record_metadata {
            return MetadataColumn::ALL.to_vec();
        }
        let is_there = |column: &MetadataColumn| {
            let is_declared = self.properties.iter().any(|property| property.key == column.name());
            let wanted = if column.is_timestamp() { DataType::Timestamp } else { DataType::Long };
            !is_declared
                && metadata_column(&self.base.fields, *column, false).is_some_and(|at| self.base.fields[at].data_type == wanted)
        };
        [MetadataColumn::DeletedAt, MetadataColumn::TableVersion].into_iter().filter(is_there).collect()
    }

    fn grow_key(&mut self, path: &[String], kind: ValueKind, taken: &mut HashSet<(Vec<String>, String)>) -> Result<Growth> {
        let Some((key, above)) = path.split_last() else {
            return Err(Error::internal("a field without a name was reported as undeclared"));
        };
        let in_field = |error: Error| path.iter().rev().fold(error, |error, key| error.in_field(key));
        // A column goes to the first key that it fits; the next one gets its own.
        let column = self.column_of(above, key).filter(|field| taken.insert((above.to_vec(), field.name.clone()))).cloned();
        if above.is_empty() && key == MetadataColumn::DeletedAt.name() && column.is_none() {
            return self.grow_metadata(MetadataColumn::DeletedAt);
        }
        let contract = self.options.schema_contract;
        let fails_on_conflict = self.options.on_type_conflict == OnTypeConflict::Fail;
        let mut property = match (override_of(&self.options, &path.join(".").replace(".[]", "[]"))?, &column) {
            (Some(declared), _) => Property::new(key, declared),
            (None, Some(field)) => match Property::of_field(key, field) {
                Some(property) if fails_on_conflict => Property { has_text_overflow: false, ..property },
                Some(property) => property,
                None => Property::new(key, Declared::of_kind(kind)),
            },
            (None, None) => Property::new(key, Declared::of_kind(kind)),
        };
        match (contract, &column) {
            (SchemaContract::Evolve, _) | (_, Some(_)) => {}
            (SchemaContract::Freeze, None) => {
                return Err(in_field(
                    Error::schema("is not in the SCHEMA, and `schema_contract` is `freeze`")
                        .hint("set `schema_contract` to `evolve`, `discard_columns` or `discard_rows`"),
                ));
            }
            (SchemaContract::DiscardColumns, None) => property.is_discarded = true,
            (SchemaContract::DiscardRows, None) => return Ok(Growth::DiscardRow),
        }
        let Some(list) = Property::list_at(&mut self.properties, above) else {
            return Err(in_field(Error::internal("is reported as undeclared within a field that has no fields")));
        };
        if let Some(known) = list.iter().find(|property| property.key == *key) {
            // Asked for twice, or declared but without a column under `discard_rows`.
            let is_left_out = contract == SchemaContract::DiscardRows;
            let is_discarded_row = is_left_out && !known.is_discarded;
            return Ok(if is_discarded_row { Growth::DiscardRow } else { Growth::Grown });
        }
        list.push(property.clone());
        self.grown.push((path.to_vec(), property));
        Ok(Growth::Grown)
    }

    fn grow_overflow(&mut self, path: &[String]) -> Result<Growth> {
        let mut list = match path.split_last() {
            Some((_, above)) => Property::list_at(&mut self.properties, above),
            None => None,
        };
        let property = list.as_mut().and_then(|list| list.iter_mut().find(|property| path.last() == Some(&property.key)));
        let Some(property) = property else {
            return Err(Error::internal(format!("the overflow column of the unknown field `{}` was asked for", path.join("."))));
        };
        property.needs_overflow = true;
        Ok(Growth::Grown)
    }

    fn grow_metadata(&mut self, column: MetadataColumn) -> Result<Growth> {
        if self.metadata.contains(&column) {
            return Ok(Growth::Grown);
        }
        let is_there = metadata_column(&self.layout.table_schema.fields, column, false).is_some();
        if self.options.schema_contract == SchemaContract::Freeze && self.has_table && !is_there {
            let error = Error::schema("is a new column, and `schema_contract` is `freeze`").in_field(column.name());
            return Err(error.hint("add the column to the table, or set `process_activate_version_messages` to false"));
        }
        self.metadata.push(column);
        Ok(Growth::Grown)
    }

    /// Returns the column that the table has for an undeclared key.
    fn column_of(&self, above: &[String], key: &str) -> Option<&Field> {
        let (layout, fields) = level_at(&self.layout.layout, &self.layout.table_schema.fields, above)?;
        let mut claimed = vec![false; fields.len()];
        for source in &layout.sources {
            let overflow = source.overflow.as_ref().and_then(|overflow| overflow.column);
            for at in [source.column, overflow].into_iter().flatten() {
                claimed[at] = true;
            }
        }
        let style = self.options.column_names;
        let found = match_columns(fields, &[key], above, style, &mut claimed, &self.adopted);
        found.first().copied().flatten().map(|at| &fields[at])
    }

    fn new_partition_columns(&self, partition_by: &[String]) -> Result<Vec<String>> {
        let StreamLayout { layout, table_schema, .. } = &*self.layout;
        let mut columns: Vec<String> = Vec::new();
        for key in partition_by {
            let metadata = || table_schema.fields.iter().position(|field| field.name == *key && field.source_name().is_none());
            let column = layout.by_key.get(key).and_then(|at| layout.sources[*at].column).or_else(metadata);
            let Some(field) = column.map(|at| &table_schema.fields[at]) else {
                return Err(Error::config(format!("`partition_by` names `{key}`, which is not among the stream's properties")));
            };
            if !field.data_type.is_primitive() {
                return Err(Error::config(format!("`partition_by` names `{key}`, which is {}", field.data_type))
                    .hint("a partition column is of a primitive type"));
            }
            if columns.contains(&field.name) {
                return Err(Error::config(format!("`partition_by` names `{key}` twice")));
            }
            columns.push(field.name.clone());
        }
        if !columns.is_empty() && columns.len() == table_schema.fields.len() {
            return Err(Error::config("`partition_by` names all columns; a table needs one that is not a partition column"));
        }
        Ok(columns)
    }
}

/// Returns the level that `path` leads to, with its fields.
fn level_at<'l>(layout: &'l Layout, fields: &'l [Field], path: &[String]) -> Option<(&'l Layout, &'l [Field])> {
    let Some((key, mut rest)) = path.split_first() else { return Some((layout, fields)) };
    let at = layout.sources[*layout.by_key.get(key)?].column?;
    let (mut rule, mut data_type) = (&layout.columns[at].rule, &fields[at].data_type);
    loop {
        use super::layout::Rule;
        match (rule, data_type) {
            (Rule::Struct(layout), DataType::Struct(fields)) => return level_at(layout, fields, rest),
            (Rule::List(inner), DataType::Array { element: inner_type, .. })
            | (Rule::Map(inner), DataType::Map { value: inner_type, .. }) => match rest.split_first() {
                Some((step, after)) if step == "[]" => (rule, data_type, rest) = (inner, inner_type, after),
                _ => return None,
            },
            _ => return None,
        }
    }
}

fn is_same_set(a: &[String], b: &[String]) -> bool {
    a.iter().all(|key| b.contains(key)) && b.iter().all(|key| a.contains(key))
}

#[cfg(test)]
mod tests;
