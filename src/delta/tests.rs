//! Tables end to end on the memory store and on local disk, read back by the kernel.

mod azure;
mod concurrent;
mod conflicts;
mod crash;
mod gcs;
mod golden;
mod opening;
mod replay;
mod s3;
mod tables;
mod tracked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::action::{Action, parse_commit};
use super::*;
use crate::schema::{DataType, Field, TableSchema};
use crate::seam::{Seam, Sleep, World};
use crate::store::{self, Store};
use crate::{ErrorKind, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Ids that a test can foresee; everything else is real.
#[derive(Debug)]
struct Counted {
    real: Seam,
    next: AtomicU64,
}

impl World for Counted {
    fn now_us(&self) -> i64 {
        self.real.now_us()
    }
    fn elapsed(&self) -> Duration {
        self.real.elapsed()
    }
    fn sleep(&self, duration: Duration) -> Sleep {
        self.real.sleep(duration)
    }
    fn random(&self) -> f64 {
        self.real.random()
    }
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.next.fetch_add(1, Ordering::SeqCst).into())
    }
}

/// The text of id `number` of [`counted`].
fn id(number: u128) -> String {
    uuid::Uuid::from_u128(number).to_string()
}

fn counted() -> Seam {
    Arc::new(Counted { real: crate::seam::real(), next: AtomicU64::new(0) })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(store::Memory::new(url::Url::parse("memory:///").expect("parses")))
}

fn local(directory: &std::path::Path) -> Arc<dyn Store> {
    let url = url::Url::from_directory_path(directory).expect("is absolute");
    store::open(&url, &store::Options::default()).expect("opens")
}

async fn open(store: &Arc<dyn Store>, path: &str) -> Table {
    try_open(store, path).await.expect("opens")
}

async fn try_open(store: &Arc<dyn Store>, path: &str) -> Result<Table> {
    Table::open(store.clone(), path, crate::seam::real()).await
}

fn field(name: &str, data_type: DataType) -> Field {
    Field { name: name.to_owned(), data_type, nullable: true, metadata: Map::new() }
}

fn schema(fields: &[(&str, DataType)]) -> Arc<TableSchema> {
    Arc::new(TableSchema { fields: fields.iter().map(|(name, data_type)| field(name, data_type.clone())).collect() })
}

fn a_long() -> Arc<TableSchema> {
    schema(&[("a", DataType::Long)])
}

fn file(path: &str, schema: &Arc<TableSchema>) -> AddFile {
    AddFile {
        path: path.to_owned(),
        partition_values: Vec::new(),
        size: 100,
        modified_ms: 1_700_000_000_000,
        statistics: r#"{"numRecords":1}"#.to_owned(),
        rows: 1,
        schema: schema.clone(),
    }
}

/// One file, and the schema for a table that is to be made or changed.
fn append(path: &str, schema: &Arc<TableSchema>) -> Append {
    Append { files: vec![file(path, schema)], schema: Some(schema.clone()), ..Append::default() }
}

async fn commit(table: &mut Table, append: Append) -> Version {
    match table.append(append, TIMEOUT).await.expect("commits") {
        Outcome::Committed { version, .. } => version,
        Outcome::DoneBefore { found } => panic!("done before, at {found}"),
        Outcome::Unknown { error, .. } => panic!("not known: {error}"),
    }
}

/// The raw bytes of a commit.
async fn commit_text(store: &Arc<dyn Store>, path: &str, version: Version) -> String {
    let bytes = store.get(&log_name::commit(path, version)).await.expect("is read").expect("is there");
    String::from_utf8(bytes.to_vec()).expect("is text")
}

async fn actions(store: &Arc<dyn Store>, path: &str, version: Version) -> Vec<Action> {
    parse_commit(commit_text(store, path, version).await.as_bytes()).expect("parses")
}

async fn commit_info(store: &Arc<dyn Store>, path: &str, version: Version) -> Map<String, Value> {
    match actions(store, path, version).await.remove(0) {
        Action::CommitInfo(info) => info,
        other => panic!("commitInfo is not first, but {other:?}"),
    }
}

/// Writes a commit as another writer does.
async fn foreign(store: &Arc<dyn Store>, path: &str, version: Version, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let put = store.put_once(&log_name::commit(path, version), text.into()).await;
    assert!(matches!(put, store::PutTry::Created), "{put:?}");
}

fn foreign_add(path: &str) -> Value {
    json!({"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": true, "stats": "{\"numRecords\":1}"}})
}

fn foreign_protocol(reader: u32, writer: u32, features: &[&str]) -> Value {
    match features {
        [] => json!({"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}),
        features if reader < 3 => {
            json!({"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, "writerFeatures": features}})
        }
        features => json!({"protocol": {"minReaderVersion": reader, "minWriterVersion": writer,
            "readerFeatures": features, "writerFeatures": features}}),
    }
}

fn foreign_metadata(id: &str, schema: &TableSchema, partition_columns: &[&str], configuration: Value) -> Value {
    json!({"metaData": {"id": id, "format": {"provider": "parquet", "options": {}}, "schemaString": schema.to_json(),
        "partitionColumns": partition_columns, "configuration": configuration, "createdTime": 1}})
}

/// The paths of a table's files, by the kernel.
async fn kernel_files(store: &Arc<dyn Store>, path: &str) -> BTreeSet<String> {
    let (objects, url) = store.kernel_access(path).expect("has access");
    open::blocking(move || {
        let engine = open::engine(objects);
        let snapshot = delta_kernel::Snapshot::builder_for(url.as_str()).build(&*engine).expect("opens");
        let scan = snapshot.scan_builder().build().expect("scans");
        let mut paths = BTreeSet::new();
        for metadata in scan.scan_metadata(&*engine).expect("scans") {
            let metadata = metadata.expect("scans");
            paths = metadata
                .visit_scan_files(paths, |paths: &mut BTreeSet<String>, file| {
                    assert!(paths.insert(file.path.clone()), "{} is there twice", file.path);
                })
                .expect("visits");
        }
        paths
    })
    .await
    .expect("runs")
}

fn names(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// Names and contents of a table's log.
async fn log_files(store: &Arc<dyn Store>, path: &str) -> Vec<(String, bytes::Bytes)> {
    let mut files = Vec::new();
    for entry in store.list(&log_name::folder(path), None).await.expect("lists") {
        let bytes = store.get(&entry.path).await.expect("is read").expect("is there");
        files.push((entry.path, bytes));
    }
    files
}
