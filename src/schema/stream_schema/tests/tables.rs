//! CONTRACTS 5: type changes, and tables that exist.

use super::super::super::NaiveTimestamps;
use super::super::super::layout::BinaryEncoding;
use super::*;

/// The JSON Schema of a type in short form.
fn of(short: &str) -> Value {
    match short {
        "long" => json!({"type": "integer"}),
        "double" => json!({"type": "number"}),
        "string" => json!({"type": "string"}),
        "boolean" => json!({"type": "boolean"}),
        "date" => json!({"type": "string", "format": "date"}),
        "timestamp" => json!({"type": "string", "format": "date-time"}),
        "timestamp|string" => json!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}),
        "decimal" => json!({"type": "number", "format": "singer.decimal", "precision": 10, "scale": 2}),
        "wide decimal" => json!({"type": "number", "multipleOf": 0.01}),
        "struct" => json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        "list" => json!({"type": "array", "items": {"type": "integer"}}),
        "texts" => json!({"type": "array", "items": {"type": "string"}}),
        "map" => json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        "json" => json!({}),
        "base64" => json!({"type": "string", "contentEncoding": "base64"}),
        other => panic!("{other}"),
    }
}

/// Where the values of `x` go, declared first as one type and then as the other.
fn changed(first: &str, then: &str) -> String {
    let mut stream = fresh(json!({"x": of(first)}), &Options::default());
    assert_eq!(stream.replace(&json!({"properties": {"x": of(then)}}), &[]).unwrap(), Replaced::Changed);
    let again = restarted(&stream, json!({"x": of(then)}));
    assert_eq!(way(&stream, "x"), way(&again, "x"), "a restart changes nothing");
    assert_eq!(columns(&stream), columns(&again));
    way(&stream, "x")
}

/// Where the values of `x` go, declared so, when another writer made it a column of this type.
fn fed(data_type: DataType, declared: &str) -> String {
    way(&against(&table(&[("x", data_type)]), json!({"x": of(declared)}), &Options::default()).unwrap(), "x")
}

fn array(element: DataType) -> DataType {
    DataType::Array { element: Box::new(element), contains_null: true }
}

#[test]
fn a_type_that_holds_the_new_one_stays() {
    for then in ["long", "double", "boolean", "date", "timestamp", "timestamp|string", "decimal", "struct", "list", "map", "json"]
    {
        assert_eq!(changed("string", then), "x Text { max_characters: None }");
    }
    for then in ["long", "string", "struct"] {
        assert_eq!(changed("json", then), "x JsonText");
    }
    assert_eq!(changed("double", "long"), "x Double");
    assert_eq!(changed("wide decimal", "long"), "x Decimal { precision: 38, scale: 2 }");
    assert_eq!(changed("wide decimal", "decimal"), "x Decimal { precision: 38, scale: 2 }");
    assert_eq!(changed("timestamp", "date"), "x Timestamp");
}

#[test]
fn another_family_goes_to_a_column_of_its_type() {
    for (first, then, expected) in [
        ("long", "double", "x__double Double"),
        ("long", "string", "x__string Text { max_characters: None }"),
        ("long", "boolean", "x__boolean Boolean"),
        ("long", "date", "x__date Date"),
        ("long", "timestamp", "x__timestamp Timestamp"),
        ("long", "timestamp|string", "x__timestamp Timestamp, else Text { max_characters: None }?"),
        ("long", "decimal", "x__decimal_10_2 Decimal { precision: 10, scale: 2 }"),
        ("long", "list", "x__list List(Long)"),
        ("long", "json", "x__json JsonText"),
        ("boolean", "long", "x__long Long"),
        ("double", "decimal", "x__decimal_10_2 Decimal { precision: 10, scale: 2 }"),
        ("decimal", "double", "x__double Double"),
        ("date", "timestamp", "x__timestamp Timestamp"),
        ("timestamp", "string", "x__string Text { max_characters: None }"),
        ("struct", "json", "x__json JsonText"),
        ("struct", "map", "x__map Map(Long)"),
        ("list", "texts", "x__list List(Text { max_characters: None })"),
    ] {
        assert_eq!(changed(first, then), expected, "{first} → {then}");
    }
    assert!(changed("long", "struct").starts_with("x__struct Struct"));
    let mut stream = fresh(json!({"x": of("long")}), &Options::default());
    stream.replace(&json!({"properties": {"x": of("double")}}), &[]).unwrap();
    let notice = "field `x` is declared as double, but its column `x` is long: its values go to the column `x__double`";
    assert_eq!(stream.notices(), [notice]);
    // Back again: the first column takes its values, the second stays.
    stream.replace(&json!({"properties": {"x": of("long")}}), &[]).unwrap();
    assert_eq!((way(&stream, "x").as_str(), columns(&stream).as_str()), ("x Long", "x: long, x__double: double"));
}

#[test]
fn a_second_variant_of_the_same_kind_is_told_apart() {
    let mut stream = fresh(json!({"x": of("long")}), &Options::default());
    for then in ["list", "texts", "list", "texts"] {
        stream.replace(&json!({"properties": {"x": of(then)}}), &[]).unwrap();
    }
    assert_eq!(columns(&stream), "x: long, x__list: array<long>, x__list_2: array<string>");
    assert_eq!(column_of(&restarted(&stream, json!({"x": of("texts")})), "x"), "x__list_2");
}

#[test]
fn conflicts_inside_structs_stay_inside() {
    let nested = |short| {
        let items = json!({"type": "object", "properties": {"a": of(short)}});
        json!({"properties": {"l": {"type": "array", "items": items}}})
    };
    let mut stream = StreamSchema::new(&nested("long"), &[], &[], &Options::default(), None).unwrap();
    stream.replace(&nested("string"), &[]).unwrap();
    assert_eq!(columns(&stream), "l: array<struct<a: long, a__string: string>>");
    let mut stream = StreamSchema::new(&nested("timestamp|string"), &[], &[], &Options::default(), None).unwrap();
    stream.grow(&[overflow(&["l", "[]", "a"])]).unwrap();
    assert_eq!(columns(&stream), "l: array<struct<a: timestamp, a__string: string>>");
}

#[test]
fn integers_that_are_narrower_take_what_fits() {
    for (data_type, rule) in [(DataType::Byte, "Byte"), (DataType::Short, "Short"), (DataType::Integer, "Integer")] {
        assert_eq!(fed(data_type, "long"), format!("x {rule}, else Long?"));
    }
    assert_eq!(fed(DataType::Long, "long"), "x Long");
    assert_eq!(fed(DataType::Double, "long"), "x Double");
    let narrow = DataType::Decimal { precision: 10, scale: 2 };
    assert_eq!(fed(narrow, "long"), "x Decimal { precision: 10, scale: 2 }, else Long?");
    let wide = DataType::Decimal { precision: 20, scale: 0 };
    assert_eq!(fed(wide, "long"), "x Decimal { precision: 20, scale: 0 }");
    assert_eq!(fed(DataType::Float, "long"), "x__long Long");
}

#[test]
fn floats_decimals_times_and_limited_text_take_what_fits() {
    assert_eq!(fed(DataType::Float, "double"), "x Float, else Double?");
    assert_eq!(
        fed(DataType::Decimal { precision: 9, scale: 2 }, "decimal"),
        "x Decimal { precision: 9, scale: 2 }, else Decimal { precision: 10, scale: 2 }?"
    );
    assert_eq!(fed(DataType::TimestampNtz, "timestamp"), "x TimestampNtz, else Timestamp?");
    assert_eq!(fed(DataType::TimestampNtz, "date"), "x TimestampNtz");
    let ntz = Options { naive_timestamps: NaiveTimestamps::Ntz, ..Options::default() };
    let times = table(&[("x", DataType::Timestamp), ("y", DataType::TimestampNtz)]);
    let stream = against(&times, json!({"x": of("timestamp"), "y": of("timestamp")}), &ntz).unwrap();
    assert_eq!(["x", "y"].map(|key| way(&stream, key)), ["x Timestamp, else TimestampNtz?", "y TimestampNtz"]);
    let text = "else Text { max_characters: None }?";
    assert_eq!(fed(DataType::Other(json!("varchar(5)")), "string"), format!("x Text {{ max_characters: Some(5) }}, {text}"));
    let mut limited = table(&[("x", DataType::String), ("l", array(DataType::String))]);
    limited.fields[0].metadata.insert("__CHAR_VARCHAR_TYPE_STRING".to_owned(), json!("char(3)"));
    limited.fields[0].metadata.insert("other".to_owned(), json!(1));
    limited.fields[1].metadata.insert("__CHAR_VARCHAR_TYPE_STRING".to_owned(), json!("array<varchar(2)>"));
    let stream = against(&limited, json!({"x": of("long"), "l": of("texts")}), &Options::default()).unwrap();
    assert_eq!(way(&stream, "x"), format!("x Text {{ max_characters: Some(3) }}, {text}"));
    assert_eq!(way(&stream, "l"), "l List(Text { max_characters: Some(2) }), else List(Text { max_characters: None })?");
    assert_eq!(*stream.layout().table_schema, limited, "metadata stays word for word");
}

#[test]
fn a_list_of_narrow_elements_takes_lists_that_fit() {
    let other = table(&[("x", array(DataType::Integer))]);
    let mut stream = against(&other, json!({"x": of("list")}), &Options::default()).unwrap();
    assert_eq!(way(&stream, "x"), "x List(Integer), else List(Long)?");
    stream.grow(&[overflow(&["x"])]).unwrap();
    assert_eq!(columns(&stream), "x: array<integer>, x__list: array<long>");
}

#[test]
fn binary_columns_take_text() {
    assert_eq!(fed(DataType::Binary, "string"), format!("x {:?}", Rule::Binary(BinaryEncoding::Utf8)));
    assert_eq!(fed(DataType::Binary, "base64"), format!("x {:?}", Rule::Binary(BinaryEncoding::Base64)));
    assert_eq!(fed(DataType::Binary, "long"), "x__long Long");
}

#[test]
fn a_variant_column_that_another_writer_made_is_used() {
    let other = table(&[("x", DataType::Long), ("X__string", DataType::String)]);
    let stream = against(&other, json!({"x": of("string")}), &Options::default()).unwrap();
    assert_eq!(column_of(&stream, "x"), "X__string");
    assert_eq!(stream.layout().table_schema.fields.len(), 2);
}

#[test]
fn conflicts_can_fail_or_go_to_text() {
    let other = table(&[("x", DataType::Long), ("n", DataType::Integer)]);
    let properties = json!({"x": of("double"), "n": of("long")});
    let options = Options { on_type_conflict: OnTypeConflict::Fail, ..Options::default() };
    let error = against(&other, properties.clone(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert_eq!(error.to_string(), "field `x` is declared as double, but its column `x` is long");
    let stream = against(&other, json!({"n": of("long"), "t": of("timestamp|string")}), &options).unwrap();
    assert_eq!(way(&stream, "n"), "n Integer", "a value that does not fit is a bad value");
    assert_eq!(way(&stream, "t"), "t Timestamp, else Text { max_characters: None }?", "no conflict: declared so");
    let options = Options { on_type_conflict: OnTypeConflict::String, ..Options::default() };
    let stream = against(&other, properties, &options).unwrap();
    assert_eq!(way(&stream, "x"), "x__string Text { max_characters: None }");
    assert_eq!(way(&stream, "n"), "n Integer, else Text { max_characters: None }?");
}

#[test]
fn keys_and_partition_columns_never_get_a_second_column() {
    let other = table(&[("id", DataType::Integer), ("day", DataType::Date), ("x", DataType::Long)]);
    let partitions = strings(&["day"]);
    let facts = TableFacts { schema: &other, partition_columns: &partitions, is_type_widening_enabled: false };
    let new = |id: &str, day: &str| {
        let schema = json!({"properties": {"id": of(id), "day": of(day)}});
        StreamSchema::new(&schema, &strings(&["id"]), &strings(&["x"]), &Options::default(), Some(facts))
    };
    let stream = new("long", "date").unwrap();
    assert_eq!(way(&stream, "id"), "id Integer");
    assert!(source(&stream, "day").is_partition);
    assert_eq!(stream.partition_columns(), ["day"], "the table's own");
    for (id, day, field) in [("string", "date", "id"), ("long", "timestamp", "day")] {
        let error = new(id, day).unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Schema, Some(field)));
        assert!(error.hint_text().unwrap().starts_with("key and partition columns"));
    }
    let schema = json!({"properties": {"id": of("timestamp|string"), "x": of("long")}});
    let stream = StreamSchema::new(&schema, &strings(&["id"]), &[], &Options::default(), None).unwrap();
    assert_eq!(way(&stream, "id"), "id Timestamp");
}

#[test]
fn types_widen_only_where_the_table_says_so() {
    let other = table(&[
        ("n", DataType::Short),
        ("f", DataType::Float),
        ("d", DataType::Decimal { precision: 5, scale: 3 }),
        ("l", array(DataType::Integer)),
        ("s", DataType::Struct(vec![Field::new("a", DataType::Byte)])),
        ("t", DataType::Date),
    ]);
    let facts = TableFacts { schema: &other, partition_columns: &[], is_type_widening_enabled: true };
    let properties = [("n", "long"), ("f", "double"), ("d", "decimal"), ("l", "list"), ("s", "struct"), ("t", "timestamp")];
    let properties: serde_json::Map<_, _> = properties.map(|(key, short)| (key.to_owned(), of(short))).into_iter().collect();
    let schema = json!({"properties": properties});
    let stream = StreamSchema::new(&schema, &[], &[], &Options::default(), Some(facts)).unwrap();
    assert_eq!(
        columns(&stream),
        "n: long, f: double, d: decimal(11,3), l: array<long>, s: struct<a: long>, t: date, t__timestamp: timestamp"
    );
    let layout = stream.layout();
    let changes = |at: usize| layout.table_schema.fields[at].metadata.get("delta.typeChanges").cloned();
    assert_eq!(changes(0), Some(json!([{"fromType": "short", "toType": "long"}])));
    assert_eq!(changes(2), Some(json!([{"fromType": "decimal(5,3)", "toType": "decimal(11,3)"}])));
    assert_eq!(changes(3), Some(json!([{"fromType": "integer", "toType": "long", "fieldPath": "element"}])));
    assert_eq!(changes(4), None);
    let DataType::Struct(fields) = &layout.table_schema.fields[4].data_type else { panic!() };
    assert_eq!(fields[0].metadata["delta.typeChanges"], json!([{"fromType": "byte", "toType": "long"}]));
    assert_eq!(way(&stream, "n"), "n Long");
    let long = json!({"properties": {"n": of("long")}});
    let frozen = StreamSchema::new(&long, &[], &[], &with_contract(SchemaContract::Freeze), Some(facts)).unwrap();
    assert_eq!(way(&frozen, "n"), "n Short");
}

#[test]
fn columns_that_the_stream_does_not_feed_stay_in_the_layout() {
    let map = DataType::Map { key: Box::new(DataType::String), value: Box::new(DataType::Byte), value_contains_null: false };
    let structure = DataType::Struct(vec![Field::new("i", DataType::Float)]);
    let mut other = table(&[("a", DataType::Long), ("m", map), ("s", structure)]);
    other.fields[0].nullable = false;
    let stream = against(&other, json!({"new": of("string")}), &Options::default()).unwrap();
    assert_eq!(columns(&stream), "a: long, m: map<string, byte>, s: struct<i: float>, new: string");
    let layout = stream.layout();
    assert!(!layout.layout.columns[0].nullable);
    assert_eq!(layout.layout.columns[1].rule, Rule::Map(Box::new(Rule::Byte)));
    let Rule::Struct(inner) = &layout.layout.columns[2].rule else { panic!() };
    assert_eq!((inner.columns[0].rule.clone(), inner.sources.len()), (Rule::Float, 0));
    let variant = table(&[("v", DataType::Other(json!("variant")))]);
    let error = against(&variant, json!({"a": of("long")}), &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Table, Some("v")));
}

#[test]
fn a_column_of_the_settings_is_made_as_they_say() {
    let with = |name: &str, text: &str| Options { columns: [(name.to_owned(), text.to_owned())].into(), ..Options::default() };
    let stream = fresh(json!({"x": of("long")}), &with("x", "varchar(4)"));
    assert_eq!(columns(&stream), "x: string");
    assert_eq!(stream.layout().table_schema.fields[0].metadata["__CHAR_VARCHAR_TYPE_STRING"], json!("varchar(4)"));
    assert_eq!(way(&restarted(&stream, json!({"x": of("long")})), "x"), "x Text { max_characters: Some(4) }");
    let mut stream = fresh(json!({}), &with("y", "decimal(4,1)"));
    stream.grow(&[key(&["y"], ValueKind::String)]).unwrap();
    assert_eq!(columns(&stream), "y: decimal(4,1)");
}
