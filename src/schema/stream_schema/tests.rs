use proptest::prelude::*;
use serde_json::json;

use super::super::json_schema::tests::any_schema;
use super::super::layout::{Fill, Rule, Source};
use super::*;
use crate::ErrorKind;

mod evolution;
mod names;
mod tables;

/// A stream without a table.
fn fresh(properties: Value, options: &Options) -> StreamSchema {
    StreamSchema::new(&json!({"properties": properties}), &[], &[], options, None).unwrap()
}

/// A stream against a table.
fn against(table: &TableSchema, properties: Value, options: &Options) -> Result<StreamSchema> {
    let facts = TableFacts { schema: table, partition_columns: &[], is_type_widening_enabled: false };
    StreamSchema::new(&json!({"properties": properties}), &[], &[], options, Some(facts))
}

/// The same after a restart: the table went through the log.
fn restarted(schema: &StreamSchema, properties: Value) -> StreamSchema {
    let table = TableSchema::from_json(&schema.layout().table_schema.to_json()).unwrap();
    against(&table, properties, &schema.options).unwrap()
}

/// A table that another writer made.
fn table(fields: &[(&str, DataType)]) -> TableSchema {
    TableSchema { fields: fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone())).collect() }
}

/// `name: type` of all columns.
fn columns(schema: &StreamSchema) -> String {
    let layout = schema.layout();
    assert_eq!(layout.layout.columns.len(), layout.table_schema.fields.len());
    let fields = layout.table_schema.fields.iter().map(|field| format!("{}: {}", field.name, field.data_type));
    fields.collect::<Vec<_>>().join(", ")
}

fn source(schema: &StreamSchema, key: &str) -> Source {
    let layout = schema.layout();
    layout.layout.sources[layout.layout.by_key[key]].clone()
}

/// The column that a key feeds.
fn column_of(schema: &StreamSchema, key: &str) -> String {
    source(schema, key).column.map_or("-".to_owned(), |at| schema.layout().layout.columns[at].name.clone())
}

/// The column, its rule, and the column of the overflow (`?`: not there yet).
fn way(schema: &StreamSchema, key: &str) -> String {
    let layout = schema.layout();
    let source = source(schema, key);
    let Some(at) = source.column else { return "-".to_owned() };
    let column = &layout.layout.columns[at];
    let overflow = source.overflow.map(|overflow| match overflow.column {
        Some(at) => format!(", else {}", layout.layout.columns[at].name),
        None => format!(", else {:?}?", overflow.rule),
    });
    format!("{} {:?}{}", column.name, column.rule, overflow.unwrap_or_default())
}

fn key(path: &[&str], kind: ValueKind) -> Missing {
    Missing::Key { path: strings(path), kind }
}

fn overflow(path: &[&str]) -> Missing {
    Missing::Overflow { path: strings(path) }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

fn with_contract(schema_contract: SchemaContract) -> Options {
    Options { schema_contract, ..Options::default() }
}

#[test]
fn a_new_table_has_the_declared_columns_in_order_all_nullable() {
    let schema = json!({"required": ["id"], "properties": {
        "id": {"type": "integer"},
        "user": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    }});
    let stream = StreamSchema::new(&schema, &strings(&["id"]), &strings(&["id"]), &Options::default(), None).unwrap();
    assert_eq!(
        columns(&stream),
        "id: long, user: struct<name: string, at: timestamp>, tags: array<string>, m: map<string, long>, any: string"
    );
    let layout = stream.layout();
    assert!(layout.table_schema.to_json().matches("\"nullable\":true").count() == 7);
    assert!(!layout.table_schema.to_json().contains("ull\":false"), "list elements and map values too");
    assert_eq!(layout.key_sources, [0]);
    assert!(layout.layout.sources[0].is_key && layout.layout.sources[0].is_partition);
    assert!(!layout.layout.sources[1].is_key && !layout.layout.sources[1].is_partition);
    assert_eq!(stream.partition_columns(), ["id"]);
    let Rule::Struct(user) = &layout.layout.columns[1].rule else { panic!() };
    assert_eq!(user.by_key["at"], 1);
    assert_eq!(user.columns[1].rule, Rule::Timestamp);
    assert_eq!(layout.layout.columns[4].rule, Rule::JsonText);
    assert_eq!(layout.table_schema.fields[4].source_name(), Some("any"));
    assert!(layout.table_schema.arrow_schema().is_ok());
    assert!(stream.notices().is_empty());
}

#[test]
fn an_empty_schema_has_no_columns_until_a_field_comes() {
    let mut stream = fresh(json!({}), &Options::default());
    assert_eq!(columns(&stream), "");
    assert_eq!(stream.grow(&[key(&["a"], ValueKind::Integer)]).unwrap(), Growth::Grown);
    assert_eq!(columns(&stream), "a: long");
    let mut frozen = fresh(json!({}), &with_contract(SchemaContract::Freeze));
    assert_eq!(frozen.replace(&json!({"properties": {"a": {"type": "string"}}}), &[]).unwrap(), Replaced::Changed);
    assert_eq!(columns(&frozen), "a: string");
}

#[test]
fn a_key_that_is_not_declared_is_refused() {
    let schema = json!({"properties": {"a": {"type": "string"}}});
    let error = StreamSchema::new(&schema, &strings(&["id"]), &[], &Options::default(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(error.message(), "the key property `id` is not among the properties of the SCHEMA message");
}

#[test]
fn partition_columns_are_primitive_declared_and_not_all() {
    let schema = json!({"properties": {"Day Of": {"type": "string", "format": "date"}, "s": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let new = |by: &[&str]| StreamSchema::new(&schema, &[], &strings(by), &Options::default(), None);
    assert_eq!(new(&["Day Of"]).unwrap().partition_columns(), ["Day_Of"]);
    for (by, message) in [
        (&["s"][..], "`partition_by` names `s`, which is struct<a: string>"),
        (&["x"], "`partition_by` names `x`, which is not among the stream's properties"),
        (&["Day Of", "Day Of"], "`partition_by` names `Day Of` twice"),
    ] {
        let error = new(by).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Config, message));
    }
    let one = json!({"properties": {"a": {"type": "string"}}});
    assert!(StreamSchema::new(&one, &[], &strings(&["a"]), &Options::default(), None).is_err());
    let metadata = Options { add_record_metadata: true, ..Options::default() };
    let stream = StreamSchema::new(&one, &[], &strings(&["_sdc_extracted_at"]), &metadata, None).unwrap();
    assert_eq!(stream.partition_columns(), ["_sdc_extracted_at"]);
}

#[test]
fn the_seven_metadata_columns_come_after_the_declared_ones() {
    let options = Options { add_record_metadata: true, ..Options::default() };
    let stream = fresh(json!({"id": {"type": "integer"}}), &options);
    assert_eq!(
        columns(&stream),
        "id: long, _sdc_extracted_at: timestamp, _sdc_received_at: timestamp, _sdc_batched_at: timestamp, \
         _sdc_deleted_at: timestamp, _sdc_sequence: long, _sdc_table_version: long, _sdc_sync_started_at: long"
    );
    let layout = stream.layout().layout.clone();
    assert_eq!(layout.columns[5].fill, Fill::Metadata(MetadataColumn::Sequence));
    assert_eq!(column_of(&stream, "_sdc_deleted_at"), "_sdc_deleted_at");
    assert_eq!(layout.sources.len(), 2);
    assert_eq!(columns(&restarted(&stream, json!({"id": {"type": "integer"}}))), columns(&stream));
}

#[test]
fn a_tap_s_metadata_names_clash_only_while_we_write_that_column() {
    let properties = json!({
        "_sdc_sequence": {"type": "integer"}, "_sdc_lsn": {"type": "integer"}, "_SDC_batched_at": {"type": "string"},
        "_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
    });
    let plain = fresh(properties.clone(), &Options::default());
    assert_eq!(columns(&plain), "_sdc_sequence: long, _sdc_lsn: long, _SDC_batched_at: string, _sdc_deleted_at: timestamp");
    assert_eq!(plain.layout().layout.columns[3].fill, Fill::Record);
    let options = Options { add_record_metadata: true, ..Options::default() };
    let written = fresh(properties.clone(), &options);
    assert_eq!(column_of(&written, "_sdc_sequence"), "_sdc_sequence_2");
    assert_eq!(column_of(&written, "_sdc_lsn"), "_sdc_lsn");
    assert_eq!(column_of(&written, "_SDC_batched_at"), "_SDC_batched_at_2");
    assert_eq!(column_of(&written, "_sdc_deleted_at"), "_sdc_deleted_at");
    let again = restarted(&written, properties);
    assert_eq!(columns(&again), columns(&written));
    assert_eq!(column_of(&again, "_sdc_sequence"), "_sdc_sequence_2");
}

#[test]
fn a_version_and_a_soft_delete_add_their_columns_when_they_come() {
    let mut stream = fresh(json!({"id": {"type": "integer"}}), &with_contract(SchemaContract::Freeze));
    stream.grow(&[Missing::Metadata(MetadataColumn::TableVersion)]).unwrap();
    stream.grow(&[key(&["_sdc_deleted_at"], ValueKind::String)]).unwrap();
    assert_eq!(columns(&stream), "id: long, _sdc_table_version: long, _sdc_deleted_at: timestamp");
    assert_eq!(stream.layout().layout.columns[1].fill, Fill::Metadata(MetadataColumn::TableVersion));
    assert_eq!(way(&stream, "_sdc_deleted_at"), "_sdc_deleted_at Timestamp");
    // A table that has them is filled from the start.
    let again = restarted(&stream, json!({"id": {"type": "integer"}}));
    assert_eq!(again.layout().layout.columns[1].fill, Fill::Metadata(MetadataColumn::TableVersion));
    assert_eq!(column_of(&again, "_sdc_deleted_at"), "_sdc_deleted_at");
    // A frozen table that has none stays so.
    let mut frozen = against(&table(&[("id", DataType::Long)]), json!({"id": {"type": "integer"}}), &stream.options).unwrap();
    assert!(frozen.grow(&[Missing::Metadata(MetadataColumn::TableVersion)]).is_err());
    assert_eq!(columns(&frozen), "id: long");
    // Another type under that name cannot take ours.
    let odd = table(&[("id", DataType::Long), ("_sdc_table_version", DataType::String)]);
    let mut stream = against(&odd, json!({"id": {"type": "integer"}}), &Options::default()).unwrap();
    let error = stream.grow(&[Missing::Metadata(MetadataColumn::TableVersion)]).unwrap_err();
    assert_eq!(error.to_string(), "field `_sdc_table_version` is string in the table, where delta-load writes a long");
}

/// Tells whether `after` has all fields of `before` at their places, at every level.
fn extends(before: &DataType, after: &DataType) -> bool {
    match (before, after) {
        (DataType::Struct(before), DataType::Struct(after)) => {
            before.len() <= after.len()
                && before.iter().zip(after).all(|(a, b)| a.name == b.name && extends(&a.data_type, &b.data_type))
        }
        (DataType::Array { element: before, .. }, DataType::Array { element: after, .. }) => extends(before, after),
        (DataType::Map { value: before, .. }, DataType::Map { value: after, .. }) => extends(before, after),
        _ => before == after,
    }
}

proptest! {
    #[test]
    fn any_schema_after_any_other_appends_at_every_level(
        schemas in prop::collection::vec(any_schema(), 1..5),
        on_type_conflict in prop_oneof![Just(OnTypeConflict::VariantColumn), Just(OnTypeConflict::String)],
        restarts in any::<bool>(),
    ) {
        let options = Options { on_type_conflict, ..Options::default() };
        let mut stream = fresh(json!({"x": {"type": "integer"}}), &options);
        for schema in schemas {
            let document = json!({"properties": {"x": schema, "other": {"type": "string"}}});
            let before = stream.layout();
            if stream.replace(&document, &[]).is_err() {
                prop_assert!(Arc::ptr_eq(&stream.layout(), &before));
                continue;
            }
            let layout = stream.layout();
            let fields = |schema: &TableSchema| DataType::Struct(schema.fields.clone());
            prop_assert!(extends(&fields(&before.table_schema), &fields(&layout.table_schema)));
            prop_assert!(layout.table_schema.arrow_schema().is_ok());
            let x = source(&stream, "x");
            prop_assert!(x.column.is_some());
            let again = restarted(&stream, document["properties"].clone());
            prop_assert_eq!(&again.layout().table_schema, &layout.table_schema);
            prop_assert_eq!(source(&again, "x"), x);
            if restarts {
                stream = again;
            }
        }
    }
}
