//! Whether a column of a table takes the values that a SCHEMA declares, and by which rule.

use serde_json::{Value, json};

use super::arrow_types::character_limit;
use super::declared::{Declared, Property, Text, is_json};
use super::delta_json::type_value;
use super::layout::{BinaryEncoding, Column, Fill, Layout, Rule};
use super::types::{CHAR_VARCHAR, DataType, Field};
use super::{ddl, types};
use crate::{Error, Result};

/// How the type of a column and a declared type that is not a struct, list or map within one go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The column holds every value of the declared type.
    Holds,
    /// One family: each value is looked at.
    PerValue,
    /// Two families: no value goes to the column while the declaration stands.
    Conflict,
}

/// What a string column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// JSON text, strings with their quotes.
    Json,
    /// Text.
    Plain,
    /// Not known: another writer made the column.
    Unknown,
}

impl Content {
    pub(super) fn of(field: &Field) -> Self {
        match field.source_name() {
            _ if is_json(field) => Self::Json,
            Some(_) => Self::Plain,
            None => Self::Unknown,
        }
    }
}

/// Returns how a column of `table_type`, of at most `limit` characters, goes together with a declared type.
pub(super) fn relation(table_type: &DataType, limit: Option<u32>, declared: &Declared) -> Relation {
    use Relation::{Conflict, Holds, PerValue};
    let holds = |is_held: bool| if is_held { Holds } else { PerValue };
    match (table_type, declared) {
        (DataType::String | DataType::Other(_), declared) => match (limit, declared) {
            (None, _) if *table_type == DataType::String => Holds,
            (None, _) => Conflict,
            (Some(limit), Declared::Text(Text { limit: Some((_, declared)), .. })) => holds(*declared <= limit),
            (Some(_), _) => PerValue,
        },
        (DataType::Boolean, Declared::Boolean) => Holds,
        (DataType::Byte | DataType::Short | DataType::Integer | DataType::Long, Declared::Decimal { precision, scale: 0 }) => {
            // Every number of so many digits fits.
            if digits(table_type).is_some_and(|digits| *precision < digits) { Holds } else { Conflict }
        }
        (DataType::Byte | DataType::Short | DataType::Integer | DataType::Long, declared) => match declared_digits(declared) {
            Some(declared) => holds(digits(table_type).is_some_and(|digits| declared <= digits)),
            None => Conflict,
        },
        (DataType::Float, Declared::Float | Declared::Byte | Declared::Short) => Holds,
        (DataType::Float, Declared::Double) => PerValue,
        (DataType::Double, Declared::Float | Declared::Double) => Holds,
        (DataType::Double, declared) if declared_digits(declared).is_some() => Holds,
        (DataType::Decimal { precision, scale }, Declared::Decimal { precision: other, scale: other_scale }) => {
            holds(other_scale <= scale && other - other_scale <= precision - scale)
        }
        (DataType::Decimal { precision, scale }, declared) => match declared_digits(declared) {
            Some(digits) => holds(digits <= precision - scale),
            None => Conflict,
        },
        (DataType::Binary, Declared::Binary(_) | Declared::Text(_)) => Holds,
        (DataType::Date, Declared::Date) => Holds,
        (DataType::Timestamp, Declared::Timestamp | Declared::Date) => Holds,
        (DataType::TimestampNtz, Declared::TimestampNtz | Declared::Date) => Holds,
        (DataType::Timestamp, Declared::TimestampNtz) | (DataType::TimestampNtz, Declared::Timestamp) => PerValue,
        _ => Conflict,
    }
}

/// Returns the wider type that holds both, where Delta may change the column's type to it.
/// <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#type-widening>
pub(super) fn widened(table_type: &DataType, declared: &Declared) -> Option<DataType> {
    match (table_type, declared) {
        (DataType::Byte | DataType::Short | DataType::Integer, declared) => {
            let wider = declared_digits(declared)? > digits(table_type)?;
            wider.then(|| declared.scalar().map(|(data_type, _)| data_type))?
        }
        (DataType::Float, Declared::Double) => Some(DataType::Double),
        (DataType::Decimal { precision, scale }, Declared::Decimal { precision: other, scale: other_scale }) => {
            let integer_digits = (precision - scale).max(other - other_scale);
            let scale = *scale.max(other_scale);
            let precision = integer_digits + scale;
            (precision <= 38).then_some(DataType::Decimal { precision, scale })
        }
        (DataType::Date, Declared::TimestampNtz) => Some(DataType::TimestampNtz),
        _ => None,
    }
}

/// Tells whether Delta allows `from` to have become `to`: what another writer may have done to a column that we write.
pub(super) fn is_widening(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Byte | DataType::Short | DataType::Integer, DataType::Double) | (DataType::Float, DataType::Double) => true,
        (DataType::Date, DataType::TimestampNtz) => true,
        (DataType::Decimal { precision, scale }, DataType::Decimal { precision: wider, scale: wider_scale }) => {
            wider_scale >= scale && wider - wider_scale >= precision - scale
        }
        (from, DataType::Decimal { precision, scale }) => {
            // The protocol asks for 10 integer digits even from a byte.
            digits(from).is_some_and(|digits| digits.max(10) <= precision - scale)
        }
        (from, to) => match (digits(from), digits(to)) {
            (Some(from), Some(to)) => from < to,
            _ => false,
        },
    }
}

/// Returns an entry of `delta.typeChanges`.
pub(super) fn type_change(from: &DataType, to: &DataType) -> Value {
    json!({"fromType": type_value(from), "toType": type_value(to)})
}

/// Returns the rule for values of a declared type in a column of a type that is not nested.
///
/// **Errors** `Table` for a type that this program does not write.
pub(super) fn scalar_rule(
    table_type: &DataType,
    content: Content,
    limit: Option<u32>,
    declared: Option<&Declared>,
) -> Result<Rule> {
    Ok(match table_type {
        DataType::Boolean => Rule::Boolean,
        DataType::Byte => Rule::Byte,
        DataType::Short => Rule::Short,
        DataType::Integer => Rule::Integer,
        DataType::Long => Rule::Long,
        DataType::Float => Rule::Float,
        DataType::Double => Rule::Double,
        DataType::Decimal { precision, scale } => Rule::Decimal { precision: *precision, scale: *scale },
        DataType::String => match (content, declared) {
            (Content::Json, _) | (Content::Unknown, Some(Declared::Json)) => Rule::JsonText,
            _ => Rule::Text { max_characters: limit },
        },
        DataType::Binary => Rule::Binary(match declared {
            Some(Declared::Binary(encoding)) => *encoding,
            Some(Declared::Text(text)) => text.encoding.unwrap_or(BinaryEncoding::Utf8),
            _ => BinaryEncoding::Utf8,
        }),
        DataType::Date => Rule::Date,
        DataType::Timestamp => Rule::Timestamp,
        DataType::TimestampNtz => Rule::TimestampNtz,
        DataType::Other(_) if limit.is_some() => Rule::Text { max_characters: limit },
        other => return Err(unwritable(other)),
    })
}

/// Returns the rule of a column that nothing of the stream feeds.
///
/// **Errors** `Table` for a type that this program does not write.
pub(super) fn unfed_rule(data_type: &DataType, content: Content, limits: Option<&Declared>) -> Result<Rule> {
    Ok(match data_type {
        DataType::Struct(fields) => {
            let mut columns = Vec::with_capacity(fields.len());
            for field in fields {
                columns.push(unfed_column(field, field_limits(field, limits)?.as_ref())?);
            }
            Rule::Struct(Box::new(Layout { columns, ..Layout::default() }))
        }
        DataType::Array { element, .. } => Rule::List(Box::new(unfed_rule(element, Content::Unknown, inner_limits(limits))?)),
        DataType::Map { key, .. } if **key != DataType::String => return Err(unwritable(data_type)),
        DataType::Map { value, .. } => Rule::Map(Box::new(unfed_rule(value, Content::Unknown, inner_limits(limits))?)),
        scalar => scalar_rule(scalar, content, limit(scalar, limits), None)?,
    })
}

/// Returns the column of a field that nothing of the stream feeds.
pub(super) fn unfed_column(field: &Field, limits: Option<&Declared>) -> Result<Column> {
    let rule = unfed_rule(&field.data_type, Content::of(field), limits).map_err(|error| error.in_field(&field.name))?;
    Ok(Column { name: field.name.clone(), rule, nullable: field.nullable, fill: Fill::Record })
}

/// Returns the lengths of a field's text: its own metadata's, else what the column around it says of it.
pub(super) fn field_limits(field: &Field, around: Option<&Declared>) -> Result<Option<Declared>> {
    if let Some(text) = field.metadata.get(CHAR_VARCHAR).and_then(Value::as_str) {
        return ddl::parse_catalog(text).map(Some).map_err(|problem| {
            let error = Error::table(format!("has the character type `{text}` in the table, which {problem}"));
            error.in_field(&field.name)
        });
    }
    let Some(Declared::Struct(properties)) = around else { return Ok(None) };
    let named = |property: &&Property| property.key.eq_ignore_ascii_case(&field.name);
    Ok(properties.iter().find(named).map(|property| property.declared.clone()))
}

/// Returns the lengths within a list's elements or a map's values.
pub(super) fn inner_limits(limits: Option<&Declared>) -> Option<&Declared> {
    match limits {
        Some(Declared::List(inner) | Declared::Map(inner)) => Some(inner),
        _ => None,
    }
}

/// Returns the number of characters that a column takes, where it has a limit.
pub(super) fn limit(data_type: &DataType, limits: Option<&Declared>) -> Option<u32> {
    match (data_type, limits) {
        (types::DataType::Other(name), _) => character_limit(name),
        (_, Some(Declared::Text(text))) => text.limit.as_ref().map(|(_, limit)| *limit),
        _ => None,
    }
}

fn unwritable(data_type: &DataType) -> Error {
    Error::table(format!("is of the type `{data_type}` in the table, which delta-load does not write"))
}

/// The digits that hold every value of an integer type.
fn digits(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Byte => Some(3),
        DataType::Short => Some(5),
        DataType::Integer => Some(10),
        DataType::Long => Some(19),
        _ => None,
    }
}

fn declared_digits(declared: &Declared) -> Option<u8> {
    declared.scalar().and_then(|(data_type, _)| digits(&data_type))
}
