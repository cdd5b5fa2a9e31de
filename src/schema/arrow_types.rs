//! Arrow ↔ Delta types: one Arrow form per Delta type, as Parquet files of a Delta table need it.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::Value;

use super::types::{DataType, Field, TableSchema};
use crate::{Error, Result};

impl TableSchema {
    /// Returns the Arrow schema of the table's record batches.
    ///
    /// **Shape** one field per column, in order, partition columns included; timestamps in microseconds (`UTC` or without zone),
    /// strings as `Utf8`, lists with the field `element`, maps with the entries `key_value` of `key` and `value`.
    ///
    /// **Errors** `Table` for a column of a type that this program does not write.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        let fields = self.fields.iter().map(arrow_field).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Returns the table schema of record batches in the form of [`Self::arrow_schema`].
    ///
    /// **Errors** `Schema` for an Arrow type that no Delta type has as its form.
    pub fn from_arrow(schema: &Schema) -> Result<Self> {
        Ok(Self { fields: schema.fields().iter().map(|field| delta_field(field)).collect::<Result<_>>()? })
    }
}

/// Returns the number of characters that a type `varchar(n)` or `char(n)` of the log allows.
pub(super) fn character_limit(name: &Value) -> Option<u32> {
    let name = name.as_str()?;
    let number = name.strip_prefix("varchar(").or_else(|| name.strip_prefix("char("))?;
    number.strip_suffix(')')?.trim().parse().ok()
}

fn arrow_field(field: &Field) -> Result<ArrowField> {
    let data_type = arrow_type(&field.data_type).map_err(|error| error.in_field(&field.name))?;
    Ok(ArrowField::new(&field.name, data_type, field.nullable))
}

fn arrow_type(data_type: &DataType) -> Result<ArrowType> {
    Ok(match data_type {
        DataType::Boolean => ArrowType::Boolean,
        DataType::Byte => ArrowType::Int8,
        DataType::Short => ArrowType::Int16,
        DataType::Integer => ArrowType::Int32,
        DataType::Long => ArrowType::Int64,
        DataType::Float => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } => {
            ArrowType::Decimal128(*precision, i8::try_from(*scale).map_err(|_| unsupported(data_type))?)
        }
        DataType::String => ArrowType::Utf8,
        DataType::Binary => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Struct(fields) => ArrowType::Struct(fields.iter().map(arrow_field).collect::<Result<Fields>>()?),
        DataType::Array { element, contains_null } => {
            ArrowType::List(Arc::new(ArrowField::new("element", arrow_type(element)?, *contains_null)))
        }
        DataType::Map { key, value, value_contains_null } => {
            let key = ArrowField::new("key", arrow_type(key)?, false);
            let value = ArrowField::new("value", arrow_type(value)?, *value_contains_null);
            let entries = ArrowType::Struct(Fields::from(vec![key, value]));
            ArrowType::Map(Arc::new(ArrowField::new("key_value", entries, false)), false)
        }
        DataType::Other(name) if character_limit(name).is_some() => ArrowType::Utf8,
        DataType::Other(_) => return Err(unsupported(data_type)),
    })
}

fn unsupported(data_type: &DataType) -> Error {
    Error::table(format!("is of the type `{data_type}` in the table, which delta-load does not write"))
}

fn delta_field(field: &ArrowField) -> Result<Field> {
    let data_type = delta_type(field.data_type()).map_err(|error| error.in_field(field.name()))?;
    Ok(Field { nullable: field.is_nullable(), ..Field::new(field.name(), data_type) })
}

fn delta_type(data_type: &ArrowType) -> Result<DataType> {
    let no_form = || Error::schema(format!("is of the Arrow type {data_type}, which no Delta type has as its form"));
    Ok(match data_type {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 => DataType::Byte,
        ArrowType::Int16 => DataType::Short,
        ArrowType::Int32 => DataType::Integer,
        ArrowType::Int64 => DataType::Long,
        ArrowType::Float32 => DataType::Float,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) => {
            let scale = u8::try_from(*scale).map_err(|_| no_form())?;
            DataType::Decimal { precision: *precision, scale }
        }
        ArrowType::Utf8 => DataType::String,
        ArrowType::Binary => DataType::Binary,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => DataType::TimestampNtz,
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => DataType::Timestamp,
        ArrowType::Struct(fields) => DataType::Struct(fields.iter().map(|field| delta_field(field)).collect::<Result<_>>()?),
        ArrowType::List(element) => {
            DataType::Array { element: Box::new(delta_type(element.data_type())?), contains_null: element.is_nullable() }
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(pair) if pair.len() == 2 => DataType::Map {
                key: Box::new(delta_type(pair[0].data_type())?),
                value: Box::new(delta_type(pair[1].data_type())?),
                value_contains_null: pair[1].is_nullable(),
            },
            _ => return Err(no_form()),
        },
        _ => return Err(no_form()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any type that this program writes.
    pub(crate) fn any_type() -> impl Strategy<Value = DataType> {
        let leaf = prop_oneof![
            Just(DataType::Boolean),
            Just(DataType::Byte),
            Just(DataType::Short),
            Just(DataType::Integer),
            Just(DataType::Long),
            Just(DataType::Float),
            Just(DataType::Double),
            (1u8..=38)
                .prop_flat_map(|precision| { (0..=precision).prop_map(move |scale| DataType::Decimal { precision, scale }) }),
            Just(DataType::String),
            Just(DataType::Binary),
            Just(DataType::Date),
            Just(DataType::Timestamp),
            Just(DataType::TimestampNtz),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec((".{0,6}", inner.clone(), any::<bool>()), 1..4).prop_map(|fields| {
                    let field = |(name, data_type, nullable): (String, _, _)| Field { nullable, ..Field::new(name, data_type) };
                    DataType::Struct(fields.into_iter().map(field).collect())
                }),
                (inner.clone(), any::<bool>())
                    .prop_map(|(element, contains_null)| DataType::Array { element: Box::new(element), contains_null }),
                (inner, any::<bool>()).prop_map(|(value, value_contains_null)| DataType::Map {
                    key: Box::new(DataType::String),
                    value: Box::new(value),
                    value_contains_null
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn arrow_and_delta_types_round_trip(types in prop::collection::vec((any_type(), any::<bool>()), 0..5)) {
            let fields = types.into_iter().enumerate();
            let fields = fields.map(|(at, (data_type, nullable))| Field { nullable, ..Field::new(format!("c{at}"), data_type) });
            let schema = TableSchema { fields: fields.collect() };
            prop_assert_eq!(&TableSchema::from_arrow(&schema.arrow_schema().unwrap()).unwrap(), &schema);
            prop_assert_eq!(TableSchema::from_json(&schema.to_json()).unwrap(), schema);
        }
    }

    #[test]
    fn nested_types_have_the_names_that_parquet_wants() {
        let map = DataType::Map {
            key: Box::new(DataType::String),
            value: Box::new(DataType::Array { element: Box::new(DataType::Timestamp), contains_null: true }),
            value_contains_null: true,
        };
        let schema = TableSchema { fields: vec![Field::new("m", map)] }.arrow_schema().unwrap();
        let utc = ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let list = ArrowType::List(Arc::new(ArrowField::new("element", utc, true)));
        let pair = vec![ArrowField::new("key", ArrowType::Utf8, false), ArrowField::new("value", list, true)];
        let entries = ArrowField::new("key_value", ArrowType::Struct(pair.into()), false);
        assert_eq!(schema.field(0).data_type(), &ArrowType::Map(Arc::new(entries), false));
    }

    #[test]
    fn a_type_that_is_not_written_is_refused_with_its_column() {
        let inner = Field::new("v", DataType::Other(json!("variant")));
        let schema = TableSchema { fields: vec![Field::new("a", DataType::Struct(vec![inner]))] };
        let error = schema.arrow_schema().unwrap_err();
        assert_eq!(error.to_string(), "field `a.v` is of the type `variant` in the table, which delta-load does not write");
        let varchar = TableSchema { fields: vec![Field::new("c", DataType::Other(json!("varchar(7)")))] };
        assert_eq!(varchar.arrow_schema().unwrap().field(0).data_type(), &ArrowType::Utf8);
        assert!(TableSchema::from_arrow(&Schema::new(vec![ArrowField::new("x", ArrowType::LargeUtf8, true)])).is_err());
    }
}
