//! The types of a table: Delta's data types, fields and schemas, as the log writes them.

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
