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
use crate::{ErrorKind, Result, seam};

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

/// Puts an object into the bucket of `server`.
fn put(server: &S3Server, path: &str, bytes: Vec<u8>) {
    let url = store::normalise_destination(&format!("s3://{}", server.bucket)).unwrap();
    let store = store::open(&url, &server.options()).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(store.put(path, bytes.into())).unwrap();
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn batch(server: &S3Server, paths: &[&str]) -> String {
    let manifest: Vec<String> = paths.iter().map(|path| format!("s3://{}/{path}", server.bucket)).collect();
    json!({"type": "BATCH", "stream": "orders", "encoding": {"format": "jsonl"}, "manifest": manifest}).to_string()
}

const ORDERS: &str = r#"{"type":"SCHEMA","stream":"orders","schema":{"properties":{"n":{"type":"integer"}}}}"#;

fn state(at: i64) -> String {
    json!({"type": "STATE", "value": {"at": at}}).to_string()
}

#[test]
fn batch_files_in_a_bucket_are_read_raw_then_decoded_and_deleted_after_their_commit() {
    let server = S3Server::start();
    put(&server, "batch/a b.jsonl.gz", gzipped("{\"n\":1}\n{\"n\":2}\n"));
    put(&server, "batch/50%25.jsonl", b"{\"n\":3}\n".to_vec());
    put(&server, "batch/50%.jsonl", b"{\"n\":99}\n".to_vec());
    put(&server, "batch/kept.jsonl", b"{\"n\":4}".to_vec());
    let lines = [
        ORDERS.to_owned(),
        r#"{"type":"RECORD","stream":"orders","record":{"n":0}}"#.to_owned(),
        batch(&server, &["batch/a%20b.jsonl.gz", "batch/50%25.jsonl"]),
        state(1),
        batch(&server, &["batch/kept.jsonl"]),
        "cut off".to_owned(),
    ];
    let settings = json!({"clean_up_batch_files": true});
    let error = run(&server, settings, lines.join("\n")).unwrap_err();
    assert_eq!(error.exit_code(), 1, "{}", error.render());
    assert_eq!(rows(&server, "orders").0, [0, 1, 2, 3]);
    let left: Vec<String> = server.backend().objects().into_keys().filter(|key| key.starts_with("batch/")).collect();
    assert_eq!(left, ["batch/50%.jsonl", "batch/kept.jsonl"], "deleted after their commit alone");
}

#[test]
fn a_batch_file_of_a_bucket_that_cannot_be_read_is_named_and_commits_nothing_behind_it() {
    let server = S3Server::start();
    put(&server, "batch/closed.jsonl", b"{\"n\":1}\n".to_vec());
    server.set_rule(|call| if call.path.ends_with("/closed.jsonl") { Fault::Answer(403, "AccessDenied") } else { Fault::Pass });
    let elsewhere = json!({"type": "BATCH", "stream": "orders", "encoding": {"format": "jsonl"}, "manifest": ["ftp://host/x.jsonl?token=hunter2"]});
    let no_bucket =
        json!({"type": "BATCH", "stream": "orders", "encoding": {"format": "jsonl"}, "manifest": ["s3://no-such-lake/x.jsonl"]});
    for (entry, kind, words) in [
        (batch(&server, &["batch/missing%20one.jsonl"]), ErrorKind::Input, "batch/missing%20one.jsonl` does not exist"),
        (batch(&server, &["batch/closed.jsonl"]), ErrorKind::Denied, "batch/closed.jsonl` cannot be read"),
        (no_bucket.to_string(), ErrorKind::Input, "s3://no-such-lake/x.jsonl` does not exist"),
        (elsewhere.to_string(), ErrorKind::Input, "ftp://host/x.jsonl` cannot be read"),
    ] {
        let lines = [ORDERS.to_owned(), state(1), entry, state(2)];
        let error = run(&server, json!({}), lines.join("\n")).unwrap_err();
        assert_eq!((error.kind(), error.line().map(|line| line.0)), (kind, Some(3)), "{}", error.render());
        assert!(error.render().contains(words) && !error.render().contains("hunter2"), "{}", error.render());
    }
    assert_eq!(rows(&server, "orders").0, [0_i64; 0]);
}

#[test]
fn a_batch_file_of_columns_in_a_bucket_is_read_from_its_spooled_copy() {
    let server = S3Server::start();
    let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..20_000));
    let rows_of = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let mut parquet = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut parquet, rows_of.schema(), None).unwrap();
    writer.write(&rows_of).unwrap();
    writer.close().unwrap();
    put(&server, "batch/n.parquet", parquet);
    server.take_calls();
    run(&server, json!({}), [ORDERS.to_owned(), batch(&server, &["batch/n.parquet"]), state(1)].join("\n")).unwrap();
    assert_eq!(rows(&server, "orders").0, (0..20_000).collect::<Vec<_>>());
    assert!(server.backend().objects().contains_key("batch/n.parquet"), "left alone");
    let reads: Vec<_> = server.take_calls().into_iter().filter(|call| call.path.ends_with("n.parquet")).collect();
    assert!(reads.iter().any(|call| call.header("range").starts_with("bytes=0-")), "{reads:?}");
}

#[test]
fn every_object_is_encrypted_as_asked() {
    let key = "arn:aws:kms:eu-central-1:1:key/of-the-test";
    let server = S3Server::start();
    let mut options = server.storage_options();
    for (name, value) in
        [("aws_server_side_encryption", "aws:kms"), ("aws_sse_kms_key_id", key), ("aws_sse_bucket_key_enabled", "true")]
    {
        options.insert(name.to_owned(), value.to_owned());
    }
    // Rows that compress badly, for a file in parts, and versions enough for a checkpoint.
    let mut draw = store::faulty::Draw(1);
    let noise = |draw: &mut store::faulty::Draw| (0..400).map(|_| format!("{:016x}", draw.number())).collect::<String>();
    let mut lines = json!({"type": "SCHEMA", "stream": "orders", "schema": {"properties": {
        "n": {"type": "integer"}, "text": {"type": "string"}}}})
    .to_string();
    for n in 0..2_400 {
        let text = if n < 2_300 { noise(&mut draw) } else { String::new() };
        lines += &format!("\n{}", json!({"type": "RECORD", "stream": "orders", "record": {"n": n, "text": text}}));
        if n == 2_299 || n > 2_380 {
            lines += &format!("\n{}", state(n));
        }
    }
    run(&server, json!({"storage_options": options, "batch_size_rows": 1}), lines).unwrap();
    assert_eq!(rows(&server, "orders").0, (0..2_400).collect::<Vec<_>>());
    let (mut begun, mut whole, mut parts) = (0, 0, 0);
    for call in server.take_calls() {
        let is_object = match call.operation {
            Operation::ConditionalPut | Operation::Put => {
                whole += 1;
                true
            }
            Operation::Multipart if call.query.contains("uploads") => {
                begun += 1;
                true
            }
            // A part is encrypted as its upload was begun; S3 refuses the headers here.
            Operation::Multipart => {
                parts += 1;
                false
            }
            Operation::Get | Operation::Head | Operation::List | Operation::Delete | Operation::Token => false,
        };
        let seen =
            ["", "-aws-kms-key-id", "-bucket-key-enabled"].map(|end| call.header(&format!("x-amz-server-side-encryption{end}")));
        assert_eq!(seen, if is_object { ["aws:kms", key, "true"] } else { ["", "", ""] }, "{call:?}");
    }
    assert!(begun >= 1 && parts >= 2 && whole > 20, "{begun} uploads, {parts} parts, {whole} puts");
    let checkpoint = server.backend().objects().into_keys().find(|key| key.ends_with(".checkpoint.parquet"));
    assert!(checkpoint.is_some(), "the checkpoint is among them");
}
