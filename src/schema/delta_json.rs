//! Delta's `schemaString` ↔ [`TableSchema`].
//!
//! Field metadata, unknown types and unknown keys of a field survive a round trip, so that a table of another writer keeps what we do
//! not know. <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format>

use serde_json::{Map, Value, json};

use super::types::{DataType, Field, TableSchema};
use crate::{Error, Result};

/// Where a field's keys beside the protocol's four are kept in its metadata until they are written again. No writer uses such a key.
const UNKNOWN_KEYS: &str = "\u{0}keys";

impl TableSchema {
    /// Returns the `schemaString` of a metaData action.
    pub fn to_json(&self) -> String {
        struct_value(&self.fields).to_string()
    }

    /// Returns the schema that a `schemaString` describes. Types that this program does not know become [`DataType::Other`].
    ///
    /// **Errors** `Table` when it is not JSON or not a struct of named fields.
    pub fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::table("the table's schema is not valid JSON in its metaData action").source(error))?;
        match value.get("fields").and_then(Value::as_array) {
            Some(fields) if value.get("type").and_then(Value::as_str) == Some("struct") => {
                Ok(Self { fields: fields.iter().map(field).collect::<Result<_>>()? })
            }
            _ => Err(Error::table("the table's schema is not a struct in its metaData action")),
        }
    }
}

/// Returns the type as the log writes it: a string for primitive types, else an object.
pub(super) fn type_value(data_type: &DataType) -> Value {
    match data_type {
        DataType::Struct(fields) => struct_value(fields),
        DataType::Array { element, contains_null } => {
            json!({"type": "array", "elementType": type_value(element), "containsNull": contains_null})
        }
        DataType::Map { key, value, value_contains_null } => {
            let (key, value) = (type_value(key), type_value(value));
            json!({"type": "map", "keyType": key, "valueType": value, "valueContainsNull": value_contains_null})
        }
        DataType::Other(value) => value.clone(),
        primitive => Value::String(primitive.to_string()),
    }
}

fn struct_value(fields: &[Field]) -> Value {
    json!({"type": "struct", "fields": fields.iter().map(field_value).collect::<Vec<_>>()})
}

fn field_value(field: &Field) -> Value {
    let mut metadata = field.metadata.clone();
    let unknown = metadata.remove(UNKNOWN_KEYS);
    let mut value = json!({
        "name": field.name,
        "type": type_value(&field.data_type),
        "nullable": field.nullable,
        "metadata": metadata,
    });
    if let (Some(Value::Object(unknown)), Value::Object(value)) = (unknown, &mut value) {
        value.extend(unknown);
    }
    value
}

fn field(value: &Value) -> Result<Field> {
    let (Some(name), Some(data_type)) = (value.get("name").and_then(Value::as_str), value.get("type")) else {
        return Err(Error::table("the table's schema has a field without name or type"));
    };
    let mut metadata = value.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_known = |key: &str| matches!(key, "name" | "type" | "nullable" | "metadata");
    let unknown: Map<String, Value> = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !is_known(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !unknown.is_empty() {
        metadata.insert(UNKNOWN_KEYS.to_owned(), Value::Object(unknown));
    }
    Ok(Field {
        name: name.to_owned(),
        data_type: parse_type(data_type).map_err(|error| error.in_field(name))?,
        nullable: value.get("nullable").and_then(Value::as_bool).unwrap_or(true),
        metadata,
    })
}

fn parse_type(value: &Value) -> Result<DataType> {
    if let Some(name) = value.as_str() {
        return Ok(primitive(name).unwrap_or_else(|| DataType::Other(value.clone())));
    }
    match value.get("type").and_then(Value::as_str) {
        Some("struct") => match value.get("fields").and_then(Value::as_array) {
            Some(fields) => Ok(DataType::Struct(fields.iter().map(field).collect::<Result<_>>()?)),
            None => Err(Error::table("is a struct without fields in the table's schema")),
        },
        Some("array") => match value.get("elementType") {
            Some(element) => Ok(DataType::Array {
                element: Box::new(parse_type(element)?),
                contains_null: value.get("containsNull").and_then(Value::as_bool).unwrap_or(true),
            }),
            None => Err(Error::table("is an array without a type of its elements in the table's schema")),
        },
        Some("map") => match (value.get("keyType"), value.get("valueType")) {
            (Some(key), Some(map_value)) => Ok(DataType::Map {
                key: Box::new(parse_type(key)?),
                value: Box::new(parse_type(map_value)?),
                value_contains_null: value.get("valueContainsNull").and_then(Value::as_bool).unwrap_or(true),
            }),
            _ => Err(Error::table("is a map without types of keys and values in the table's schema")),
        },
        _ => Ok(DataType::Other(value.clone())),
    }
}

fn primitive(name: &str) -> Option<DataType> {
    Some(match name {
        "boolean" => DataType::Boolean,
        "byte" => DataType::Byte,
        "short" => DataType::Short,
        "integer" => DataType::Integer,
        "long" => DataType::Long,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "string" => DataType::String,
        "binary" => DataType::Binary,
        "date" => DataType::Date,
        "timestamp" => DataType::Timestamp,
        "timestamp_ntz" => DataType::TimestampNtz,
        // Spark's bare name of its default decimal.
        "decimal" => DataType::Decimal { precision: 10, scale: 0 },
        _ => {
            let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            if !(1..=38).contains(&precision) || scale > precision {
                return None;
            }
            DataType::Decimal { precision, scale }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARK: &str = r#"{"type":"struct","fields":[{"name":"a","type":"integer","nullable":false,"metadata":{"comment":"x","delta.columnMapping.id":3,"deep":{"b":[1,2.5]}}},{"name":"d","type":"decimal(10,2)","nullable":true,"metadata":{}},{"name":"s","type":{"type":"struct","fields":[{"name":"x y","type":"timestamp_ntz","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},{"name":"l","type":{"type":"array","elementType":"string","containsNull":false},"nullable":true,"metadata":{}},{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"byte","containsNull":true},"valueContainsNull":false},"nullable":true,"metadata":{}},{"name":"v","type":"variant","nullable":true,"metadata":{}},{"name":"vc","type":"string","nullable":true,"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"varchar(10)"}},{"name":"c","type":"varchar(10)","nullable":true,"metadata":{}},{"name":"u","type":{"type":"udt","class":"X","sqlType":"long"},"nullable":true,"metadata":{}},{"name":"k","type":"long","nullable":true,"metadata":{},"future":{"key":[1]}}]}"#;

    #[test]
    fn a_schema_string_survives_word_for_word() {
        let schema = TableSchema::from_json(SPARK).unwrap();
        assert_eq!(schema.to_json(), SPARK);
        assert_eq!(schema.fields[1].data_type, DataType::Decimal { precision: 10, scale: 2 });
        assert_eq!(schema.fields[5].data_type, DataType::Other(json!("variant")));
        assert_eq!(TableSchema::from_json(&schema.to_json()).unwrap(), schema);
    }

    #[test]
    fn every_primitive_type_has_its_name() {
        for name in
            "boolean byte short integer long float double string binary date timestamp timestamp_ntz decimal(38,38) decimal(1,0)"
                .split(' ')
        {
            let data_type = parse_type(&json!(name)).unwrap();
            assert!(!matches!(data_type, DataType::Other(_)), "{name}");
            assert_eq!(type_value(&data_type), json!(name));
        }
        for name in ["decimal(39,0)", "decimal(3,4)", "decimal(0,0)", "interval day", "void", "char(3)"] {
            assert_eq!(parse_type(&json!(name)).unwrap(), DataType::Other(json!(name)));
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"type":"struct"}"#,
            r#"{"type":"struct","fields":[{"type":"long"}]}"#,
            r#"{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}"#,
        ] {
            assert_eq!(TableSchema::from_json(text).unwrap_err().kind(), crate::ErrorKind::Table, "{text}");
        }
    }
}
