//! CONTRACTS 3: fields outside the SCHEMA, a SCHEMA that comes again; and tables that change under us.

use super::*;

fn structured() -> Value {
    json!({
        "id": {"type": "integer"},
        "user": {"type": "object", "properties": {"name": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "by": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    })
}

#[test]
fn undeclared_fields_get_columns_by_their_first_value_at_any_depth() {
    let mut stream = fresh(structured(), &Options::default());
    for (path, kind) in [
        (&["flag"][..], ValueKind::Boolean),
        (&["count"], ValueKind::Integer),
        (&["rate"], ValueKind::Number),
        (&["note"], ValueKind::String),
        (&["extra"], ValueKind::Nested),
        (&["user", "Nick Name"], ValueKind::String),
        (&["lines", "[]", "price"], ValueKind::Number),
        (&["by", "[]", "m"], ValueKind::Integer),
    ] {
        assert_eq!(stream.grow(&[key(path, kind)]).unwrap(), Growth::Grown);
        // Asked for again by a record that was parsed before: nothing more happens.
        let grown = stream.layout();
        assert_eq!(stream.grow(&[key(path, ValueKind::Boolean)]).unwrap(), Growth::Grown);
        assert_eq!(stream.layout(), grown);
    }
    assert_eq!(
        columns(&stream),
        "id: long, user: struct<name: string, Nick_Name: string>, lines: array<struct<sku: string, price: double>>, \
         by: map<string, struct<n: long, m: long>>, flag: boolean, count: long, rate: double, note: string, extra: string"
    );
    assert_eq!(way(&stream, "extra"), "extra JsonText");
    assert_eq!(columns(&restarted(&stream, structured())), columns(&stream));
    assert!(stream.grow(&[key(&["id", "x"], ValueKind::String)]).is_err());
    assert!(stream.grow(&[Missing::Key { path: vec![], kind: ValueKind::String }]).is_err());
    assert!(stream.grow(&[overflow(&["nobody"])]).is_err());
}

#[test]
fn undeclared_fields_that_the_table_has_take_its_type() {
    let inner = DataType::Struct(vec![Field::new("a", DataType::Integer)]);
    let other = table(&[
        ("at", DataType::Timestamp),
        ("n", DataType::Integer),
        ("s", inner),
        ("t", DataType::String),
        ("d", DataType::Double),
    ]);
    for contract in [SchemaContract::Evolve, SchemaContract::Freeze, SchemaContract::DiscardColumns, SchemaContract::DiscardRows]
    {
        let mut stream = against(&other, json!({"d": {"type": "number"}}), &with_contract(contract)).unwrap();
        for (name, kind) in
            [("at", ValueKind::String), ("n", ValueKind::String), ("S", ValueKind::Nested), ("t", ValueKind::Integer)]
        {
            assert_eq!(stream.grow(&[key(&[name], kind)]).unwrap(), Growth::Grown);
        }
        assert_eq!(*stream.layout().table_schema, other);
        let text = if contract == SchemaContract::Evolve { ", else Text { max_characters: None }?" } else { "" };
        assert_eq!(way(&stream, "at"), format!("at Timestamp{text}"));
        assert_eq!(way(&stream, "n"), format!("n Integer{text}"));
        assert_eq!(way(&stream, "t"), "t Text { max_characters: None }");
        let Rule::Struct(layout) = stream.layout().layout.columns[2].rule.clone() else { panic!() };
        assert_eq!(layout.sources[0].column, Some(0));
    }
    // Deeper, too.
    let mut stream = against(&other, json!({}), &Options::default()).unwrap();
    stream.grow(&[key(&["s"], ValueKind::Nested)]).unwrap();
    stream.grow(&[key(&["s", "b"], ValueKind::Boolean)]).unwrap();
    stream.grow(&[overflow(&["s", "a"])]).unwrap();
    assert!(columns(&stream).contains("s: struct<a: integer, b: boolean, a__string: string>"), "{}", columns(&stream));
}

#[test]
fn the_contract_decides_about_undeclared_fields() {
    let mut frozen = fresh(structured(), &with_contract(SchemaContract::Freeze));
    let before = frozen.layout();
    let error = frozen.grow(&[key(&["user", "nick"], ValueKind::String)]).unwrap_err();
    assert_eq!(error.to_string(), "field `user.nick` is not in the SCHEMA, and `schema_contract` is `freeze`");
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert_eq!(frozen.layout(), before);

    let mut columns_left = fresh(structured(), &with_contract(SchemaContract::DiscardColumns));
    assert_eq!(columns_left.grow(&[key(&["x"], ValueKind::String)]).unwrap(), Growth::Grown);
    assert_eq!(columns_left.grow(&[key(&["x"], ValueKind::String)]).unwrap(), Growth::Grown);
    assert_eq!(columns_left.grow(&[key(&["user", "nick"], ValueKind::String)]).unwrap(), Growth::Grown);
    assert_eq!(way(&columns_left, "x"), "-");
    assert_eq!(columns_left.layout().table_schema, before.table_schema);

    let mut rows_left = fresh(structured(), &with_contract(SchemaContract::DiscardRows));
    assert_eq!(rows_left.grow(&[key(&["x"], ValueKind::String)]).unwrap(), Growth::DiscardRow);
    assert_eq!(rows_left.layout(), before);
}

#[test]
fn the_contract_decides_about_new_columns_and_conflicts_of_a_table() {
    let other = table(&[("id", DataType::Long), ("x", DataType::Long)]);
    let new = json!({"id": {"type": "integer"}, "new": {"type": "string"}});
    let conflict = json!({"id": {"type": "integer"}, "x": {"type": "string"}});
    let late = json!({"x": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}});
    let frozen = with_contract(SchemaContract::Freeze);
    for properties in [&new, &conflict] {
        let error = against(&other, properties.clone(), &frozen).unwrap_err();
        assert_eq!(error.message(), "needs a new column in the table, which `schema_contract` does not allow");
    }
    let discard = with_contract(SchemaContract::DiscardColumns);
    assert_eq!(way(&against(&other, new.clone(), &discard).unwrap(), "new"), "-");
    assert_eq!(way(&against(&other, conflict.clone(), &discard).unwrap(), "x"), "-");
    let rows = with_contract(SchemaContract::DiscardRows);
    for (properties, name) in [(&new, "new"), (&conflict, "x")] {
        let mut stream = against(&other, properties.clone(), &rows).unwrap();
        assert!(!stream.layout().layout.by_key.contains_key(name));
        assert_eq!(stream.grow(&[key(&[name], ValueKind::String)]).unwrap(), Growth::DiscardRow);
    }
    let keyed = json!({"properties": new});
    let facts = TableFacts { schema: &other, partition_columns: &[], is_type_widening_enabled: false };
    let error = StreamSchema::new(&keyed, &strings(&["new"]), &[], &discard, Some(facts)).unwrap_err();
    assert_eq!(error.field(), Some("new"), "a key is never left out");
    // A new table gets at once what could not be added later.
    assert_eq!(columns(&fresh(late.clone(), &frozen)), "x: date, x__string: string");
    let dates = table(&[("x", DataType::Date)]);
    assert_eq!(way(&against(&dates, late, &frozen).unwrap(), "x"), "x Date", "other text is a bad value");
}

#[test]
fn a_schema_that_says_the_same_changes_nothing() {
    let object = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "number"}}});
    let schema = json!({"properties": {"a": {"type": ["null", "integer"]}, "s": object}});
    let mut stream = StreamSchema::new(&schema, &strings(&["a"]), &[], &Options::default(), None).unwrap();
    stream.grow(&[key(&["more"], ValueKind::String)]).unwrap();
    let before = stream.layout();
    let object = json!({"description": "!", "type": ["object", "null"], "properties": {
        "y": {"type": "number", "minimum": 0}, "x": {"type": "string", "maxLength": 3}}});
    let same = json!({"type": "object", "required": ["a"], "properties": {
        "s": object, "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}});
    assert_eq!(stream.replace(&same, &strings(&["a"])).unwrap(), Replaced::Unchanged);
    assert!(Arc::ptr_eq(&stream.layout(), &before));
    assert_eq!(stream.replace(&same, &[]).unwrap(), Replaced::Changed);
    assert!(stream.layout().key_sources.is_empty());
    assert_eq!(stream.layout().table_schema, before.table_schema);
}

#[test]
fn a_changed_schema_keeps_old_columns_and_appends_new_ones() {
    let mut stream = fresh(json!({"a": {"type": "integer"}, "b": {"type": "string"}}), &Options::default());
    stream.grow(&[key(&["more"], ValueKind::Integer)]).unwrap();
    let next = json!({"properties": {"c": {"type": "boolean"}, "b": {"type": "string"}}});
    assert_eq!(stream.replace(&next, &[]).unwrap(), Replaced::Changed);
    assert_eq!(columns(&stream), "a: long, b: string, more: long, c: boolean");
    assert!(!stream.layout().layout.by_key.contains_key("a"));
    assert_eq!(column_of(&stream, "more"), "more");
    // An undeclared field that was declared before comes back to its column.
    stream.grow(&[key(&["a"], ValueKind::Integer)]).unwrap();
    assert_eq!(way(&stream, "a"), "a Long, else Text { max_characters: None }?");
    let before = stream.layout();
    assert!(stream.replace(&json!({"properties": {"b": {"type": "nonsense"}}}), &[]).is_err());
    assert!(stream.replace(&json!({"properties": {"b": {"type": "string"}}}), &strings(&["gone"])).is_err());
    assert!(Arc::ptr_eq(&stream.layout(), &before), "an error leaves it as it was");
    let mut frozen = fresh(json!({"a": {"type": "integer"}}), &with_contract(SchemaContract::Freeze));
    assert!(frozen.replace(&next, &[]).is_err());
}

#[test]
fn a_table_that_changed_under_us_keeps_both_additions() {
    let base = table(&[("a", DataType::Long)]);
    let properties = json!({"a": {"type": "integer"}, "ours": {"type": "string"}});
    let mut stream = against(&base, properties, &Options::default()).unwrap();
    let theirs = table(&[("a", DataType::Long), ("theirs", DataType::Date)]);
    let facts = |schema| TableFacts { schema, partition_columns: &[], is_type_widening_enabled: false };
    stream.rebase(facts(&theirs)).unwrap();
    assert_eq!(columns(&stream), "a: long, theirs: date, ours: string");
    assert_eq!(column_of(&stream, "ours"), "ours");
    // Our own commit.
    let committed = (*stream.layout().table_schema).clone();
    stream.rebase(facts(&committed)).unwrap();
    assert_eq!(*stream.layout().table_schema, committed);
    let odd = table(&[("a", DataType::String), ("theirs", DataType::Date)]);
    let before = stream.layout();
    assert_eq!(stream.rebase(facts(&odd)).unwrap_err().kind(), ErrorKind::Schema);
    assert!(Arc::ptr_eq(&stream.layout(), &before));
    // A new stream, whose first commit made the table.
    let mut first = fresh(json!({"a": {"type": "integer"}}), &Options::default());
    let made = (*first.layout().table_schema).clone();
    first.rebase(facts(&made)).unwrap();
    assert_eq!(*first.layout().table_schema, made);
}
