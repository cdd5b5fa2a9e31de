//! What a SCHEMA (or a `columns` entry, or the first value of an undeclared field) says about a property, before the table is looked at.

use super::layout::{BinaryEncoding, Rule, ValueKind};
use super::types::{DataType, Field};

/// The key under which a field's metadata keeps `json` for a string column that holds JSON text.
pub(super) const CONTENT: &str = "delta-load.content";

/// The key under which a field's metadata keeps the type label of a variant column (`amount__string` of `amount`: `string`).
pub(super) const VARIANT: &str = "delta-load.variant";

/// A property of an object, by the source's name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Property {
    /// The source's name.
    pub key: String,
    /// Its type.
    pub declared: Declared,
    /// Whether values that do not fit have their place in `<name>__string`.
    pub has_text_overflow: bool,
    /// Whether the overflow column was asked for by a value.
    pub needs_overflow: bool,
    /// Whether the contract leaves its values out.
    pub is_discarded: bool,
}

impl Property {
    pub(super) fn new(key: impl Into<String>, declared: Declared) -> Self {
        Self { key: key.into(), declared, has_text_overflow: false, needs_overflow: false, is_discarded: false }
    }

    /// Returns a property that a column takes as it is, with a place for what does not fit.
    pub(super) fn of_field(key: &str, field: &Field) -> Option<Self> {
        let declared = Declared::of_field(field)?;
        let has_text_overflow = !matches!(declared, Declared::Text(_) | Declared::Json);
        Some(Self { has_text_overflow, ..Self::new(key, declared) })
    }

    /// Returns the properties of the object that `path` leads to; a list element or map value is `[]`.
    pub(super) fn list_at<'p>(properties: &'p mut Vec<Self>, path: &[String]) -> Option<&'p mut Vec<Self>> {
        let Some((key, rest)) = path.split_first() else { return Some(properties) };
        let mut declared = &mut properties.iter_mut().find(|property| property.key == *key)?.declared;
        let mut rest = rest;
        loop {
            match declared {
                Declared::Struct(inner) => return Self::list_at(inner, rest),
                Declared::List(inner) | Declared::Map(inner) => match rest.split_first() {
                    Some((element, after)) if element == "[]" => (declared, rest) = (inner, after),
                    _ => return None,
                },
                _ => return None,
            }
        }
    }
}

/// The type of a property.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Declared {
    Boolean,
    Byte,
    Short,
    Integer,
    Long,
    Float,
    Double,
    Decimal { precision: u8, scale: u8 },
    Text(Text),
    Json,
    Binary(BinaryEncoding),
    Date,
    Timestamp,
    TimestampNtz,
    Struct(Vec<Property>),
    List(Box<Declared>),
    Map(Box<Declared>),
}

/// What is known about a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text {
    /// `varchar(n)` or `char(n)`, with its n.
    pub limit: Option<(String, u32)>,
    /// The `contentEncoding`, for a table that has a binary column there.
    pub encoding: Option<BinaryEncoding>,
}

impl Declared {
    /// Plain text.
    pub(super) const TEXT: Self = Self::Text(Text { limit: None, encoding: None });

    /// Returns the type of an undeclared field by its first value. Dates stay text.
    pub(super) fn of_kind(kind: ValueKind) -> Self {
        match kind {
            ValueKind::Boolean => Self::Boolean,
            ValueKind::Integer => Self::Long,
            ValueKind::Number => Self::Double,
            ValueKind::String => Self::TEXT,
            ValueKind::Nested => Self::Json,
        }
    }

    /// Returns the declaration under which a column takes values by its own type: for a field that the SCHEMA does not declare although the
    /// table has it. `None` for a type that this program does not write.
    pub(super) fn of_field(field: &Field) -> Option<Self> {
        if field.data_type == DataType::String && is_json(field) {
            return Some(Self::Json);
        }
        Self::of_type(&field.data_type)
    }

    fn of_type(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Byte => Self::Byte,
            DataType::Short => Self::Short,
            DataType::Integer => Self::Integer,
            DataType::Long => Self::Long,
            DataType::Float => Self::Float,
            DataType::Double => Self::Double,
            DataType::Decimal { precision, scale } => Self::Decimal { precision: *precision, scale: *scale },
            DataType::String => Self::TEXT,
            DataType::Binary => Self::Binary(BinaryEncoding::Utf8),
            DataType::Date => Self::Date,
            DataType::Timestamp => Self::Timestamp,
            DataType::TimestampNtz => Self::TimestampNtz,
            DataType::Struct(fields) => {
                let own = fields.iter().filter(|field| !field.metadata.contains_key(VARIANT));
                let property = |field: &Field| Property::of_field(field.source_name().unwrap_or(&field.name), field);
                Self::Struct(own.map(property).collect::<Option<_>>()?)
            }
            DataType::Array { element, .. } => Self::List(Box::new(Self::of_type(element)?)),
            DataType::Map { value, .. } => Self::Map(Box::new(Self::of_type(value)?)),
            DataType::Other(_) => Self::TEXT,
        })
    }

    /// Returns the type's part of a variant column's name, and its name in messages.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Boolean => "boolean".to_owned(),
            Self::Byte => "byte".to_owned(),
            Self::Short => "short".to_owned(),
            Self::Integer => "integer".to_owned(),
            Self::Long => "long".to_owned(),
            Self::Float => "float".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Decimal { precision, scale } => format!("decimal_{precision}_{scale}"),
            Self::Text(_) => "string".to_owned(),
            Self::Json => "json".to_owned(),
            Self::Binary(_) => "binary".to_owned(),
            Self::Date => "date".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::TimestampNtz => "timestamp_ntz".to_owned(),
            Self::Struct(_) => "struct".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
        }
    }

    /// Returns the column type and the rule of a type that is not nested.
    pub(super) fn scalar(&self) -> Option<(DataType, Rule)> {
        Some(match self {
            Self::Boolean => (DataType::Boolean, Rule::Boolean),
            Self::Byte => (DataType::Byte, Rule::Byte),
            Self::Short => (DataType::Short, Rule::Short),
            Self::Integer => (DataType::Integer, Rule::Integer),
            Self::Long => (DataType::Long, Rule::Long),
            Self::Float => (DataType::Float, Rule::Float),
            Self::Double => (DataType::Double, Rule::Double),
            Self::Decimal { precision, scale } => {
                let (precision, scale) = (*precision, *scale);
                (DataType::Decimal { precision, scale }, Rule::Decimal { precision, scale })
            }
            Self::Text(text) => (DataType::String, Rule::Text { max_characters: text.limit.as_ref().map(|(_, limit)| *limit) }),
            Self::Json => (DataType::String, Rule::JsonText),
            Self::Binary(encoding) => (DataType::Binary, Rule::Binary(*encoding)),
            Self::Date => (DataType::Date, Rule::Date),
            Self::Timestamp => (DataType::Timestamp, Rule::Timestamp),
            Self::TimestampNtz => (DataType::TimestampNtz, Rule::TimestampNtz),
            Self::Struct(_) | Self::List(_) | Self::Map(_) => return None,
        })
    }

    /// Puts the properties of all structs in the order of their names, so that two declarations compare by content.
    pub(super) fn sort(&mut self) {
        match self {
            Self::Struct(properties) => sort_properties(properties),
            Self::List(inner) | Self::Map(inner) => inner.sort(),
            _ => {}
        }
    }
}

/// Puts properties, and those within them, in the order of their names.
pub(super) fn sort_properties(properties: &mut [Property]) {
    properties.sort_by(|a, b| a.key.cmp(&b.key));
    for property in properties {
        property.declared.sort();
    }
}

/// Tells whether a string column holds JSON text.
pub(super) fn is_json(field: &Field) -> bool {
    field.metadata.get(CONTENT).and_then(serde_json::Value::as_str) == Some("json")
}
