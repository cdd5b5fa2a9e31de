//! Properties and a table's columns → the columns afterwards and the layout of the records.
//!
//! Building again on the columns that an earlier building returned gives the same columns at the same places, with new ones behind
//! them at each level: that is what lets open builders go on when a schema grows.

mod columns;
mod level;

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::level::Level;
use super::declared::{Declared, Property};
use super::fit::{Content, Relation, inner_limits, limit, relation, scalar_rule, type_change, widened};
use super::layout::{Layout, MetadataColumn, Rule};
use super::types::{DataType, Field};
use super::{Options, SchemaContract, types};
use crate::{Error, Result};

pub(super) use self::columns::{match_columns, metadata_column};

/// Columns without our metadata that were matched by name: they stay matched as long as the stream lives.
pub(super) type Adopted = HashMap<(Vec<String>, String), String>;

/// Which properties are partition columns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Partitions<'a> {
    /// By the source's names: the table does not exist yet.
    Keys(&'a [String]),
    /// By the table's names.
    Columns(&'a [String]),
}

/// Builds layouts. One value per building.
pub(super) struct Builder<'a> {
    pub options: &'a Options,
    pub keys: &'a [String],
    pub partitions: Partitions<'a>,
    /// Whether columns may be added.
    pub may_add: bool,
    /// Whether types may be widened.
    pub may_widen: bool,
    /// The metadata columns that are written.
    pub metadata: &'a [MetadataColumn],
    pub adopted: &'a mut Adopted,
    pub notices: &'a mut Vec<String>,
}

/// How a column takes what is declared.
enum Fit {
    Whole(Fitted),
    PerValue(Fitted),
    Conflict,
}

/// A column's type afterwards, the rule, and entries of `delta.typeChanges`.
struct Fitted {
    data_type: DataType,
    rule: Rule,
    changes: Vec<Map<String, Value>>,
}

impl Builder<'_> {
    /// Builds the top level.
    ///
    /// **Errors** `Schema` when a column cannot follow the declaration under the contract; `Table` for a column that cannot be written.
    pub(super) fn build(&mut self, existing: &[Field], properties: &[Property]) -> Result<(Vec<Field>, Layout)> {
        self.level(existing, None, properties, &mut Vec::new(), false)
    }

    /// Returns type and rule of a new column.
    fn new_column(&mut self, declared: &Declared, path: &mut Vec<String>) -> Result<(DataType, Rule)> {
        Ok(match declared {
            Declared::Struct(properties) => {
                let (fields, layout) = self.level(&[], None, properties, path, true)?;
                (DataType::Struct(fields), Rule::Struct(Box::new(layout)))
            }
            Declared::List(inner) => {
                let (element, rule) = self.inside(path, |builder, path| builder.new_column(inner, path))?;
                (DataType::Array { element: Box::new(element), contains_null: true }, Rule::List(Box::new(rule)))
            }
            Declared::Map(inner) => {
                let (value, rule) = self.inside(path, |builder, path| builder.new_column(inner, path))?;
                let key = Box::new(DataType::String);
                (DataType::Map { key, value: Box::new(value), value_contains_null: true }, Rule::Map(Box::new(rule)))
            }
            scalar => scalar.scalar().ok_or_else(|| Error::internal("a nested type was taken for a scalar one"))?,
        })
    }

    /// Goes one step into a list or map.
    fn inside<T>(&mut self, path: &mut Vec<String>, then: impl FnOnce(&mut Self, &mut Vec<String>) -> Result<T>) -> Result<T> {
        path.push("[]".to_owned());
        let result = then(self, path).map_err(|error| error.in_field("[]"));
        path.pop();
        result
    }

    /// Tells how a column takes what is declared.
    fn fit(
        &mut self,
        table_type: &DataType,
        content: Content,
        limits: Option<&Declared>,
        declared: &Declared,
        path: &mut Vec<String>,
    ) -> Result<Fit> {
        match (table_type, declared) {
            (DataType::Struct(fields), Declared::Struct(properties)) => {
                let (fields, layout) = self.level(fields, limits, properties, path, false)?;
                let (data_type, rule) = (DataType::Struct(fields), Rule::Struct(Box::new(layout)));
                Ok(Fit::Whole(Fitted { data_type, rule, changes: Vec::new() }))
            }
            (DataType::Array { element, contains_null }, Declared::List(inner)) => {
                let limits = inner_limits(limits);
                let fit = self.inside(path, |builder, path| builder.fit(element, Content::Unknown, limits, inner, path))?;
                Ok(fit.wrap("element", |element, rule| {
                    let element = Box::new(element);
                    (DataType::Array { element, contains_null: *contains_null }, Rule::List(Box::new(rule)))
                }))
            }
            (DataType::Map { key, value, value_contains_null }, Declared::Map(inner)) if **key == DataType::String => {
                let limits = inner_limits(limits);
                let fit = self.inside(path, |builder, path| builder.fit(value, Content::Unknown, limits, inner, path))?;
                Ok(fit.wrap("value", |value, rule| {
                    let (key, value, value_contains_null) = (key.clone(), Box::new(value), *value_contains_null);
                    (DataType::Map { key, value, value_contains_null }, Rule::Map(Box::new(rule)))
                }))
            }
            (DataType::Struct(_) | DataType::Array { .. } | DataType::Map { .. }, _) => Ok(Fit::Conflict),
            _ => self.fit_scalar(table_type, content, limit(table_type, limits), declared),
        }
    }

    fn fit_scalar(&self, table_type: &DataType, content: Content, limit: Option<u32>, declared: &Declared) -> Result<Fit> {
        let mut relation = relation(table_type, limit, declared);
        let (mut data_type, mut changes) = (table_type.clone(), Vec::new());
        if relation != Relation::Holds
            && self.may_widen
            && let Some(wider) = widened(table_type, declared)
        {
            if let Value::Object(change) = type_change(table_type, &wider) {
                changes.push(change);
            }
            data_type = wider;
            relation = Relation::Holds;
        }
        let fitted = |rule| Fitted { data_type, rule, changes };
        Ok(match relation {
            Relation::Conflict => Fit::Conflict,
            Relation::Holds => {
                let fitted = fitted(Rule::Boolean);
                let rule = scalar_rule(&fitted.data_type, content, limit, Some(declared))?;
                Fit::Whole(Fitted { rule, ..fitted })
            }
            Relation::PerValue => Fit::PerValue(fitted(scalar_rule(table_type, content, limit, Some(declared))?)),
        })
    }

    fn level(
        &mut self,
        existing: &[Field],
        limits: Option<&Declared>,
        properties: &[Property],
        path: &mut Vec<String>,
        is_new: bool,
    ) -> Result<(Vec<Field>, Layout)> {
        Level::build(self, existing, limits, properties, path, is_new)
    }

    /// What stands in the way of a column that the contract does not allow.
    fn is_frozen(&self) -> bool {
        self.options.schema_contract == SchemaContract::Freeze
    }
}

impl Fit {
    /// Puts a list or map around what fits; `step` leads to it in `delta.typeChanges`.
    fn wrap(self, step: &str, container: impl FnOnce(DataType, Rule) -> (DataType, Rule)) -> Self {
        let wrap = |fitted: Fitted| {
            let (data_type, rule) = container(fitted.data_type, fitted.rule);
            let mut changes = fitted.changes;
            for change in &mut changes {
                let path = match change.get("fieldPath").and_then(Value::as_str) {
                    Some(rest) => format!("{step}.{rest}"),
                    None => step.to_owned(),
                };
                change.insert("fieldPath".to_owned(), Value::String(path));
            }
            Fitted { data_type, rule, changes }
        };
        match self {
            Self::Whole(fitted) => Self::Whole(wrap(fitted)),
            Self::PerValue(fitted) => Self::PerValue(wrap(fitted)),
            Self::Conflict => Self::Conflict,
        }
    }
}

/// The metadata of a column of ours.
fn own_metadata(key: &str, declared: &Declared) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert(types::SOURCE_NAME.to_owned(), key.into());
    match declared {
        Declared::Json => {
            metadata.insert(super::declared::CONTENT.to_owned(), "json".into());
        }
        Declared::Text(text) => {
            if let Some((name, _)) = &text.limit {
                metadata.insert(types::CHAR_VARCHAR.to_owned(), name.as_str().into());
            }
        }
        _ => {}
    }
    metadata
}
