//! The bytes of a commit: `commitInfo` first, then protocol and metaData where they change, then the files.
//!
//! What differs from attempt to attempt (time, version that was read) is encoded for each attempt; the files, which are most of the
//! bytes, once. Two attempts never have the same bytes, and no two transactions ever do (`txnId`): the read-back of an unclear
//! answer rests on that.

use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::schema::TableSchema;
use crate::{Error, Result};

use super::action::{Add, Metadata, Protocol, Txn};
use super::plan::Planned;
use super::row_tracking::{PRESERVED_TAG, RowIds};
use super::{Action, AddFile, NewTable, Provenance, Version};

/// The name and version that every commit carries.
const ENGINE: &str = concat!("delta-load/", env!("CARGO_PKG_VERSION"));

/// What a URI path does not hold as it is. `:` is legal, but not in the first part of a relative path.
/// Source: RFC 2396, which the protocol names for `add.path`.
const NOT_IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b':')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns `path` (raw, relative to the table) as `add.path` has it.
pub(super) fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, NOT_IN_PATH).to_string()
}

/// Returns the lines of the file actions; new files take their row ids where there are any.
pub(super) fn encode_files(planned: &Planned, mut row_ids: Option<&mut RowIds>, now_ms: i64) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    let data_change = !planned.is_rearrangement;
    for remove in &planned.removes {
        let remove = super::Remove { deletion_timestamp: Some(now_ms), data_change, ..remove.clone() };
        write_line(&mut lines, &Action::Remove(remove))?;
    }
    for add in &planned.re_adds {
        write_line(&mut lines, &Action::Add(Add { data_change, ..add.clone() }))?;
    }
    for file in planned.files.iter() {
        let mut rest = Map::new();
        if let Some(row_ids) = &mut row_ids {
            rest.insert("baseRowId".to_owned(), row_ids.take(file)?.into());
            rest.insert("defaultRowCommitVersion".to_owned(), row_ids.version.into());
        }
        write_line(&mut lines, &Action::Add(new_add(file, data_change, rest)))?;
    }
    Ok(lines)
}

fn new_add(file: &AddFile, data_change: bool, rest: Map<String, Value>) -> Add {
    let values =
        file.partition_values.iter().map(|(name, value)| (name.clone(), value.clone().map_or(Value::Null, Value::String)));
    Add {
        path: encode_path(&file.path),
        partition_values: values.collect(),
        size: file.size,
        modification_time: file.modified_ms,
        data_change,
        stats: Some(file.statistics.clone()),
        deletion_vector: None,
        rest,
    }
}

/// What `commitInfo` tells of one attempt.
pub(super) struct Info<'a> {
    pub version: Version,
    pub now_us: i64,
    /// Where the table has such timestamps.
    pub in_commit_timestamp: Option<i64>,
    pub txn_id: &'a str,
    pub is_new_table: bool,
    pub partition_columns: &'a [String],
    pub isolation_level: Option<&'a str>,
    pub new_table: &'a NewTable,
    pub planned: &'a Planned,
    /// Whether moved rows kept their ids, where the table tracks rows.
    pub preserves_row_ids: Option<bool>,
    pub provenance: &'a Provenance,
}

/// The actions before those of the files.
#[derive(Default)]
pub(super) struct Head<'a> {
    pub protocol: Option<&'a Protocol>,
    pub metadata: Option<&'a Metadata>,
    pub txn: Option<&'a Txn>,
    /// The row ids that the files took.
    pub row_ids: Option<RowIds>,
}

/// Returns the bytes of one attempt.
pub(super) fn encode(info: &Info, head: &Head, files: &[u8]) -> Result<Bytes> {
    let mut lines = Vec::with_capacity(files.len() + 4096);
    write_line(&mut lines, &Action::CommitInfo(commit_info(info)))?;
    if let Some(protocol) = head.protocol {
        write_line(&mut lines, &Action::Protocol(protocol.clone()))?;
    }
    if let Some(metadata) = head.metadata {
        write_line(&mut lines, &Action::MetaData(metadata.raw().clone()))?;
    }
    if let Some(txn) = head.txn {
        // Without a time Spark drops it where the table limits how long they are kept.
        write_line(&mut lines, &Action::Txn(Txn { last_updated: Some(info.now_us.div_euclid(1000)), ..txn.clone() }))?;
    }
    if let Some(row_ids) = head.row_ids {
        write_line(&mut lines, &Action::DomainMetadata(row_ids.domain()))?;
    }
    lines.extend_from_slice(files);
    Ok(Bytes::from(lines))
}

fn write_line(lines: &mut Vec<u8>, action: &Action) -> Result<()> {
    serde_json::to_writer(&mut *lines, action).map_err(|error| Error::internal("an action is no JSON").source(error))?;
    lines.push(b'\n');
    Ok(())
}

/// The names of operations, parameters and metrics are those of Delta for Spark: readers and the kernel's `.crc` go by them.
fn commit_info(info: &Info) -> Map<String, Value> {
    let partition_by = json!(info.partition_columns).to_string();
    let planned = info.planned;
    let mut commit = Map::new();
    let mut put = |key: &str, value: Value| commit.insert(key.to_owned(), value);
    if let Some(timestamp) = info.in_commit_timestamp {
        put("inCommitTimestamp", json!(timestamp));
    }
    put("timestamp", json!(info.now_us.div_euclid(1000)));
    if info.is_new_table && planned.is_empty() {
        put("operation", json!("CREATE TABLE"));
        let properties = json!(info.new_table.properties).to_string();
        let description = json!(info.new_table.description);
        put(
            "operationParameters",
            json!({"isManaged": "false", "description": description, "partitionBy": partition_by, "properties": properties}),
        );
    } else {
        put("operation", json!(planned.operation.name));
        let mut parameters = planned.operation.parameters.clone();
        if planned.operation.name == "WRITE" {
            parameters.insert("partitionBy".to_owned(), json!(partition_by));
        }
        put("operationParameters", Value::Object(parameters));
    }
    if let Some(read) = info.version.checked_sub(1) {
        put("readVersion", json!(read));
    }
    put("isolationLevel", json!(info.isolation_level.unwrap_or("Serializable")));
    put("isBlindAppend", json!(planned.is_blind_append()));
    let metrics = planned.operation.metrics.clone().unwrap_or_else(|| metrics_of_files(&planned.files));
    put("operationMetrics", Value::Object(metrics));
    put("tags", tags(info));
    put("engineInfo", json!(ENGINE));
    put("txnId", json!(info.txn_id));
    commit
}

fn metrics_of_files(files: &[AddFile]) -> Map<String, Value> {
    if files.is_empty() {
        return Map::new();
    }
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let figures = [("numFiles", files.len() as u64), ("numOutputRows", rows), ("numOutputBytes", bytes)];
    figures.into_iter().map(|(name, figure)| (name.to_owned(), json!(figure.to_string()))).collect()
}

/// Text to text: the one free place in `commitInfo` that every reader knows the type of.
fn tags(info: &Info) -> Value {
    let provenance = info.provenance;
    let mut tags = Map::new();
    if let Some(is_preserved) = info.preserves_row_ids {
        tags.insert(PRESERVED_TAG.to_owned(), Value::String(is_preserved.to_string()));
    }
    let mut put = |key: &str, value: String| tags.insert(format!("delta-load.{key}"), Value::String(value));
    put("runId", provenance.run_id.clone());
    if let Some(pipeline) = &provenance.pipeline {
        put("pipeline", pipeline.clone());
    }
    put("firstLine", provenance.first_line.to_string());
    put("lastLine", provenance.last_line.to_string());
    if provenance.is_without_state {
        put("withoutState", "true".to_owned());
    }
    Value::Object(tags)
}

/// Returns the metaData of a new table.
pub(super) fn new_metadata(
    id: &str,
    now_us: i64,
    schema: &TableSchema,
    new_table: &NewTable,
    configuration: &std::collections::BTreeMap<String, String>,
) -> Result<Metadata> {
    let mut raw = Map::new();
    raw.insert("id".to_owned(), json!(id));
    if let Some(description) = &new_table.description {
        raw.insert("description".to_owned(), json!(description));
    }
    raw.insert("format".to_owned(), json!({"provider": "parquet", "options": {}}));
    raw.insert("schemaString".to_owned(), Value::String(schema.to_json()));
    raw.insert("partitionColumns".to_owned(), json!(new_table.partition_columns));
    raw.insert("configuration".to_owned(), json!(configuration));
    raw.insert("createdTime".to_owned(), json!(now_us.div_euclid(1000)));
    Metadata::parse(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::action::{Action, parse_commit};
    use std::sync::Arc;

    fn file(path: &str, values: &[(&str, Option<&str>)]) -> AddFile {
        AddFile {
            path: path.to_owned(),
            partition_values: values.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect(),
            size: 100,
            modified_ms: 5,
            statistics: r#"{"numRecords":3}"#.to_owned(),
            rows: 3,
            schema: Arc::new(TableSchema::default()),
        }
    }

    fn planned(files: &[AddFile]) -> Planned {
        Planned { files: Arc::new(files.to_vec()), ..Planned::default() }
    }

    fn info<'a>(planned: &'a Planned, new_table: &'a NewTable, provenance: &'a Provenance, version: Version) -> Info<'a> {
        Info {
            version,
            now_us: 1_700_000_000_123_456,
            in_commit_timestamp: None,
            txn_id: "txn",
            is_new_table: version == 0,
            partition_columns: &new_table.partition_columns,
            isolation_level: None,
            new_table,
            planned,
            preserves_row_ids: None,
            provenance,
        }
    }

    #[test]
    fn paths_are_uri_encoded_once() {
        for (raw, encoded) in [
            ("part-1.zstd.parquet", "part-1.zstd.parquet"),
            ("a=1/b=x%2Fy/p.parquet", "a=1/b=x%252Fy/p.parquet"),
            ("a=x y/p", "a=x%20y/p"),
            ("a=ü/p", "a=%C3%BC/p"),
            ("a=1:2/p", "a=1%3A2/p"),
            ("a=[{^}]#?/p", "a=%5B%7B%5E%7D%5D%23%3F/p"),
            ("a=(b),c;d@e&f$g!h'i*j~k+l", "a=(b),c;d@e&f$g!h'i*j~k+l"),
        ] {
            assert_eq!(encode_path(raw), encoded);
            assert_eq!(percent_encoding::percent_decode_str(encoded).decode_utf8_lossy(), raw);
        }
    }

    #[test]
    fn partition_values_are_raw_and_null_is_null() {
        let files = [file("p=a/f", &[("p", Some("a/b c%")), ("q", None), ("r", Some("__HIVE_DEFAULT_PARTITION__"))])];
        let lines = encode_files(&planned(&files), None, 0);
        let text = String::from_utf8(lines.expect("encodes")).expect("is text");
        assert_eq!(
            text,
            "{\"add\":{\"path\":\"p=a/f\",\"partitionValues\":{\"p\":\"a/b c%\",\"q\":null,\"r\":\"__HIVE_DEFAULT_PARTITION__\"},\
             \"size\":100,\"modificationTime\":5,\"dataChange\":true,\"stats\":\"{\\\"numRecords\\\":3}\"}}\n"
        );
    }

    #[test]
    fn commit_info_comes_first_and_tells_all() {
        let files = [file("f", &[]), file("g", &[])];
        let new_table = NewTable { partition_columns: vec!["p".to_owned()], ..NewTable::default() };
        let provenance = Provenance {
            run_id: "run".to_owned(),
            pipeline: Some("pipe".to_owned()),
            first_line: 2,
            last_line: 9,
            is_without_state: true,
        };
        let planned = planned(&files);
        let body = encode_files(&planned, None, 0).expect("encodes");
        let bytes = encode(&info(&planned, &new_table, &provenance, 7), &Head::default(), &body).expect("encodes");
        let actions = parse_commit(&bytes).expect("parses");
        assert_eq!(actions.len(), 3);
        let Action::CommitInfo(commit) = &actions[0] else { panic!("commitInfo is not first") };
        let expected = json!({
            "timestamp": 1_700_000_000_123_i64,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[\"p\"]"},
            "readVersion": 6,
            "isolationLevel": "Serializable",
            "isBlindAppend": true,
            "operationMetrics": {"numFiles": "2", "numOutputRows": "6", "numOutputBytes": "200"},
            "tags": {
                "delta-load.runId": "run",
                "delta-load.pipeline": "pipe",
                "delta-load.firstLine": "2",
                "delta-load.lastLine": "9",
                "delta-load.withoutState": "true",
            },
            "engineInfo": ENGINE,
            "txnId": "txn",
        });
        assert_eq!(Value::Object(commit.clone()), expected);
    }

    #[test]
    fn an_empty_new_table_is_a_create_table() {
        let new_table = NewTable { description: Some("a table".to_owned()), ..NewTable::default() };
        let provenance = Provenance::default();
        let metadata = new_metadata("id", 5_000, &TableSchema::default(), &new_table, &Default::default()).expect("is fine");
        let protocol = crate::delta::feature::protocol_of_new_table(&metadata.schema, &[]);
        let head = Head { protocol: Some(&protocol), metadata: Some(&metadata), ..Head::default() };
        let bytes = encode(&info(&planned(&[]), &new_table, &provenance, 0), &head, &[]).expect("encodes");
        let actions = parse_commit(&bytes).expect("parses");
        let Action::CommitInfo(commit) = &actions[0] else { panic!("commitInfo is not first") };
        assert_eq!(commit["operation"], "CREATE TABLE");
        assert_eq!(commit["operationParameters"]["partitionBy"], "[]");
        assert!(!commit.contains_key("readVersion"));
        assert!(matches!(&actions[1], Action::Protocol(read) if *read == protocol));
        let Action::MetaData(read) = &actions[2] else { panic!("no metaData") };
        assert_eq!(read["createdTime"], 5);
        assert_eq!(read["description"], "a table");
    }
    #[test]
    fn what_differs_per_attempt_stands_before_the_files() {
        let planned = planned(&[file("f", &[]), file("g", &[])]);
        let (new_table, provenance) = Default::default();
        let mut row_ids = RowIds::above(Some(41), 7).expect("there are some");
        let body = encode_files(&planned, Some(&mut row_ids), 0).expect("encodes");
        let txn = Txn { app_id: "delta-load/p/s".to_owned(), version: 5, last_updated: None };
        let head = Head { txn: Some(&txn), row_ids: Some(row_ids), ..Head::default() };
        let info = Info {
            in_commit_timestamp: Some(1_700_000_000_124),
            preserves_row_ids: Some(true),
            ..info(&planned, &new_table, &provenance, 7)
        };
        let bytes = encode(&info, &head, &body).expect("encodes");
        let text = String::from_utf8(bytes.to_vec()).expect("is text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(r#"{"commitInfo":{"inCommitTimestamp":1700000000124,"timestamp":1700000000123,"#), "{text}");
        assert!(lines[0].contains(r#""tags":{"delta.rowTracking.preserved":"true","#), "{text}");
        assert_eq!(lines[1], r#"{"txn":{"appId":"delta-load/p/s","version":5,"lastUpdated":1700000000123}}"#);
        assert_eq!(
            lines[2],
            r#"{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\"rowIdHighWaterMark\":47}","removed":false}}"#
        );
        assert!(lines[3].ends_with(r#""baseRowId":42,"defaultRowCommitVersion":7}}"#), "{text}");
        assert!(lines[4].ends_with(r#""baseRowId":45,"defaultRowCommitVersion":7}}"#), "{text}");
    }
}
