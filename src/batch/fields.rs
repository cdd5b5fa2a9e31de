//! One level of nesting: its columns, and which key of the JSON object feeds which of them.

use std::collections::HashMap;

use super::column::{Absence, Column, Values};
use crate::schema::{self, DataType, Fill, Layout, MetadataColumn, Rule};
use crate::{Error, Result};

/// The columns of a level and the keys that feed them.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    pub columns: Vec<Column>,
    pub names: Vec<String>,
    pub fills: Vec<Fill>,
    pub keys: Keys,
}

/// The keys that a level expects.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub sources: Vec<Key>,
    pub by_key: HashMap<String, usize>,
    /// Which key is expected after which: `next[0]` is the first, `next[i + 1]` follows source `i`. Starts in the order of the
    /// SCHEMA and follows what the last record had; only a guess, every key is compared.
    pub next: Vec<usize>,
    /// The columns of the key properties.
    pub required: Vec<usize>,
}

/// A key and what becomes of its value.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub key: String,
    /// `"key":` as the records write it.
    pub pattern: Vec<u8>,
    pub column: Option<usize>,
    /// Some: single values that do not fit have a place; the index once it exists.
    pub overflow: Option<Option<usize>>,
    /// A key property.
    pub is_key: bool,
    /// A key property or partition column: a bad value fails the load.
    pub is_fatal: bool,
}

/// The key by which a tap marks deleted records.
pub(super) const DELETED_AT: &str = "_sdc_deleted_at";

impl Fields {
    /// Returns the level of `layout`, each column filled with `rows` nulls; `fields` are the table's, in the same order.
    pub fn new(layout: &Layout, fields: &[schema::Field], rows: usize) -> Self {
        let columns = layout.columns.iter().enumerate().map(|(index, column)| {
            let mut built = Column::new(&column.rule, fields.get(index).map(|field| &field.data_type), absence_of(column));
            built.push_nulls_if(rows);
            built
        });
        let mut built = Self {
            columns: columns.collect(),
            names: layout.columns.iter().map(|column| column.name.clone()).collect(),
            fills: layout.columns.iter().map(|column| column.fill).collect(),
            keys: Keys::new(layout),
        };
        built.mark_partitions(layout);
        built
    }

    fn mark_partitions(&mut self, layout: &Layout) {
        for column in layout.sources.iter().filter(|source| source.is_partition).filter_map(|source| source.column) {
            if let Some(Column { values: Values::Binary { must_be_text, .. }, .. }) = self.columns.get_mut(column) {
                *must_be_text = true;
            }
        }
    }

    /// Takes over `layout`, which has every column of this one by name; new columns get `rows` nulls.
    ///
    /// Errors: `Internal` when a column is gone or has another type; nothing is changed then.
    pub fn extend(&mut self, layout: &Layout, fields: &[schema::Field], rows: usize) -> Result<()> {
        self.check_extension(layout)?;
        let mut old: HashMap<String, Column> = std::mem::take(&mut self.names).into_iter().zip(self.columns.drain(..)).collect();
        let mut next = Fields { columns: Vec::new(), names: Vec::new(), fills: Vec::new(), keys: Keys::new(layout) };
        for (index, column) in layout.columns.iter().enumerate() {
            let data_type = fields.get(index).map(|field| &field.data_type);
            let built = match old.remove(&column.name) {
                Some(mut built) => {
                    built.extend(&column.rule, data_type)?;
                    built.absence = absence_of(column);
                    built
                }
                None => {
                    let mut built = Column::new(&column.rule, data_type, absence_of(column));
                    built.push_nulls_if(rows);
                    built
                }
            };
            next.columns.push(built);
            next.names.push(column.name.clone());
            next.fills.push(column.fill);
        }
        next.mark_partitions(layout);
        *self = next;
        Ok(())
    }

    fn check_extension(&self, layout: &Layout) -> Result<()> {
        for (name, column) in self.names.iter().zip(&self.columns) {
            match layout.columns.iter().find(|candidate| candidate.name == *name) {
                Some(candidate) => column.check_extension(&candidate.rule).map_err(|error| error.in_field(name))?,
                None => return Err(Error::internal("is not in the next layout of an open batch").in_field(name)),
            }
        }
        Ok(())
    }

    /// Leaves the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
    }

    /// Takes the content; the level stays, empty.
    pub fn take(&mut self) -> Fields {
        Fields {
            columns: self.columns.iter_mut().map(Column::take).collect(),
            names: Vec::new(),
            fills: Vec::new(),
            keys: Keys { sources: Vec::new(), by_key: HashMap::new(), next: vec![0], required: Vec::new() },
        }
    }

    /// Returns the column that `metadata` fills.
    pub fn metadata_column(&self, metadata: MetadataColumn) -> Option<usize> {
        self.fills.iter().position(|fill| *fill == Fill::Metadata(metadata))
    }
}

/// Equal content; what was learnt about the order of keys does not count.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns
    }
}

impl Keys {
    fn new(layout: &Layout) -> Self {
        let mut sources: Vec<Key> = layout
            .sources
            .iter()
            .map(|source| Key {
                key: source.key.clone(),
                pattern: pattern_of(&source.key),
                column: source.column,
                overflow: source.overflow.as_ref().map(|overflow| overflow.column),
                is_key: source.is_key,
                is_fatal: source.is_key || source.is_partition,
            })
            .collect();
        let mut by_key = layout.by_key.clone();
        // A tap's own mark of deletion feeds the metadata column also where the SCHEMA does not declare it.
        let deleted_at = layout.columns.iter().position(|column| column.fill == Fill::Metadata(MetadataColumn::DeletedAt));
        if let Some(column) = deleted_at
            && !by_key.contains_key(DELETED_AT)
        {
            by_key.insert(DELETED_AT.to_owned(), sources.len());
            sources.push(Key {
                key: DELETED_AT.to_owned(),
                pattern: pattern_of(DELETED_AT),
                column: Some(column),
                overflow: None,
                is_key: false,
                is_fatal: false,
            });
        }
        let next = (0..=sources.len()).collect();
        let required = sources.iter().filter(|source| source.is_key).filter_map(|source| source.column).collect();
        Self { sources, by_key, next, required }
    }
}

impl Column {
    fn push_nulls_if(&mut self, rows: usize) {
        if rows > 0 {
            self.push_nulls(rows);
        }
    }

    fn extend(&mut self, rule: &Rule, data_type: Option<&DataType>) -> Result<()> {
        let rows = self.len();
        match (&mut self.values, rule, data_type) {
            (Values::Struct(fields), Rule::Struct(layout), Some(DataType::Struct(types))) => fields.extend(layout, types, rows),
            (Values::List { element, .. }, Rule::List(rule), Some(DataType::Array { element: data_type, contains_null })) => {
                element.absence = Absence::of(*contains_null);
                element.extend(rule, Some(data_type))
            }
            (Values::Map { value, .. }, Rule::Map(rule), Some(DataType::Map { value: data_type, value_contains_null, .. })) => {
                value.absence = Absence::of(*value_contains_null);
                value.extend(rule, Some(data_type))
            }
            (Values::Text { max_characters, .. }, Rule::Text { max_characters: new }, _) => {
                *max_characters = *new;
                Ok(())
            }
            (Values::Binary { encoding, .. }, Rule::Binary(new), _) => {
                *encoding = *new;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_extension(&self, rule: &Rule) -> Result<()> {
        match (&self.values, rule) {
            (Values::Struct(fields), Rule::Struct(layout)) => fields.check_extension(layout),
            (Values::List { element, .. }, Rule::List(rule)) => element.check_extension(rule),
            (Values::Map { value, .. }, Rule::Map(rule)) => value.check_extension(rule),
            (values, rule) => {
                let is_same = match (values, &Column::new(rule, None, Absence::Null).values) {
                    (
                        Values::Decimal { precision, scale, .. },
                        Values::Decimal { precision: new_precision, scale: new_scale, .. },
                    ) => (precision, scale) == (new_precision, new_scale),
                    (old, new) => std::mem::discriminant(old) == std::mem::discriminant(new),
                };
                if is_same { Ok(()) } else { Err(Error::internal("has another type in the next layout of an open batch")) }
            }
        }
    }
}

fn absence_of(column: &schema::Column) -> Absence {
    match column.fill {
        Fill::Metadata(_) => Absence::Metadata,
        Fill::Record => Absence::of(column.nullable),
    }
}

fn pattern_of(key: &str) -> Vec<u8> {
    format!("{}:", serde_json::Value::from(key)).into_bytes()
}
