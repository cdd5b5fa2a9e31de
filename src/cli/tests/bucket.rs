//! A whole load into a bucket: messages in, tables and STATE out, read back.

use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::config::{self, Environment};
use crate::load;
use crate::report::Reporter;
use crate::store::s3_server::{Fault, Operation, S3Server};
use crate::store::{self, Source};
use crate::{Result, seam};

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Loads `lines` under `settings` and returns what was printed.
fn run(server: &S3Server, settings: Value, lines: String) -> Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let mut config = json!({
        "destination": format!("s3://{}/my lake", server.bucket),
        "storage_options": server.storage_options(),
    });
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    std::fs::write(&path, config.to_string()).unwrap();
    let plan = config::plan(&[path.to_str().unwrap().to_owned()], &Environment::default())?;
    let (output, seam) = (Output::default(), seam::real());
    let reporter = Reporter::new(seam.clone());
    let loaded = load::run(plan, Box::new(std::io::Cursor::new(lines)), Box::new(output.clone()), &reporter, &seam);
    let printed = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    loaded.map(|()| printed)
}

fn messages(from: i64, to: i64) -> String {
    let mut lines = String::new();
    for stream in ["orders", "über uns"] {
        lines += &format!(
            "{}\n",
            json!({"type": "SCHEMA", "stream": stream, "key_properties": [], "schema": {"properties": {
                "n": {"type": "integer"}, "text": {"type": "string"}, "day": {"type": "string"}}}})
        );
    }
    for n in from..to {
        for stream in ["orders", "über uns"] {
            let record = json!({"n": n, "text": format!("row {n}"), "day": format!("day {}", n % 3)});
            lines += &format!("{}\n", json!({"type": "RECORD", "stream": stream, "record": record}));
        }
        if n % 1000 == 999 {
            lines += &format!("{}\n", json!({"type": "STATE", "value": {"n": n}}));
        }
    }
    lines + &format!("{}\n", json!({"type": "STATE", "value": {"n": to}}))
}

/// Returns the values of `n` in the files that the log names, sorted, and the number of commits.
fn rows(server: &S3Server, table: &str) -> (Vec<i64>, usize) {
    let url = store::normalise_destination(&format!("s3://{}/my lake", server.bucket)).unwrap();
    let store = store::open(&url, &server.options()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let log = runtime.block_on(store.list(&format!("{table}/_delta_log/"), None)).unwrap();
    let commits: Vec<_> = log.iter().filter(|entry| entry.path.ends_with(".json")).collect();
    let mut values = Vec::new();
    for commit in &commits {
        let text = runtime.block_on(store.get(&commit.path)).unwrap().unwrap();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let action: Value = serde_json::from_slice(line).unwrap();
            let Some(path) = action["add"]["path"].as_str() else { continue };
            let path = percent_encoding::percent_decode_str(path).decode_utf8().unwrap();
            let Source::Bytes(file) = store.open_file(&format!("{table}/{path}")).unwrap() else {
                panic!("a bucket has no files")
            };
            assert_eq!(action["add"]["size"], file.len());
            let batches: Vec<RecordBatch> =
                ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().collect::<Result<_, _>>().unwrap();
            for batch in batches {
                values.extend(batch.column_by_name("n").unwrap().as_primitive::<Int64Type>().values());
            }
        }
    }
    values.sort_unstable();
    (values, commits.len())
}

#[test]
fn a_load_into_a_bucket_is_read_back() {
    let server = S3Server::start();
    let settings =
        json!({"streams": {"orders": {"partition_by": ["day"]}}, "batch_size_rows": 1500, "state_interval_seconds": 1});
    let printed = run(&server, settings.clone(), messages(0, 4_000)).unwrap();
    assert_eq!(printed.lines().last(), Some(r#"{"n":4000}"#));
    run(&server, settings, messages(4_000, 5_000)).unwrap();
    for table in ["orders", "über uns"] {
        let (found, commits) = rows(&server, table);
        assert_eq!(found, (0..5_000).collect::<Vec<_>>(), "{table}");
        assert!(commits >= 2, "{table}");
    }
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn a_load_gets_past_lost_answers() {
    let server = S3Server::start();
    let mut count = 0;
    server.set_rule(move |call| {
        count += 1;
        match call.operation {
            Operation::ConditionalPut if count % 3 == 0 => Fault::DropAfter,
            Operation::ConditionalPut if count % 3 == 1 => Fault::AppliedAnswer(503, "SlowDown"),
            Operation::Get | Operation::Head if count % 4 == 0 => Fault::Answer(500, "InternalError"),
            _ => Fault::Pass,
        }
    });
    run(&server, json!({"batch_size_rows": 500}), messages(0, 2_000)).unwrap();
    server.set_rule(|_| Fault::Pass);
    assert_eq!(rows(&server, "orders").0, (0..2_000).collect::<Vec<_>>());
}

#[test]
fn a_load_says_what_is_wrong_with_the_bucket() {
    let server = S3Server::start();
    let error = run(&server, json!({"destination": "s3://no-such-lake/x"}), messages(0, 10)).unwrap_err();
    assert!(error.exit_code() == 1 && error.render().contains("there is no bucket `no-such-lake`"), "{}", error.render());
    server.ignore_conditions();
    let error = run(&server, json!({}), messages(0, 10)).unwrap_err();
    assert!(error.render().contains("ignores the condition of put-if-absent"), "{}", error.render());
    let error = run(&server, json!({"storage_options": {"aws_endpoint_url": server.endpoint()}}), messages(0, 10)).unwrap_err();
    assert!(error.exit_code() == 2 && error.render().contains("aws_allow_http"), "{}", error.render());
}
