//! The command against an S3 endpoint in this process: what is common to the tests of credentials, of unclear answers and of secrets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::command::{Call, Workplace};
use crate::store::s3_server::S3Server;

/// A bucket, and a folder to call the command in.
pub struct Bucket {
    pub server: S3Server,
    pub workplace: Workplace,
}

impl Bucket {
    pub fn new() -> Self {
        Self { server: S3Server::start(), workplace: Workplace::new() }
    }

    /// Options that reach the bucket, without keys.
    pub fn options(&self) -> BTreeMap<String, String> {
        let mut options = self.server.storage_options();
        options.retain(|name, _| name != "aws_access_key_id" && name != "aws_secret_access_key");
        options
    }

    /// Returns a call that loads into the bucket under `options` and further settings.
    pub fn call(&self, options: &BTreeMap<String, String>, settings: Value) -> Call {
        let mut config = json!({"destination": format!("s3://{}/lake", self.server.bucket), "storage_options": options});
        config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        self.workplace.target(config)
    }

    /// Returns the values of `n` in the table `a`, sorted, by the files that its log names.
    pub fn rows(&self) -> Vec<i64> {
        use arrow::array::AsArray;
        let objects = self.server.backend().objects();
        let mut values = Vec::new();
        for (_, actions) in self.log() {
            for path in actions.iter().filter_map(|action| action["add"]["path"].as_str()) {
                let file = objects[&format!("lake/a/{path}")].clone();
                let reader =
                    parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
                for batch in reader.map(Result::unwrap) {
                    values.extend(batch.column_by_name("n").unwrap().as_primitive::<arrow::datatypes::Int64Type>().values());
                }
            }
        }
        values.sort_unstable();
        values
    }

    /// Returns the versions of the table `a` with their actions.
    pub fn log(&self) -> Vec<(u64, Vec<Value>)> {
        let objects = self.server.backend().objects();
        let commits = objects.iter().filter_map(|(key, bytes)| {
            let version = key.strip_prefix("lake/a/_delta_log/")?.strip_suffix(".json")?.parse().ok()?;
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            Some((version, lines.map(|line| serde_json::from_slice(line).unwrap()).collect()))
        });
        commits.collect()
    }

    /// Returns the data files of the table `a` that are in the bucket.
    pub fn data_files(&self) -> Vec<String> {
        let is_file = |key: &String| key.starts_with("lake/a/") && key.ends_with(".parquet") && !key.contains("/_delta_log/");
        self.server.backend().objects().into_keys().filter(is_file).collect()
    }
}

/// Messages of the stream `a`: its schema, and rows each with its STATE.
pub fn messages(rows: std::ops::Range<i64>) -> String {
    let mut lines = SCHEMA.to_owned() + "\n";
    for n in rows {
        lines += &row(n);
    }
    lines
}

pub const SCHEMA: &str = r#"{"type":"SCHEMA","stream":"a","schema":{"properties":{"n":{"type":"integer"}}}}"#;

/// A row and its STATE.
pub fn row(n: i64) -> String {
    format!(
        "{{\"type\":\"RECORD\",\"stream\":\"a\",\"record\":{{\"n\":{n}}}}}\n{{\"type\":\"STATE\",\"value\":{{\"at\":{n}}}}}\n"
    )
}
