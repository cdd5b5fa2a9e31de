//! JSON Schema ↔ Arrow ↔ Delta types, names, and whether one schema may follow another. Plain synchronous functions.
//!
//! The guarantee: every JSON Schema gets a type or an error that names the property, in bounded time; a source name keeps its column
//! through restarts and later additions, and no two share one; a column that exists keeps its type, unless the table allows a wider
//! one. Were that lost, values of one field would land in the column of another, or in one that cannot hold them.

mod arrow_types;
mod build;
mod ddl;
mod declared;
mod delta_json;
mod fit;
mod json_schema;
mod layout;
mod merge;
mod names;
mod stream_schema;
mod types;

pub use ddl::check_column_type;
pub use layout::{
    BinaryEncoding, Column, Fill, Layout, MetadataColumn, Missing, Overflow, Rule, Source, StreamLayout, ValueKind,
};
pub use merge::merge;
pub use names::stream_directory;
pub use stream_schema::{Growth, Replaced, StreamSchema, TableFacts};
pub use types::{CHAR_VARCHAR, DataType, Field, SOURCE_NAME, TableSchema};

use std::collections::BTreeMap;

/// What the user set about schemas and names, for one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What a field outside the SCHEMA, or a new column of an existing table, does.
    pub schema_contract: SchemaContract,
    /// Where values of another type than the table's go.
    pub on_type_conflict: OnTypeConflict,
    /// What nested objects become.
    pub nested: Nested,
    /// How names are made.
    pub column_names: ColumnNames,
    /// What a date-time without offset means, and so the type of date-time columns.
    pub naive_timestamps: NaiveTimestamps,
    /// Whether `contentEncoding` text is decoded.
    pub binary_columns: BinaryColumns,
    /// `{source name: type}`: Spark DDL types and `json`.
    pub columns: BTreeMap<String, String>,
    /// Whether the seven `_sdc_*` columns are written.
    pub add_record_metadata: bool,
}

/// `schema_contract`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaContract {
    /// New columns are added.
    Evolve,
    /// A change fails the load.
    Freeze,
    /// What has no column is left out, counted.
    DiscardColumns,
    /// Rows with such a field are left out, counted.
    DiscardRows,
}

/// `on_type_conflict`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTypeConflict {
    /// To `<name>__<type>`.
    VariantColumn,
    /// The load fails.
    Fail,
    /// To `<name>__string`.
    String,
}

/// `nested`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// Structs, lists and maps.
    Struct,
    /// JSON text.
    Json,
}

/// `column_names`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnNames {
    /// Invalid characters become `_`.
    Clean,
    /// `snake_case`, then as `Clean`.
    SnakeCase,
    /// Lower case, then as `Clean`.
    Lower,
}

/// `naive_timestamps`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NaiveTimestamps {
    /// UTC; date-time columns are `timestamp`.
    Utc,
    /// A wall clock; date-time columns are `timestamp_ntz`.
    Ntz,
}

/// `binary_columns`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryColumns {
    /// Stays text.
    Text,
    /// Becomes bytes.
    Decode,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema_contract: SchemaContract::Evolve,
            on_type_conflict: OnTypeConflict::VariantColumn,
            nested: Nested::Struct,
            column_names: ColumnNames::Clean,
            naive_timestamps: NaiveTimestamps::Utc,
            binary_columns: BinaryColumns::Text,
            columns: BTreeMap::new(),
            add_record_metadata: false,
        }
    }
}
