//! How records of one Singer SCHEMA become rows of one table: made by [`super::StreamSchema`], followed by the `batch` room.
//!
//! A layout is a plain value. It names, per level of nesting, the columns in table order, and per expected key of the record which column
//! takes its value by which rule. Columns are only ever appended from one layout of a stream to the next of the same SCHEMA
//! evolution, so that open builders can be extended with nulls.

use std::collections::HashMap;
use std::sync::Arc;

use super::types::TableSchema;

/// The rule by which a JSON value becomes a value of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// true, false, 0, 1, `t`, `f`, `true`, `false` in any case
    Boolean,
    /// An 8-bit integer.
    Byte,
    /// A 16-bit integer.
    Short,
    /// A 32-bit integer.
    Integer,
    /// A 64-bit integer.
    Long,
    /// A 32-bit float.
    Float,
    /// A 64-bit float.
    Double,
    /// Exact decimal digits.
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// A string: text as it is; numbers, booleans, objects and arrays as their compact JSON text.
    Text {
        /// The length of `char(n)` / `varchar(n)`, in characters.
        max_characters: Option<u32>,
    },
    /// JSON text: every value, strings with their quotes, compact, digits unchanged. JSON null is a null.
    JsonText,
    /// Bytes, decoded from text.
    Binary(BinaryEncoding),
    /// Days since 1970.
    Date,
    /// Microseconds since 1970, UTC.
    Timestamp,
    /// Microseconds of a wall clock.
    TimestampNtz,
    /// A struct.
    Struct(Box<Layout>),
    /// A list whose elements follow the rule.
    List(Box<Rule>),
    /// A map from text to values that follow the rule.
    Map(Box<Rule>),
}

/// How a `binary` column's text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryEncoding {
    /// Base 64, standard or URL alphabet, padded or not.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// The text's own UTF-8 bytes.
    Utf8,
}

/// One level of nesting: the record itself, or a struct in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    /// One per field of the table schema at this level, in its order.
    pub columns: Vec<Column>,
    /// One per key that is expected in the JSON object, in the order of the SCHEMA.
    pub sources: Vec<Source>,
    /// Index into `sources` by key.
    pub by_key: HashMap<String, usize>,
}

/// A column of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The table's name for it.
    pub name: String,
    /// The rule for values that go to it. A column that nothing of the stream feeds has the rule of its type all the same.
    pub rule: Rule,
    /// Whether the table allows null (false only in tables made by others).
    pub nullable: bool,
    /// What fills it.
    pub fill: Fill,
}

/// What fills a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A key of the record (a [`Source`]), or nothing: then null.
    Record,
    /// One of the metadata columns, top level only.
    Metadata(MetadataColumn),
}

/// The seven metadata columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetadataColumn {
    /// `_sdc_extracted_at`
    ExtractedAt,
    /// `_sdc_received_at`
    ReceivedAt,
    /// `_sdc_batched_at`
    BatchedAt,
    /// `_sdc_deleted_at`: from the record's own key of that name (there is a [`Source`] for it), else null
    DeletedAt,
    /// `_sdc_sequence`
    Sequence,
    /// `_sdc_table_version`
    TableVersion,
    /// `_sdc_sync_started_at`
    SyncStartedAt,
}

impl MetadataColumn {
    /// All seven, in the order of a new table.
    pub const ALL: [Self; 7] = [
        Self::ExtractedAt,
        Self::ReceivedAt,
        Self::BatchedAt,
        Self::DeletedAt,
        Self::Sequence,
        Self::TableVersion,
        Self::SyncStartedAt,
    ];

    /// Returns the column's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExtractedAt => "_sdc_extracted_at",
            Self::ReceivedAt => "_sdc_received_at",
            Self::BatchedAt => "_sdc_batched_at",
            Self::DeletedAt => "_sdc_deleted_at",
            Self::Sequence => "_sdc_sequence",
            Self::TableVersion => "_sdc_table_version",
            Self::SyncStartedAt => "_sdc_sync_started_at",
        }
    }

    /// Tells whether it is a timestamp; else it is a long.
    pub fn is_timestamp(self) -> bool {
        !matches!(self, Self::Sequence | Self::TableVersion | Self::SyncStartedAt)
    }
}

/// An expected key of a JSON object.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The key.
    pub key: String,
    /// Index into `columns` of the column that takes the value; `None`: the value is dropped (`schema_contract: discard_columns`).
    pub column: Option<usize>,
    /// Where a single value goes that the column's rule cannot hold, if such values have a place of their own.
    pub overflow: Option<Overflow>,
    /// Whether it is a key property: it must be in every record, and a bad value of it fails the load.
    pub is_key: bool,
    /// Whether the column is a partition column: a bad value of it fails the load.
    pub is_partition: bool,
}

/// The place of values that do not fit the column: `<name>__string`, `<name>__long`, … It is made when the first such value comes.
#[derive(Debug, Clone, PartialEq)]
pub struct Overflow {
    /// The rule there.
    pub rule: Rule,
    /// The column's index, once it exists.
    pub column: Option<usize>,
}

/// What a layout lacks for a record; [`super::StreamSchema::grow`] makes the next layout from it.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// A key that the SCHEMA does not have, with the kind of its first value that is not null.
    Key {
        /// The keys from the record down to it (`["user", "nick"]`); a list element or map value is passed as `[]`.
        path: Vec<String>,
        /// The kind of its value.
        kind: ValueKind,
    },
    /// The overflow column of the source at `path`.
    Overflow {
        /// As above.
        path: Vec<String>,
    },
    /// A metadata column that the first RECORD with a `version` (or the first soft delete) needs.
    Metadata(MetadataColumn),
}

/// The kind of a JSON value, as far as it decides a new column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// true, false
    Boolean,
    /// A number without fraction and exponent, within 64 bits.
    Integer,
    /// Any other number.
    Number,
    /// Text.
    String,
    /// An object or array: becomes JSON text.
    Nested,
}

/// A layout with the table schema that it fills; shared by the stages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamLayout {
    /// The top level. `layout.columns` has one entry per field of `table_schema`.
    pub layout: Layout,
    /// The schema of the table once a batch of this layout is committed.
    pub table_schema: Arc<TableSchema>,
    /// Indexes into `layout.sources` of the key properties.
    pub key_sources: Vec<usize>,
}
