//! The pipeline as a whole, in this process, on a real directory.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use delta_load::config::{self, Environment};
use delta_load::report::{Reporter, Summary};
use delta_load::{ErrorKind, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::table::{data_files, rows};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub struct Loaded {
    pub states: Vec<String>,
    pub result: Result<()>,
    pub summary: Summary,
}

pub fn load(directory: &Path, settings: Value, lines: &[String]) -> Loaded {
    let mut config = json!({ "destination": directory });
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config.to_string()).unwrap();
    let plan = config::plan(&[file.path().display().to_string()], &Environment::default()).expect("a good config");
    let seam = delta_load::seam::real();
    let report = Reporter::new(seam.clone());
    let output = Captured::default();
    let input = std::io::Cursor::new(lines.join("\n").into_bytes());
    let result = delta_load::load::run(plan, Box::new(input), Box::new(output.clone()), &report, &seam);
    let summary = report.finish();
    let printed = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    Loaded { states: printed.lines().map(str::to_owned).collect(), result, summary }
}

pub fn schema(stream: &str) -> String {
    json!({"type": "SCHEMA", "stream": stream, "schema": {"properties": {"n": {"type": "integer"}}}, "key_properties": []})
        .to_string()
}

pub fn record(stream: &str, n: i64) -> String {
    json!({"type": "RECORD", "stream": stream, "record": {"n": n}}).to_string()
}

pub fn state(n: i64) -> String {
    json!({"type": "STATE", "value": {"at": n}}).to_string()
}

#[test]
fn a_good_end_commits_all_and_lets_the_last_state_out() {
    let lake = tempfile::tempdir().unwrap();
    let lines = [schema("a"), record("a", 1), state(1), record("a", 2), state(2), record("a", 3)];
    let loaded = load(lake.path(), json!({}), &lines);
    loaded.result.unwrap();
    assert_eq!(loaded.states, [r#"{"at":2}"#]);
    assert_eq!(rows(&lake.path().join("a")), (vec![1, 2, 3], 1));
    assert_eq!(loaded.summary.streams[0].rows, 3);
}

#[test]
fn a_bad_end_commits_what_lies_before_the_newest_state_and_nothing_else() {
    let lake = tempfile::tempdir().unwrap();
    let lines = [schema("a"), record("a", 1), state(1), schema("b"), record("a", 2), record("b", 7), "{".into()];
    let loaded = load(lake.path(), json!({}), &lines);
    let error = loaded.result.unwrap_err();
    assert_eq!((error.kind(), error.line().map(|line| line.0)), (ErrorKind::Input, Some(7)));
    assert!(error.render().contains("committed up to the STATE of line 3; later rows were left out"), "{}", error.render());
    assert_eq!(loaded.states, [r#"{"at":1}"#]);
    assert_eq!(rows(&lake.path().join("a")), (vec![1], 1));
    assert!(!lake.path().join("b/_delta_log").exists());
    assert_eq!(
        (data_files(&lake.path().join("a")), data_files(&lake.path().join("b"))),
        (1, 0),
        "no file is left that no commit names"
    );
}

#[test]
fn a_bad_end_without_a_state_commits_nothing() {
    let lake = tempfile::tempdir().unwrap();
    let loaded = load(lake.path(), json!({}), &[schema("a"), record("a", 1), "nonsense".into(), state(1)]);
    assert!(loaded.result.is_err());
    assert!(loaded.states.is_empty());
    assert_eq!((rows(&lake.path().join("a")).1, data_files(&lake.path().join("a"))), (0, 0));
}

#[test]
fn commit_at_end_holds_all_back_until_a_good_end() {
    let lake = tempfile::tempdir().unwrap();
    let settings = json!({"commit_at": "end", "batch_size_rows": 1});
    let bad = [schema("a"), record("a", 1), state(1), record("a", 2), state(2), "{".into()];
    let loaded = load(lake.path(), settings.clone(), &bad);
    assert!(loaded.result.is_err() && loaded.states.is_empty());
    assert_eq!(rows(&lake.path().join("a")).1, 0);
    let loaded = load(lake.path(), settings, &bad[..5]);
    loaded.result.unwrap();
    assert_eq!(loaded.states, [r#"{"at":2}"#]);
    assert_eq!(rows(&lake.path().join("a")), (vec![1, 2], 1));
}

#[test]
fn a_schema_change_cuts_nothing() {
    let lake = tempfile::tempdir().unwrap();
    let wider =
        json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}});
    let lines = [schema("a"), record("a", 1), wider.to_string(), record("a", 2), state(1)];
    load(lake.path(), json!({}), &lines).result.unwrap();
    assert_eq!(rows(&lake.path().join("a")), (vec![1, 2], 1));
    assert_eq!(data_files(&lake.path().join("a")), 2);
}

#[test]
fn a_schema_without_records_leaves_an_empty_table() {
    let lake = tempfile::tempdir().unwrap();
    let none = json!({"type": "SCHEMA", "stream": "none", "schema": {"properties": {}}}).to_string();
    load(lake.path(), json!({}), &[schema("a"), none, state(1)]).result.unwrap();
    assert_eq!(rows(&lake.path().join("a")), (vec![], 1));
    assert!(!lake.path().join("none/_delta_log").exists(), "no table until a field comes");
}

#[test]
fn states_alone_leave_at_once_and_only_the_newest_at_the_end() {
    let lake = tempfile::tempdir().unwrap();
    let loaded = load(lake.path(), json!({}), &[state(1), state(2), "{\"type\":\"STATE\",\"value\":{}}".into()]);
    loaded.result.unwrap();
    assert_eq!(loaded.states.last().map(String::as_str), Some(r#"{"at":2}"#));
    let lines = [schema("a"), record("a", 1), state(1), "{\"type\":\"STATE\",\"value\":{}}".into()];
    assert_eq!(load(lake.path(), json!({}), &lines).states, [r#"{"at":1}"#], "an empty state does not hide an older one");
}

#[test]
fn rejects_are_set_aside_up_to_the_limit() {
    let lake = tempfile::tempdir().unwrap();
    let bad = r#"{"type":"RECORD","stream":"a","record":{"n":"x"}}"#.to_owned();
    let settings = json!({"on_bad_value": "reject", "max_rejects": 2});
    let lines = [schema("a"), bad.clone(), record("a", 1), bad.clone(), state(1), bad.clone()];
    load(lake.path(), settings.clone(), &lines[..5]).result.unwrap();
    assert_eq!(rows(&lake.path().join("a")).0, [1]);
    assert_eq!(std::fs::read_dir(lake.path().join("_rejects/a")).unwrap().count(), 1);
    let loaded = load(lake.path(), settings, &lines);
    assert!(loaded.result.unwrap_err().to_string().contains("more than 2 records"));
    assert_eq!(loaded.states, [r#"{"at":1}"#]);
}

#[test]
fn two_streams_never_share_a_table() {
    let lake = tempfile::tempdir().unwrap();
    let loaded = load(lake.path(), json!({"table_path": "{table}"}), &[schema("x-a"), schema("y-a")]);
    assert_eq!(loaded.result.unwrap_err().kind(), ErrorKind::Config);
}

#[derive(Debug, Clone)]
enum Step {
    Record(usize),
    State,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(prop_oneof![4 => (0usize..3).prop_map(Step::Record), 1 => Just(Step::State)], 0..60)
}

/// Per stream the rows, each with the number of STATE messages before it.
type Expected = Vec<Vec<(i64, i64)>>;

/// Lines, the rows that they hold, the number of STATE messages.
fn script(steps: &[Step]) -> (Vec<String>, Expected, i64) {
    let names = ["a", "b", "c"];
    let mut lines: Vec<String> = names.iter().map(|name| schema(name)).collect();
    let mut expected = vec![Vec::new(); 3];
    let mut states = 0;
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Record(stream) => {
                lines.push(record(names[*stream], n as i64));
                expected[*stream].push((n as i64, states));
            }
            Step::State => {
                states += 1;
                lines.push(state(states));
            }
        }
    }
    (lines, expected, states)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the interleaving and the size of the cuts: a bad end leaves exactly the rows before the newest STATE, and that STATE.
    #[test]
    fn no_interleaving_lets_a_state_out_early(steps in steps(), batch_size_rows in 1u64..20) {
        let lake = tempfile::tempdir().unwrap();
        let (mut lines, expected, states) = script(&steps);
        lines.push("cut off".into());
        let loaded = load(lake.path(), json!({"batch_size_rows": batch_size_rows, "state_interval_seconds": 1}), &lines);
        prop_assert!(loaded.result.is_err());
        prop_assert_eq!(loaded.states.last().cloned(), (states > 0).then(|| format!("{{\"at\":{states}}}")));
        for (stream, expected) in ["a", "b", "c"].iter().zip(&expected) {
            let covered: Vec<i64> = expected.iter().filter(|(_, before)| *before < states).map(|(n, _)| *n).collect();
            prop_assert_eq!(&rows(&lake.path().join(stream)).0, &covered);
        }
    }

    /// Any split into cuts gives the same rows in the same order.
    #[test]
    fn any_split_into_cuts_gives_the_same_table(steps in steps(), batch_size_rows in 1u64..20) {
        let lake = tempfile::tempdir().unwrap();
        let (lines, expected, _) = script(&steps);
        load(lake.path(), json!({"batch_size_rows": batch_size_rows}), &lines).result.unwrap();
        for (stream, expected) in ["a", "b", "c"].iter().zip(&expected) {
            prop_assert_eq!(rows(&lake.path().join(stream)).0, expected.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_column_that_came_after_the_newest_state_is_left_out_with_its_rows() {
    let lake = tempfile::tempdir().unwrap();
    let grown = r#"{"type":"RECORD","stream":"a","record":{"n":2,"e":5}}"#.to_owned();
    let lines = [schema("a"), record("a", 1), state(1), record("a", 7), grown, "garbage".into()];
    let loaded = load(lake.path(), json!({}), &lines);
    assert_eq!(loaded.result.unwrap_err().line().map(|line| line.0), Some(6));
    assert_eq!((loaded.states, rows(&lake.path().join("a"))), (vec![r#"{"at":1}"#.to_owned()], (vec![1], 1)));
    load(lake.path(), json!({}), &lines[..5]).result.unwrap();
    assert_eq!(rows(&lake.path().join("a")), (vec![1, 1, 7, 2], 2));
}

#[test]
fn records_without_a_field_wait_for_one() {
    let lake = tempfile::tempdir().unwrap();
    let none = json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": {}}}).to_string();
    let empty = r#"{"type":"RECORD","stream":"a","record":{}}"#.to_owned();
    let loaded =
        load(lake.path(), json!({"batch_size_rows": 1}), &[none.clone(), empty.clone(), state(1), empty.clone(), state(2)]);
    loaded.result.unwrap();
    assert_eq!(loaded.states.last().map(String::as_str), Some(r#"{"at":2}"#));
    assert!(loaded.summary.streams[0].notices.iter().any(|notice| notice.contains("2 records without any field")));
    assert!(!lake.path().join("a/_delta_log").exists());
    let later = r#"{"type":"RECORD","stream":"a","record":{"n":3}}"#.to_owned();
    load(lake.path(), json!({"batch_size_rows": 1}), &[none, empty, state(1), later, state(2)]).result.unwrap();
    let batches = crate::table::batches(&lake.path().join("a"));
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[test]
fn commit_at_end_holds_back_a_state_that_came_first_too() {
    let lake = tempfile::tempdir().unwrap();
    let settings = json!({"commit_at": "end", "state_interval_seconds": 0});
    let loaded = load(lake.path(), settings.clone(), &[state(1), schema("a"), record("a", 1), "{".into()]);
    assert!(loaded.result.is_err() && loaded.states.is_empty(), "{:?}", loaded.states);
    let loaded = load(lake.path(), settings, &[state(1), state(2)]);
    assert_eq!(loaded.states, [r#"{"at":2}"#]);
}

#[test]
fn rejects_that_cannot_be_written_hold_every_state_back() {
    let lake = tempfile::tempdir().unwrap();
    std::fs::write(lake.path().join("_rejects"), "in the way").unwrap();
    let bad = format!(r#"{{"type":"RECORD","stream":"a","record":{{"n":"{}"}}}}"#, "x".repeat(10_000));
    let mut lines = vec![schema("a")];
    lines.extend(std::iter::repeat_n(bad, 900));
    lines.extend([record("a", 1), state(1), "{".into()]);
    let loaded = load(lake.path(), json!({"on_bad_value": "reject"}), &lines);
    assert!(loaded.result.is_err());
    assert_eq!((loaded.states, rows(&lake.path().join("a")).1), (vec![], 0));
}

#[test]
fn no_table_lies_within_another() {
    let lake = tempfile::tempdir().unwrap();
    let settings = json!({"streams": {"a": {"table_path": "raw"}, "b": {"table_path": "raw/b"}}});
    assert_eq!(load(lake.path(), settings, &[schema("a"), schema("b")]).result.unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn a_wide_stream_of_short_records_is_cut_into_small_batches() {
    let lake = tempfile::tempdir().unwrap();
    let mut properties = serde_json::Map::from_iter((0..500).map(|i| (format!("c{i}"), json!({"type": "integer"}))));
    properties.insert("n".into(), json!({"type": "integer"}));
    let wide = json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": properties}}).to_string();
    let mut lines = vec![wide];
    lines.extend((0..3_000).map(|n| record("a", n)));
    load(lake.path(), json!({}), &lines).result.unwrap();
    assert_eq!(rows(&lake.path().join("a")).0, (0..3_000).collect::<Vec<_>>());
}

#[test]
fn an_empty_text_as_partition_value_is_told() {
    let lake = tempfile::tempdir().unwrap();
    let schema =
        json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": {"n": {"type": "integer"}, "p": {"type": "string"}}}});
    let lines = [schema.to_string(), r#"{"type":"RECORD","stream":"a","record":{"n":1,"p":""}}"#.into()];
    let loaded = load(lake.path(), json!({"streams": {"a": {"partition_by": ["p"]}}}), &lines);
    loaded.result.unwrap();
    assert!(loaded.summary.streams[0].notices.iter().any(|notice| notice.contains("stored as null")));
}
