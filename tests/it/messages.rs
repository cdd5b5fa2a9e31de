//! Singer messages in, tables and STATE out: the rows of the contract about messages, each at the command's own edge.

use serde_json::json;

use crate::command::{Ran, Workplace, assert_ran};
use crate::readback::{Table, files_below};

const SCHEMA: &str = r#"{"type":"SCHEMA","stream":"users","schema":{"properties":{"id":{"type":"integer"},"name":{"type":["string","null"]}}},"key_properties":["id"]}"#;

fn record(id: i64) -> String {
    format!(r#"{{"type":"RECORD","stream":"users","record":{{"id":{id},"name":"user {id}"}}}}"#)
}

fn state(value: i64) -> String {
    format!(r#"{{"type":"STATE","value":{{"at": {value}}}}}"#)
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn users(place: &Workplace) -> Table {
    Table::read(place.path("lake/users"))
}

#[test]
fn two_streams_become_two_tables_and_the_last_state_leaves() {
    let place = Workplace::new();
    let orders =
        r#"{"type":"SCHEMA","stream":"orders","schema":{"properties":{"id":{"type":"integer"},"amount":{"type":"number"}}}}"#;
    let messages = lines(&[
        SCHEMA,
        orders,
        &record(1),
        r#"{"type":"RECORD","stream":"orders","record":{"id":10,"amount":12.5}}"#,
        &record(2),
        r#"{"type":"STATE","value":{"bookmarks": {"users":  2, "big": 12345678901234567890.10}}}"#,
    ]);
    let ran = place.load(json!({}), &messages);
    ran.expect(0);
    assert_eq!(ran.stdout, "{\"bookmarks\": {\"users\":  2, \"big\": 12345678901234567890.10}}\n", "its own text");
    assert_eq!(users(&place).rows(), [r#"{id: 1, name: "user 1"}"#, r#"{id: 2, name: "user 2"}"#]);
    assert_eq!(Table::read(place.path("lake/orders")).rows(), ["{id: 10, amount: 12.5}"]);
    assert_ran!(ran, place);
}

#[test]
fn a_second_run_appends() {
    let place = Workplace::new();
    for id in 1..=3 {
        let ran = place.load(json!({}), &lines(&[SCHEMA, &record(id), &state(id)]));
        ran.expect(0);
        assert_eq!(ran.states(), [format!("{{\"at\": {id}}}")]);
    }
    assert_eq!(users(&place).numbers("id"), [1, 2, 3]);
    let operations: Vec<_> = users(&place).actions("metaData").len().to_string().chars().collect();
    assert_eq!(operations, ['1'], "metaData is written once");
}

#[test]
fn an_empty_input_is_a_good_load_without_a_state() {
    let place = Workplace::new();
    let ran = place.load(json!({}), "");
    ran.expect(0);
    assert_eq!(ran.stdout, "");
    assert_ran!(ran, place);
}

#[test]
fn a_state_alone_passes_through() {
    let place = Workplace::new();
    let ran = place.load(json!({}), &lines(&[&state(1), &state(2)]));
    assert_eq!(ran.expect(0).states().last(), Some(&"{\"at\": 2}"));
}

#[test]
fn a_schema_without_records_makes_the_empty_table() {
    let place = Workplace::new();
    place.load(json!({}), &lines(&[SCHEMA])).expect(0);
    assert_eq!(users(&place).columns(), ["id", "name"]);
    assert_eq!(users(&place).rows(), [""; 0]);
    let place = Workplace::new();
    place.load(json!({}), &lines(&[r#"{"type":"SCHEMA","stream":"users","schema":{"properties":{}}}"#])).expect(0);
    assert!(users(&place).versions.is_empty(), "no table until a field comes");
}

#[test]
fn blank_lines_line_ends_and_a_byte_order_mark_do_not_count() {
    let place = Workplace::new();
    let text = format!("\u{feff}{SCHEMA}\r\n\n   \n{}  \r\n{}\r\n\r\n{}", record(1), state(1), record(2));
    let ran = place.load(json!({}), &text);
    ran.expect(0);
    assert_eq!(users(&place).numbers("id"), [1, 2]);
    assert_eq!(ran.states(), ["{\"at\": 1}"]);
}

#[test]
fn rows_after_the_last_state_are_committed_at_a_good_end() {
    let place = Workplace::new();
    place.load(json!({}), &lines(&[SCHEMA, &record(1), &state(1), &record(2)])).expect(0);
    assert_eq!(users(&place).numbers("id"), [1, 2]);
}

#[test]
fn a_field_that_the_schema_does_not_name_becomes_a_column() {
    let place = Workplace::new();
    let messages = lines(&[SCHEMA, &record(1), r#"{"type":"RECORD","stream":"users","record":{"id":2,"name":null,"late":1.5}}"#]);
    place.load(json!({}), &messages).expect(0);
    assert_eq!(users(&place).columns(), ["id", "name", "late"]);
    assert_eq!(users(&place).numbers("id"), [1, 2]);
}

#[test]
fn duplicate_keys_the_last_wins() {
    let place = Workplace::new();
    place
        .load(json!({}), &lines(&[SCHEMA, r#"{"type":"RECORD","stream":"users","record":{"id":1,"name":"a","id":2}}"#]))
        .expect(0);
    assert_eq!(users(&place).rows(), [r#"{id: 2, name: "a"}"#]);
}

/// Loads two good rows and a STATE, then `bad` on line 5 and a good row after it.
fn load_with(place: &Workplace, bad: &str) -> Ran {
    let mut text = lines(&[SCHEMA, &record(1), &record(2), &state(2), bad]);
    if bad.ends_with('…') {
        // A line cut off is the last one, without a line break.
        text.truncate(text.find('…').unwrap());
    } else {
        text += &lines(&[&record(4), &state(4)]);
    }
    place.load(json!({}), &text)
}

#[test]
fn failing_input_keeps_what_lies_before_the_last_state_and_names_the_line() {
    for (what, bad, said) in [
        ("cut off", r#"{"type":"RECORD","stream":"users","record":{"id":3,…"#, "input line 5"),
        ("not JSON", r#"{"type":"RECORD" "stream"}"#, "input line 5"),
        ("unknown type", r#"{"type":"RECRD","stream":"users","record":{"id":3}}"#, "RECRD"),
        ("no type", r#"{"stream":"users","record":{"id":3}}"#, "input line 5"),
        ("a record before its schema", r#"{"type":"RECORD","stream":"orders","record":{"id":3}}"#, "orders"),
        (
            "a batch before its schema",
            r#"{"type":"BATCH","stream":"orders","encoding":{"format":"jsonl"},"manifest":[]}"#,
            "orders",
        ),
        ("a version before its schema", r#"{"type":"ACTIVATE_VERSION","stream":"orders","version":1}"#, "orders"),
        ("a schema without properties", r#"{"type":"SCHEMA","stream":"orders","schema":{"type":"object"}}"#, "properties"),
        ("a record without a key property", r#"{"type":"RECORD","stream":"users","record":{"name":"x"}}"#, "id"),
        ("a record that is no object", r#"{"type":"RECORD","stream":"users","record":[1]}"#, "input line 5"),
        ("a bad value", r#"{"type":"RECORD","stream":"users","record":{"id":"twelve","name":"x"}}"#, "twelve"),
        (
            "a batch file that is not there",
            r#"{"type":"BATCH","stream":"users","encoding":{"format":"jsonl"},"manifest":["file:///nowhere/b.jsonl"]}"#,
            "/nowhere/b.jsonl",
        ),
    ] {
        let place = Workplace::new();
        let ran = load_with(&place, bad);
        assert_eq!(ran.code, Some(1), "{what}: {}", ran.stderr);
        assert_eq!(ran.states(), ["{\"at\": 2}"], "{what}: the STATE before it is out, and no other");
        assert_eq!(users(&place).numbers("id"), [1, 2], "{what}");
        assert!(ran.stderr.contains(said) && ran.stderr.contains("input line 5"), "{what}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    }
}

#[test]
fn a_bad_value_is_shown_in_three_parts() {
    let place = Workplace::new();
    let ran = load_with(&place, r#"{"type":"RECORD","stream":"users","record":{"id":"12,5","name":"x"}}"#);
    ran.expect(1);
    assert_ran!(ran, place);
}

#[test]
fn failing_input_without_a_state_commits_nothing() {
    let place = Workplace::new();
    let ran = place.load(json!({}), &lines(&[SCHEMA, &record(1), "nonsense"]));
    ran.expect(1);
    assert_eq!(ran.stdout, "");
    assert_eq!(users(&place).rows(), [""; 0]);
}

#[test]
fn lines_that_are_no_messages_can_be_skipped_but_not_the_last_one_cut_off() {
    let place = Workplace::new();
    let skip = json!({ "on_bad_line": "skip" });
    let ran = place.load(skip.clone(), &lines(&[SCHEMA, "nonsense", &record(1), &state(1)]));
    ran.expect(0).says("skipped");
    assert_eq!(users(&place).numbers("id"), [1]);
    let place = Workplace::new();
    let cut = format!("{}{{\"type\":\"RECORD\",\"str", lines(&[SCHEMA, &record(1), &state(1)]));
    place.load(skip, &cut).expect(1).says("input line 4");
}

#[test]
fn values_that_were_changed_are_counted_with_their_first_example() {
    let place = Workplace::new();
    let schema = r#"{"type":"SCHEMA","stream":"users","schema":{"properties":{"id":{"type":"integer"},"seen":{"type":"string","format":"date-time"}}}}"#;
    let messages = lines(&[
        schema,
        r#"{"type":"RECORD","stream":"users","record":{"id":1,"seen":"0000-00-00 00:00:00"}}"#,
        r#"{"type":"RECORD","stream":"users","record":{"id":2,"seen":""}}"#,
        r#"{"type":"RECORD","stream":"users","record":{"id":3,"seen":"2026-01-02T03:04:05+02:00"}}"#,
    ]);
    let ran = place.load(json!({}), &messages);
    ran.expect(0).says("0000-00-00").says("input line 2");
    assert_eq!(users(&place).numbers("id"), [1, 2, 3]);
    assert_ran!(ran, place);
}

#[test]
fn bad_values_can_be_set_aside_or_set_to_null() {
    let messages = lines(&[
        SCHEMA.replace("\"type\":[\"string\",\"null\"]", "\"type\":\"number\"").as_str(),
        r#"{"type":"RECORD","stream":"users","record":{"id":1,"name":"12,5"}}"#,
        r#"{"type":"RECORD","stream":"users","record":{"id":2,"name":2.5}}"#,
        &state(2),
    ]);
    let place = Workplace::new();
    place.load(json!({ "on_bad_value": "set_null" }), &messages).expect(0).says("12,5");
    assert_eq!(users(&place).rows(), ["{id: 1, name: null}", "{id: 2, name: 2.5}"]);
    let place = Workplace::new();
    let ran = place.load(json!({ "on_bad_value": "reject" }), &messages);
    ran.expect(0);
    assert_eq!(ran.states(), ["{\"at\": 2}"]);
    assert_eq!(users(&place).rows(), ["{id: 2, name: 2.5}"]);
    let rejects = files_below(&place.path("lake/_rejects/users"));
    assert_eq!(rejects.len(), 1, "{rejects:?}");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(std::fs::File::open(&rejects[0]).unwrap()), &mut text)
        .unwrap();
    let reject: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    assert!(text.contains("12,5") && text.contains("users"), "{reject}");
    let place = Workplace::new();
    place.load(json!({ "on_bad_value": "reject", "max_rejects": 0 }), &messages).expect(1);
}

#[test]
fn a_stream_with_partitions_has_a_folder_for_each() {
    let place = Workplace::new();
    let config = json!({ "streams": { "users": { "partition_by": ["name"] } } });
    let messages = lines(&[
        SCHEMA,
        r#"{"type":"RECORD","stream":"users","record":{"id":1,"name":"a/b c"}}"#,
        r#"{"type":"RECORD","stream":"users","record":{"id":2,"name":null}}"#,
    ]);
    place.load(config, &messages).expect(0);
    assert_eq!(users(&place).rows(), [r#"{id: 1} name="a/b c""#, "{id: 2} name=null"]);
}

#[test]
fn stream_names_become_folders_that_no_system_hides() {
    let place = Workplace::new();
    let messages = lines(&[SCHEMA, &record(1)]).replace("\"users\"", "\"_public.users:eu/1\"");
    place.load(json!({}), &messages).expect(0);
    assert_eq!(Table::read(place.path("lake/~5fpublic.users~3aeu~2f1")).numbers("id"), [1]);
}

#[test]
fn a_state_that_is_empty_is_never_invented() {
    let place = Workplace::new();
    let ran = place.load(json!({}), &lines(&[SCHEMA, &record(1)]));
    assert_eq!(ran.expect(0).stdout, "");
}
