//! One level of nesting: its columns, and the keys that feed them.

use std::collections::HashSet;

use serde_json::Value;

use super::super::declared::{CONTENT, Declared, Property, VARIANT};
use super::super::fit::{Content, field_limits, unfed_column};
use super::super::layout::{Column, Fill, Layout, MetadataColumn, Overflow, Rule, Source};
use super::super::names::{column_name, folded, take, variant_name};
use super::super::types::{DataType, Field};
use super::super::{OnTypeConflict, SchemaContract, types};
use super::columns::{METADATA_COLUMN, match_columns, metadata_column};
use super::{Builder, Fit, Fitted, Partitions, own_metadata};
use crate::{Error, Result};

/// A level while it is built. The three lists have one entry per field.
pub(super) struct Level<'l> {
    fields: Vec<Field>,
    rules: Vec<Option<Rule>>,
    fills: Vec<Fill>,
    /// Whether a key or a metadata column has the field.
    claimed: Vec<bool>,
    /// Names that are used, folded.
    taken: HashSet<String>,
    /// The lengths that the column around this level gives to text in it.
    limits: Option<&'l Declared>,
    is_top: bool,
    may_add: bool,
}

/// Where a property's values go.
enum Place {
    Column(usize, Option<Overflow>),
    /// Nowhere, counted.
    Dropped,
    /// The key counts as undeclared, so that rows with it are left out.
    Undeclared,
}

impl<'l> Level<'l> {
    pub(super) fn build(
        builder: &mut Builder<'_>,
        existing: &[Field],
        limits: Option<&'l Declared>,
        properties: &[Property],
        path: &mut Vec<String>,
        is_new: bool,
    ) -> Result<(Vec<Field>, Layout)> {
        let mut level = Level {
            fields: existing.to_vec(),
            rules: vec![None; existing.len()],
            fills: vec![Fill::Record; existing.len()],
            claimed: vec![false; existing.len()],
            taken: existing.iter().map(|field| folded(&field.name)).collect(),
            limits,
            is_top: path.is_empty(),
            may_add: is_new || builder.may_add,
        };
        let metadata = level.claim_metadata(builder)?;
        let takes_deleted_at = metadata.iter().any(|(column, _)| *column == MetadataColumn::DeletedAt);
        let is_ours = |property: &&Property| takes_deleted_at && property.key == MetadataColumn::DeletedAt.name();
        let properties: Vec<&Property> = properties.iter().filter(|property| !is_ours(property)).collect();

        let keys: Vec<&str> = properties.iter().map(|property| property.key.as_str()).collect();
        let style = builder.options.column_names;
        let found = match_columns(&level.fields, &keys, path, style, &mut level.claimed, builder.adopted);
        for (key, at) in keys.iter().zip(&found) {
            if let Some(at) = at
                && level.fields[*at].source_name().is_none()
            {
                let name = level.fields[*at].name.clone();
                builder.adopted.insert((path.clone(), (*key).to_owned()), name);
            }
        }
        // Every declared key has its name before a variant column may take one.
        let mut names: Vec<Option<String>> = Vec::with_capacity(keys.len());
        for ((key, at), property) in keys.iter().zip(&found).zip(&properties) {
            let is_new = at.is_none() && level.may_add && !property.is_discarded;
            names.push(is_new.then(|| take(&column_name(key, style), &mut level.taken)));
        }

        let mut layout = Layout::default();
        for ((property, at), name) in properties.into_iter().zip(&found).zip(names) {
            path.push(property.key.clone());
            let place = level.place(builder, property, *at, name, path);
            path.pop();
            let source = |column, overflow| Source {
                key: property.key.clone(),
                column,
                overflow,
                is_key: level.is_top && builder.keys.contains(&property.key),
                is_partition: column.is_some_and(|at| level.is_partition(builder, property, at)),
            };
            let source = match place.map_err(|error| error.in_field(&property.key))? {
                Place::Column(at, overflow) => source(Some(at), overflow),
                Place::Dropped => source(None, None),
                Place::Undeclared => continue,
            };
            layout.push(source);
        }
        for (column, at) in metadata {
            level.add_metadata(builder, column, at, &mut layout);
        }
        if level.fields.len() > existing.len() {
            level.name_sources(path, builder);
        }
        layout.columns = level.columns()?;
        Ok((level.fields, layout))
    }

    /// Claims the metadata columns that the table has, and the names of those that it will get.
    fn claim_metadata(&mut self, builder: &Builder<'_>) -> Result<Vec<(MetadataColumn, Option<usize>)>> {
        let mut columns = Vec::new();
        if !self.is_top {
            return Ok(columns);
        }
        for &column in builder.metadata {
            let at = metadata_column(&self.fields, column, builder.options.add_record_metadata);
            match at {
                Some(at) => {
                    let data_type = &self.fields[at].data_type;
                    let fits = match data_type {
                        DataType::Timestamp | DataType::TimestampNtz => column.is_timestamp(),
                        DataType::Long => !column.is_timestamp(),
                        _ => false,
                    };
                    if !fits {
                        let wanted = if column.is_timestamp() { "timestamp" } else { "long" };
                        let message = format!("is {data_type} in the table, where delta-load writes a {wanted}");
                        return Err(Error::schema(message)
                            .in_field(column.name())
                            .hint("leave `add_record_metadata` off, or rename the table's column"));
                    }
                    self.claimed[at] = true;
                }
                None if builder.options.add_record_metadata => {
                    self.taken.insert(column.name().to_owned());
                }
                None => {}
            }
            columns.push((column, at));
        }
        Ok(columns)
    }

    fn add_metadata(&mut self, builder: &Builder<'_>, column: MetadataColumn, at: Option<usize>, layout: &mut Layout) {
        let (data_type, rule) =
            if column.is_timestamp() { (DataType::Timestamp, Rule::Timestamp) } else { (DataType::Long, Rule::Long) };
        let at = at.unwrap_or_else(|| {
            let mut field = Field::new(column.name(), data_type);
            if !builder.options.add_record_metadata {
                field.name = take(column.name(), &mut self.taken);
            }
            if field.name != column.name() {
                field.metadata.insert(METADATA_COLUMN.to_owned(), column.name().into());
            }
            self.push(field, rule.clone())
        });
        self.fills[at] = Fill::Metadata(column);
        self.rules[at] = Some(if self.fields[at].data_type == DataType::TimestampNtz { Rule::TimestampNtz } else { rule });
        if column == MetadataColumn::DeletedAt {
            let key = column.name().to_owned();
            layout.push(Source { key, column: Some(at), overflow: None, is_key: false, is_partition: false });
        }
    }

    fn place(
        &mut self,
        builder: &mut Builder<'_>,
        property: &Property,
        at: Option<usize>,
        name: Option<String>,
        path: &mut Vec<String>,
    ) -> Result<Place> {
        if let Some(at) = at {
            return self.feed(builder, property, at, path);
        }
        let Some(name) = name else {
            return if property.is_discarded { Ok(Place::Dropped) } else { self.not_allowed(builder, property) };
        };
        let (data_type, rule) = builder.new_column(&property.declared, path)?;
        if name != property.key {
            builder.notices.push(format!("field `{}` is stored in the column `{name}`", path.join(".")));
        }
        let metadata = own_metadata(&property.key, &property.declared);
        let at = self.push(Field { metadata, ..Field::new(name, data_type) }, rule);
        let is_protected = self.is_protected(builder, property, at);
        let overflow = property.has_text_overflow && !is_protected;
        Ok(Place::Column(at, if overflow { self.overflow(builder, property, at, &Declared::TEXT)? } else { None }))
    }

    /// Lets the column `at` take a property.
    fn feed(&mut self, builder: &mut Builder<'_>, property: &Property, at: usize, path: &mut Vec<String>) -> Result<Place> {
        let is_protected = self.is_protected(builder, property, at);
        let on_type_conflict = builder.options.on_type_conflict;
        let has_text_overflow = property.has_text_overflow && !is_protected;
        Ok(match self.fit(builder, at, &property.declared, path)? {
            Fit::Whole(fitted) => {
                let needs_none = matches!(fitted.rule, Rule::Text { .. } | Rule::JsonText);
                self.set(at, fitted);
                let overflow = has_text_overflow && !needs_none;
                Place::Column(at, if overflow { self.overflow(builder, property, at, &Declared::TEXT)? } else { None })
            }
            Fit::PerValue(fitted) => {
                let is_text = matches!(fitted.rule, Rule::Text { .. });
                self.set(at, fitted);
                let overflow = match on_type_conflict {
                    _ if is_protected => None,
                    _ if has_text_overflow => Some(&Declared::TEXT),
                    OnTypeConflict::Fail => None,
                    OnTypeConflict::VariantColumn if !is_text => Some(&property.declared),
                    OnTypeConflict::VariantColumn | OnTypeConflict::String => Some(&Declared::TEXT),
                };
                Place::Column(
                    at,
                    match overflow {
                        Some(declared) => self.overflow(builder, property, at, declared)?,
                        None => None,
                    },
                )
            }
            Fit::Conflict if is_protected || on_type_conflict == OnTypeConflict::Fail => {
                let field = &self.fields[at];
                let hint = if is_protected {
                    "key and partition columns get no second column; correct the tap, or load into another table"
                } else {
                    "set `on_type_conflict` to `variant_column` or `string`, or name the type in `columns`"
                };
                let label = property.declared.label();
                let message = format!("is declared as {label}, but its column `{}` is {}", field.name, field.data_type);
                return Err(Error::schema(message).hint(hint));
            }
            Fit::Conflict => return self.variant(builder, property, at, path),
        })
    }

    fn fit(&mut self, builder: &mut Builder<'_>, at: usize, declared: &Declared, path: &mut Vec<String>) -> Result<Fit> {
        let field = self.fields[at].clone();
        let limits = field_limits(&field, self.limits)?;
        builder.fit(&field.data_type, Content::of(&field), limits.as_ref(), declared, path)
    }

    /// Finds or adds the column for all values of a property whose own column, `at`, is of another family.
    fn variant(&mut self, builder: &mut Builder<'_>, property: &Property, at: usize, path: &mut Vec<String>) -> Result<Place> {
        let wanted = match builder.options.on_type_conflict {
            OnTypeConflict::String => Declared::TEXT,
            _ => property.declared.clone(),
        };
        let label = wanted.label();
        let name = variant_name(&self.fields[at].name, &label);
        let mut variant = None;
        for candidate in self.variants(&property.key, &name, &label) {
            if let Fit::Whole(fitted) = self.fit(builder, candidate, &wanted, path)? {
                self.set(candidate, fitted);
                variant = Some(candidate);
                break;
            }
        }
        let variant = match variant {
            Some(variant) => variant,
            None if self.may_add => {
                let (data_type, rule) = builder.new_column(&wanted, path)?;
                let variant = self.push_variant(property, &wanted, &name, data_type, rule);
                let (from, to) = (&self.fields[at], &self.fields[variant]);
                let declared = property.declared.label();
                let path = path.join(".");
                builder.notices.push(format!(
                    "field `{path}` is declared as {declared}, but its column `{}` is {}: its values go to the column `{}`",
                    from.name, from.data_type, to.name
                ));
                variant
            }
            None => return self.not_allowed(builder, property),
        };
        let overflow = property.has_text_overflow && wanted != Declared::TEXT;
        Ok(Place::Column(variant, if overflow { self.overflow(builder, property, at, &Declared::TEXT)? } else { None }))
    }

    /// Returns the place of single values that the column `at` cannot hold; the column is there once it is asked for.
    fn overflow(
        &mut self,
        builder: &mut Builder<'_>,
        property: &Property,
        at: usize,
        declared: &Declared,
    ) -> Result<Option<Overflow>> {
        let label = declared.label();
        let name = variant_name(&self.fields[at].name, &label);
        // Never a struct: a struct takes a struct, whatever is in it.
        let (data_type, rule) = builder.new_column(declared, &mut Vec::new())?;
        let fits = |at: &usize| self.fields[*at].data_type == data_type;
        let mut column = self.variants(&property.key, &name, &label).into_iter().find(fits);
        match column {
            Some(found) => {
                self.rules[found] = Some(rule.clone());
                self.claimed[found] = true;
            }
            None if !self.may_add => return Ok(None),
            // Only an evolving schema can wait for the first such value.
            None if property.needs_overflow || builder.options.schema_contract != SchemaContract::Evolve => {
                column = Some(self.push_variant(property, declared, &name, data_type, rule.clone()));
            }
            None => {}
        }
        Ok(Some(Overflow { rule, column }))
    }

    /// Returns the columns that may be the variant `label` of a key: those marked so, then one of that name that nobody else has.
    fn variants(&self, key: &str, name: &str, label: &str) -> Vec<usize> {
        let is_marked = |field: &Field| {
            field.source_name() == Some(key) && field.metadata.get(VARIANT).and_then(Value::as_str) == Some(label)
        };
        let is_named =
            |at: usize, field: &Field| !self.claimed[at] && field.source_name().is_none() && folded(&field.name) == folded(name);
        let all = || self.fields.iter().enumerate();
        let marked = all().filter(|(_, field)| is_marked(field));
        marked.chain(all().filter(|(at, field)| is_named(*at, field))).map(|(at, _)| at).collect()
    }

    fn push_variant(&mut self, property: &Property, declared: &Declared, name: &str, data_type: DataType, rule: Rule) -> usize {
        let name = take(name, &mut self.taken);
        let mut metadata = own_metadata(&property.key, declared);
        metadata.insert(VARIANT.to_owned(), declared.label().into());
        self.push(Field { metadata, ..Field::new(name, data_type) }, rule)
    }

    /// What a property does that would need a column which the contract does not allow.
    fn not_allowed(&self, builder: &Builder<'_>, property: &Property) -> Result<Place> {
        let is_key = self.is_top && builder.keys.contains(&property.key);
        if builder.is_frozen() || is_key {
            return Err(Error::schema("needs a new column in the table, which `schema_contract` does not allow")
                .hint("set `schema_contract` to `evolve`, or add the column to the table"));
        }
        Ok(match builder.options.schema_contract {
            SchemaContract::DiscardRows => Place::Undeclared,
            _ => Place::Dropped,
        })
    }

    fn is_partition(&self, builder: &Builder<'_>, property: &Property, at: usize) -> bool {
        self.is_top
            && match builder.partitions {
                Partitions::Keys(keys) => keys.contains(&property.key),
                Partitions::Columns(names) => {
                    let name = folded(&self.fields[at].name);
                    names.iter().any(|partition| folded(partition) == name)
                }
            }
    }

    /// Keys and partition columns never get a second column.
    fn is_protected(&self, builder: &Builder<'_>, property: &Property, at: usize) -> bool {
        self.is_partition(builder, property, at) || (self.is_top && builder.keys.contains(&property.key))
    }

    fn push(&mut self, field: Field, rule: Rule) -> usize {
        self.taken.insert(folded(&field.name));
        self.fields.push(field);
        self.rules.push(Some(rule));
        self.fills.push(Fill::Record);
        self.claimed.push(true);
        self.fields.len() - 1
    }

    fn set(&mut self, at: usize, fitted: Fitted) {
        let field = &mut self.fields[at];
        field.data_type = fitted.data_type;
        if !fitted.changes.is_empty() {
            let changes = field.metadata.entry("delta.typeChanges").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(changes) = changes {
                changes.extend(fitted.changes.into_iter().map(Value::Object));
            }
        }
        self.rules[at] = Some(fitted.rule);
        self.claimed[at] = true;
    }

    /// Writes the source's names of columns that were matched by name into their metadata: only where the schema changes anyway, and so
    /// that a later run, with keys in another order, matches them alike.
    fn name_sources(&mut self, path: &[String], builder: &Builder<'_>) {
        for ((at_path, key), name) in builder.adopted.iter() {
            if at_path != path || key == name {
                continue;
            }
            let is_it = |field: &Field| field.name == *name && field.source_name().is_none();
            if let Some(at) = self.fields.iter().position(is_it) {
                let metadata = &mut self.fields[at].metadata;
                metadata.insert(types::SOURCE_NAME.to_owned(), key.as_str().into());
                if self.rules[at] == Some(Rule::JsonText) {
                    metadata.insert(CONTENT.to_owned(), "json".into());
                }
            }
        }
    }

    fn columns(&self) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for ((field, rule), fill) in self.fields.iter().zip(&self.rules).zip(&self.fills) {
            columns.push(match rule {
                Some(rule) => Column { name: field.name.clone(), rule: rule.clone(), nullable: field.nullable, fill: *fill },
                None => unfed_column(field, field_limits(field, self.limits)?.as_ref())?,
            });
        }
        Ok(columns)
    }
}

impl Layout {
    /// Adds an expected key.
    fn push(&mut self, source: Source) {
        self.by_key.insert(source.key.clone(), self.sources.len());
        self.sources.push(source);
    }
}
