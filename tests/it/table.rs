//! Reads a table as its log says, with nothing of ours.

use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// The actions of all commits, in order.
pub fn log(table: &Path) -> Vec<Vec<Value>> {
    let Ok(entries) = std::fs::read_dir(table.join("_delta_log")) else { return Vec::new() };
    let is_commit = |path: &Path| path.extension().is_some_and(|e| e == "json") && path.file_stem().unwrap().len() == 20;
    let mut commits: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| is_commit(path)).collect();
    commits.sort();
    for (version, commit) in commits.iter().enumerate() {
        assert_eq!(commit.file_stem().unwrap().to_str().unwrap(), format!("{version:020}"), "the log has no gap");
    }
    let actions = |text: String| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    commits.iter().map(|commit| actions(std::fs::read_to_string(commit).unwrap())).collect()
}

/// The record batches of all files that the log adds, in its order. Checks each file's `numRecords`.
pub fn batches(table: &Path) -> Vec<RecordBatch> {
    let mut found = Vec::new();
    for action in log(table).iter().flatten() {
        let Some(path) = action["add"]["path"].as_str() else { continue };
        let file = std::fs::File::open(table.join(path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let in_file: Vec<_> = reader.map(|batch| batch.unwrap()).collect();
        let statistics: Value = serde_json::from_str(action["add"]["stats"].as_str().unwrap()).unwrap();
        assert_eq!(statistics["numRecords"], in_file.iter().map(RecordBatch::num_rows).sum::<usize>());
        found.extend(in_file);
    }
    found
}

/// The values of the long column `n`, in the order of the log; the number of versions.
pub fn rows(table: &Path) -> (Vec<i64>, usize) {
    let values = |batch: &RecordBatch| batch.column_by_name("n").unwrap().as_primitive::<Int64Type>().values().to_vec();
    (batches(table).iter().flat_map(values).collect(), log(table).len())
}

/// The data files at the top of a table's folder, whether a commit names them or not.
pub fn data_files(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "parquet")).count()
}
