//! The types of a table: Delta's data types, fields and schemas, as the log writes them.

use std::fmt;

use serde_json::{Map, Value};

/// A Delta data type.
#[derive(Debug, Clone, PartialEq)]
pub enum DataType {
    /// `boolean`
    Boolean,
    /// `byte`, 8 bits
    Byte,
    /// `short`, 16 bits
    Short,
    /// `integer`, 32 bits
    Integer,
    /// `long`, 64 bits
    Long,
    /// `float`, 32 bits
    Float,
    /// `double`, 64 bits
    Double,
    /// `decimal(precision,scale)`, precision 1 to 38
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `string`
    String,
    /// `binary`
    Binary,
    /// `date`
    Date,
    /// `timestamp`: microseconds since 1970, UTC
    Timestamp,
    /// `timestamp_ntz`: microseconds of a wall clock
    TimestampNtz,
    /// A struct of fields.
    Struct(Vec<Field>),
    /// An array.
    Array {
        /// The type of an element.
        element: Box<DataType>,
        /// Whether an element may be null.
        contains_null: bool,
    },
    /// A map.
    Map {
        /// The type of a key.
        key: Box<DataType>,
        /// The type of a value.
        value: Box<DataType>,
        /// Whether a value may be null.
        value_contains_null: bool,
    },
    /// A type that this program does not write (`variant`, `interval …`), word for word.
    Other(Value),
}

/// A column of a table, or a field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The logical name.
    pub name: String,
    /// The type.
    pub data_type: DataType,
    /// Whether null is allowed. Every field that we add allows it.
    pub nullable: bool,
    /// The field's metadata, kept word for word; ours is `delta-load.source_name`.
    pub metadata: Map<String, Value>,
}

/// The schema of a table: its columns, partition columns included, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableSchema {
    /// The columns.
    pub fields: Vec<Field>,
}

/// The key under which a field's metadata keeps the name that the source gives it.
pub const SOURCE_NAME: &str = "delta-load.source_name";

/// The key under which Spark keeps `varchar(n)` and `char(n)`: the type in the log is `string`.
/// <https://github.com/apache/spark/blob/master/sql/api/src/main/scala/org/apache/spark/sql/catalyst/util/SparkCharVarcharUtils.scala>
pub const CHAR_VARCHAR: &str = "__CHAR_VARCHAR_TYPE_STRING";

impl Field {
    /// Returns a nullable field without metadata.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self { name: name.into(), data_type, nullable: true, metadata: Map::new() }
    }

    /// Returns the name that the source gives the field, where it is known.
    pub fn source_name(&self) -> Option<&str> {
        self.metadata.get(SOURCE_NAME).and_then(Value::as_str)
    }
}

impl DataType {
    /// Tells whether a column of the type may be a partition column.
    pub fn is_primitive(&self) -> bool {
        !matches!(self, Self::Struct(_) | Self::Array { .. } | Self::Map { .. } | Self::Other(Value::Object(_)))
    }
}

/// The name as the log has it; `struct<a: long>`, `array<long>`, `map<string, long>` for nested types.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::Byte => f.write_str("byte"),
            Self::Short => f.write_str("short"),
            Self::Integer => f.write_str("integer"),
            Self::Long => f.write_str("long"),
            Self::Float => f.write_str("float"),
            Self::Double => f.write_str("double"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::String => f.write_str("string"),
            Self::Binary => f.write_str("binary"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::TimestampNtz => f.write_str("timestamp_ntz"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name, field.data_type)?;
                }
                f.write_str(">")
            }
            Self::Array { element, .. } => write!(f, "array<{element}>"),
            Self::Map { key, value, .. } => write!(f, "map<{key}, {value}>"),
            Self::Other(Value::String(name)) => f.write_str(name),
            Self::Other(value) => write!(f, "{value}"),
        }
    }
}
