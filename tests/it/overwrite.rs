//! `load_method: overwrite`: the rows of a load take the place of the table's, in one commit at a good end.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::load::{Loaded, load, record, schema, state};
use crate::table::{batches, data_files, log, rows};

fn over() -> Value {
    json!({"load_method": "overwrite", "state_interval_seconds": 0})
}

/// The paths that are in the table after its last commit.
fn live(table: &Path) -> BTreeSet<String> {
    let mut live = BTreeSet::new();
    for action in log(table).iter().flatten() {
        let path = |kind: &str| action[kind]["path"].as_str().map(str::to_owned);
        path("remove").inspect(|path| assert!(live.remove(path), "{path} was not in the table"));
        live.extend(path("add"));
    }
    live
}

/// The values of `n` in the live files.
fn values(table: &Path) -> Vec<i64> {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    let mut values = Vec::new();
    for path in live(table) {
        let file = std::fs::File::open(table.join(path)).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        for batch in reader {
            values.extend(batch.unwrap().column_by_name("n").unwrap().as_primitive::<Int64Type>().values());
        }
    }
    values.sort_unstable();
    values
}

fn good(loaded: Loaded) -> Vec<String> {
    loaded.result.expect("a good load");
    loaded.states
}

#[test]
fn the_rows_of_a_load_take_the_place_of_all_others_in_one_commit() {
    let lake = tempfile::tempdir().unwrap();
    let table = lake.path().join("a");
    good(load(lake.path(), json!({}), &[schema("a"), record("a", 1), record("a", 2), state(1)]));
    good(load(lake.path(), json!({}), &[schema("a"), record("a", 3), state(2)]));
    let states = good(load(lake.path(), over(), &[schema("a"), record("a", 7), state(3), record("a", 8), state(4)]));
    assert_eq!(states, [r#"{"at":4}"#], "no STATE leaves before the one commit");
    assert_eq!(values(&table), [7, 8]);
    let commits = log(&table);
    assert_eq!(commits.len(), 3);
    let info = &commits[2][0]["commitInfo"];
    assert_eq!((&info["operation"], &info["operationParameters"]["mode"]), (&json!("WRITE"), &json!("Overwrite")));
    assert_eq!((&info["isBlindAppend"], &info["operationMetrics"]["numRemovedFiles"]), (&json!(false), &json!("2")));
    let removes: Vec<&Value> = commits[2].iter().map(|action| &action["remove"]).filter(|remove| remove.is_object()).collect();
    for remove in removes {
        assert_eq!((&remove["dataChange"], &remove["extendedFileMetadata"]), (&json!(true), &json!(true)));
        assert!(remove["size"].as_i64() > Some(0) && remove["deletionTimestamp"].as_i64() > Some(0), "{remove}");
    }
    assert!(!commits[2].iter().any(|action| action.get("metaData").is_some()), "the schema is the same");
}

#[test]
fn the_schema_is_replaced_in_the_same_commit() {
    let lake = tempfile::tempdir().unwrap();
    let table = lake.path().join("a");
    let partitioned = json!({"streams": {"a": {"partition_by": ["p"]}}});
    let old =
        json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": {"n": {"type": "string"}, "p": {"type": "integer"}}}});
    let row = json!({"type": "RECORD", "stream": "a", "record": {"n": "x", "p": 1}});
    good(load(lake.path(), partitioned, &[old.to_string(), row.to_string(), state(1)]));
    let id = |version: usize| {
        let commit = &log(&table)[version];
        commit.iter().find_map(|action| action["metaData"]["id"].as_str()).map(str::to_owned)
    };
    // The partition column is gone, `n` is another type.
    good(load(lake.path(), over(), &[schema("a"), record("a", 5), state(2)]));
    let commit = &log(&table)[1];
    let metadata = commit.iter().map(|action| &action["metaData"]).find(|metadata| metadata.is_object()).unwrap();
    assert_eq!(metadata["partitionColumns"], json!([]));
    assert!(metadata["schemaString"].as_str().unwrap().contains("long"), "{metadata}");
    assert_eq!(id(0), id(1), "it is the same table");
    assert_eq!(values(&table), [5]);
    // And back again: partition columns come with `partition_by`.
    let partitioned = json!({"load_method": "overwrite", "streams": {"a": {"partition_by": ["p"]}}});
    good(load(lake.path(), partitioned, &[old.to_string(), row.to_string(), state(3)]));
    assert!(live(&table).iter().all(|path| path.starts_with("p=1/")), "{:?}", live(&table));
    // Without `partition_by` the table's own columns stay, where the stream has them.
    good(load(lake.path(), over(), &[old.to_string(), row.to_string(), state(4)]));
    assert!(live(&table).iter().all(|path| path.starts_with("p=1/")), "{:?}", live(&table));
}

#[test]
fn what_ends_badly_leaves_the_old_table() {
    let lake = tempfile::tempdir().unwrap();
    let table = lake.path().join("a");
    good(load(lake.path(), json!({}), &[schema("a"), record("a", 1), state(1)]));
    let failed = load(lake.path(), over(), &[schema("a"), record("a", 2), state(2), "nonsense".to_owned()]);
    assert!(failed.result.unwrap_err().to_string().contains("not JSON"));
    assert!(failed.states.is_empty(), "{:?}", failed.states);
    assert_eq!((rows(&table), data_files(&table)), ((vec![1], 1), 1));
    // Rows without a STATE behind them may be half of what the tap has.
    let lines = [schema("a"), state(2), record("a", 3)];
    let cut_off = load(lake.path(), over(), &lines);
    let error = cut_off.result.unwrap_err();
    assert_eq!(error.stream(), Some("a"));
    assert!(error.hint_text().unwrap().contains("overwrite_at_end"), "{error}");
    assert_eq!((cut_off.states, rows(&table), data_files(&table)), (vec![], (vec![1], 1), 1));
    // The user knows better.
    let mut settings = over();
    settings["overwrite_at_end"] = json!(true);
    assert_eq!(good(load(lake.path(), settings, &lines)), [r#"{"at":2}"#]);
    assert_eq!(values(&table), [3]);
}

#[test]
fn activate_version_ends_a_stream() {
    let lake = tempfile::tempdir().unwrap();
    let table = lake.path().join("a");
    let activate = json!({"type": "ACTIVATE_VERSION", "stream": "a", "version": 2}).to_string();
    let lines = [schema("a"), state(1), record("a", 1), activate];
    good(load(lake.path(), over(), &lines));
    assert_eq!(values(&table), [1]);
    // Without any STATE in the input its end is the end.
    good(load(lake.path(), over(), &[schema("a"), record("a", 2)]));
    assert_eq!(values(&table), [2]);
}

#[test]
fn a_stream_without_rows_empties_its_table_and_no_other() {
    let lake = tempfile::tempdir().unwrap();
    let both = [schema("a"), schema("b"), record("a", 1), record("b", 1), state(1)];
    good(load(lake.path(), json!({}), &both));
    let loaded = load(lake.path(), over(), &[schema("a"), state(2)]);
    let notices = &loaded.summary.streams[0].notices;
    assert!(notices.iter().any(|notice| notice.contains("emptied")), "{notices:?}");
    good(loaded);
    assert_eq!((values(&lake.path().join("a")), values(&lake.path().join("b"))), (vec![], vec![1]));
    // A tap that stops behind its SCHEMA empties nothing.
    let stopped = load(lake.path(), over(), &[state(3), schema("b")]);
    assert!(stopped.result.is_err());
    assert_eq!(values(&lake.path().join("b")), [1]);
    // A table that is not there yet comes into being.
    good(load(lake.path(), over(), &[schema("c"), state(4)]));
    assert_eq!((values(&lake.path().join("c")), batches(&lake.path().join("c")).len()), (vec![], 0));
}

#[test]
fn other_streams_commit_on_their_way_but_no_state_leaves_before_the_overwrite() {
    let lake = tempfile::tempdir().unwrap();
    let settings = json!({"batch_size_rows": 1, "state_interval_seconds": 0, "streams": {"full": {"load_method": "overwrite"}}});
    let lines = [
        schema("log"),
        record("log", 1),
        state(1),
        schema("full"),
        record("full", 10),
        record("log", 2),
        state(2),
        record("log", 3),
        record("full", 11),
        state(3),
    ];
    let states = good(load(lake.path(), settings.clone(), &lines));
    assert_eq!(states, [r#"{"at":1}"#, r#"{"at":3}"#]);
    assert_eq!(rows(&lake.path().join("log")), (vec![1, 2, 3], 3));
    assert_eq!((values(&lake.path().join("full")), log(&lake.path().join("full")).len()), (vec![10, 11], 1));
    // What `log` committed behind the last STATE comes again: the exit code says so.
    let mut broken = lines.to_vec();
    broken.push("nonsense".to_owned());
    let failed = load(lake.path(), settings, &broken);
    let error = failed.result.unwrap_err();
    assert_eq!((failed.states, error.exit_code()), (vec![r#"{"at":1}"#.to_owned()], 1));
    assert_eq!(values(&lake.path().join("full")), [10, 11]);
}

#[test]
fn a_table_that_only_grows_is_not_overwritten() {
    let lake = tempfile::tempdir().unwrap();
    let settings = json!({"table_properties": {"delta.appendOnly": "true"}});
    good(load(lake.path(), settings, &[schema("a"), record("a", 1), state(1)]));
    let refused = load(lake.path(), over(), &[schema("a"), record("a", 2), state(2)]);
    let error = refused.result.unwrap_err();
    assert!(error.to_string().contains("delta.appendOnly"), "{error}");
    assert_eq!((rows(&lake.path().join("a")).0, refused.states), (vec![1], vec![]));
}
