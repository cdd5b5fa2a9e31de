//! deltalake's own operations on our stores: what they create and change lands once, whatever the network does.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use deltalake::kernel::transaction::CommitBuilder;
use deltalake::kernel::{Action, Add, DataType, StructField};
use deltalake::protocol::{DeltaOperation, SaveMode};
use deltalake::{DeltaTable, DeltaTableBuilder};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::*;
use crate::seam;
use crate::store::s3_server::{Call, Fault, Operation, S3Server, SECRET, seeded};

type Options = HashMap<String, String>;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

fn options_of(server: &S3Server) -> Options {
    server.storage_options().into_iter().collect()
}

fn url_of(server: &S3Server, path: &str) -> Url {
    Url::parse(&format!("s3://{}/{path}", server.bucket)).unwrap()
}

/// Opens a table by its URL, as a user of the library does. It need not exist.
fn table_at(url: &Url, options: &Options) -> DeltaTable {
    register_log_stores(Duration::from_secs(60), seam::real()).unwrap();
    DeltaTableBuilder::from_url(url.clone()).unwrap().with_storage_options(options.clone()).build().unwrap()
}

async fn opened(url: &Url, options: &Options) -> DeltaTable {
    let mut table = table_at(url, options);
    table.load().await.unwrap();
    table
}

fn column(name: &str) -> StructField {
    StructField::new(name, DataType::LONG, true)
}

async fn created(url: &Url, options: &Options) -> DeltaTable {
    table_at(url, options).create().with_columns([column("id")]).await.unwrap()
}

fn property(value: &str) -> HashMap<String, String> {
    HashMap::from([("delta.logRetentionDuration".to_owned(), value.to_owned())])
}

async fn names(table: &DeltaTable) -> Vec<String> {
    let listed: Vec<_> = table.object_store().list(None).try_collect().await.unwrap();
    listed.iter().map(|meta| meta.location.to_string()).collect()
}

/// Returns the actions of each version, in order, having asserted that versions have no gap, that each names its transaction and that
/// nothing else is left in the log.
async fn log(table: &DeltaTable) -> Vec<Vec<Value>> {
    let mut found = BTreeMap::new();
    for name in names(table).await {
        let Some(name) = name.strip_prefix("_delta_log/") else { continue };
        let version: u64 = name.strip_suffix(".json").and_then(|digits| digits.parse().ok()).expect(name);
        let bytes = table.log_store().read_commit_entry(version).await.unwrap().unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        found.insert(version, lines.map(|line| serde_json::from_slice(line).unwrap()).collect::<Vec<Value>>());
    }
    assert!(found.keys().copied().eq(0..found.len() as u64), "{:?}", found.keys());
    for actions in found.values() {
        let ids: Vec<&Value> = actions.iter().map(|action| &action["commitInfo"]["txnId"]).filter(|id| id.is_string()).collect();
        assert_eq!(ids.len(), 1, "{actions:?}");
    }
    found.into_values().collect()
}

/// Every kind of operation that commits, one after another.
async fn all_operations(url: &Url, options: &Options) {
    let table = created(url, options).await;
    let table = table.set_tbl_properties().with_properties(property("interval 40 days")).await.unwrap();
    let table = table.add_columns().with_fields([column("amount")]).await.unwrap();
    let (table, metrics) = table.vacuum().with_dry_run(true).await.unwrap();
    assert!(metrics.dry_run);
    assert_eq!(table.version(), Some(2));
    let (table, _) = table.restore().with_version_to_restore(1).await.unwrap();
    assert_eq!(table.version(), Some(3));
    let log = log(&table).await;
    assert_eq!(log.len(), 4);
    assert!(
        log[2].iter().any(|action| action["metaData"]["schemaString"].as_str().is_some_and(|schema| schema.contains("amount")))
    );
}

#[test]
fn all_operations_commit_in_memory() {
    run(all_operations(&Url::parse("memory:///a%20lake/orders").unwrap(), &Options::new()));
}

#[test]
fn all_operations_commit_on_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a lake/50 é");
    std::fs::create_dir_all(&path).unwrap();
    let url = Url::from_directory_path(&path).unwrap();
    run(async {
        all_operations(&url, &Options::new()).await;
        // A fresh one reads what is there.
        assert_eq!(opened(&url, &Options::new()).await.version(), Some(3));
    });
    let left: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["_delta_log"]);
    assert_eq!(std::fs::read_dir(path.join("_delta_log")).unwrap().count(), 4);
}

#[test]
fn all_operations_commit_in_a_bucket_with_conditional_puts_alone() {
    let server = S3Server::start();
    let url = url_of(&server, "lake/orders");
    run(async {
        all_operations(&url, &options_of(&server)).await;
        assert_eq!(opened(&url, &options_of(&server)).await.version(), Some(3));
        assert_eq!(
            opened(&Url::parse(&url.as_str().replace("s3://", "s3a://")).unwrap(), &options_of(&server)).await.version(),
            Some(3)
        );
    });
    let calls = server.take_calls();
    let of_log = |call: &&Call| call.path.contains("/_delta_log/");
    let puts: Vec<&Call> = calls.iter().filter(of_log).filter(|call| call.operation == Operation::ConditionalPut).collect();
    assert_eq!(puts.len(), 4, "{puts:?}");
    assert!(!calls.iter().filter(of_log).any(|call| call.operation == Operation::Put), "no temporary file is put");
    // The probe is below the table, where the rights are.
    assert!(calls.iter().any(|call| call.path.contains("/lake/orders/_delta_load/_probe/")));
}

#[test]
fn a_lost_answer_neither_doubles_nor_fails_a_commit() {
    for fault in [
        Fault::DropAfter,
        Fault::DropBefore,
        Fault::AppliedAnswer(503, "SlowDown"),
        Fault::AppliedAnswer(412, "PreconditionFailed"),
        Fault::Answer(412, "PreconditionFailed"),
        Fault::Answer(409, "ConditionalRequestConflict"),
        Fault::AppliedAnswer(500, "InternalError"),
        Fault::Twice,
    ] {
        let server = S3Server::start();
        let (url, options) = (url_of(&server, "orders"), options_of(&server));
        run(async {
            let table = created(&url, &options).await;
            let mut faults = vec![fault].into_iter();
            server.set_rule(move |call| match call.operation {
                Operation::ConditionalPut => faults.next().unwrap_or(Fault::Pass),
                _ => Fault::Pass,
            });
            let table = table.set_tbl_properties().with_properties(property("interval 40 days")).await;
            let table = table.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert_eq!((table.version(), log(&table).await.len()), (Some(1), 2), "{fault:?}");
        });
    }
}

fn add(path: &str) -> Action {
    Action::Add(Add { path: path.to_owned(), size: 1, data_change: true, ..Add::default() })
}

async fn append(table: &DeltaTable, path: &str) -> deltalake::DeltaResult<u64> {
    let operation = DeltaOperation::Write { mode: SaveMode::Append, partition_by: None, predicate: None };
    let commit = CommitBuilder::default().with_actions(vec![add(path)]);
    let committed = commit.build(Some(table.snapshot()?), table.log_store(), operation).await?;
    Ok(committed.version())
}

/// Four writers append five files each; every file is in the log once, in the version that its writer was told.
async fn four_writers(tables: Vec<DeltaTable>) {
    let writers = tables.into_iter().enumerate().map(|(writer, mut table)| {
        tokio::spawn(async move {
            let mut told = Vec::new();
            for number in 0..5 {
                let path = format!("{writer}-{number}.parquet");
                told.push((append(&table, &path).await.unwrap(), path));
                table.update_state().await.unwrap();
            }
            (told, table)
        })
    });
    let (mut told, mut last) = (Vec::new(), None);
    for writer in writers.collect::<Vec<_>>() {
        let (versions, table) = writer.await.unwrap();
        told.extend(versions);
        last = Some(table);
    }
    told.sort();
    let mut found = Vec::new();
    for (version, actions) in log(&last.unwrap()).await.iter().enumerate() {
        let paths = actions.iter().filter_map(|action| action["add"]["path"].as_str());
        found.extend(paths.map(|path| (version as u64, path.to_owned())));
    }
    assert_eq!(found, told);
    assert_eq!(found.len(), 20);
}

#[test]
fn four_writers_at_once_lose_and_double_nothing() {
    run(async {
        let url = Url::parse("memory:///orders").unwrap();
        let table = created(&url, &Options::new()).await;
        four_writers(vec![table.clone(), table.clone(), table.clone(), table]).await;
        let folder = tempfile::tempdir().unwrap();
        let url = Url::from_directory_path(folder.path()).unwrap();
        created(&url, &Options::new()).await;
        let mut tables = Vec::new();
        for _ in 0..4 {
            tables.push(opened(&url, &Options::new()).await);
        }
        four_writers(tables).await;
    });
}

#[test]
fn four_writers_over_a_network_that_loses_answers_lose_and_double_nothing() {
    for seed in 0..3 {
        let server = S3Server::start();
        let (url, mut options) = (url_of(&server, "orders"), options_of(&server));
        options.insert("timeout".to_owned(), "400ms".to_owned());
        run(async {
            let table = created(&url, &options).await;
            let mut tables = vec![table];
            for _ in 0..3 {
                tables.push(opened(&url, &options).await);
            }
            server.set_rule(seeded(seed, 15, Duration::from_millis(400)));
            four_writers(tables).await;
        });
    }
}

/// Returns the log store of a table that exists at version 0, whose commits are tried for so long.
async fn log_store(url: &Url, options: &Options, commit_timeout: Duration) -> Arc<dyn LogStore> {
    created(url, options).await;
    let config = StorageConfig::parse_options(options.clone()).unwrap();
    let factory = Factory { commit_timeout, seam: seam::real() };
    let (root, path) = factory.parse_url_opts(url, &config).unwrap();
    let table = Arc::new(object_store::prefix::PrefixStore::new(Arc::clone(&root), path));
    factory.with_options(table, root, url, &config).unwrap()
}

fn bytes(text: &str) -> CommitOrBytes {
    CommitOrBytes::LogBytes(Bytes::from(format!("{{\"commitInfo\":{{\"operation\":\"{text}\"}}}}\n")))
}

fn local_url(folder: &tempfile::TempDir) -> Url {
    Url::from_directory_path(folder.path()).unwrap()
}

#[test]
fn equal_commits_of_two_operations_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let store = log_store(&local_url(&folder), &Options::new(), Duration::from_secs(60)).await;
        let (ours, theirs) = (Uuid::from_u128(1), Uuid::from_u128(2));
        store.write_commit_entry(1, bytes("WRITE"), ours).await.unwrap();
        let lost = store.write_commit_entry(1, bytes("WRITE"), theirs).await.unwrap_err();
        assert!(matches!(lost, TransactionError::VersionAlreadyExists(1)), "{lost}");
        // The same operation again finds its own.
        store.write_commit_entry(1, bytes("WRITE"), ours).await.unwrap();
        assert_eq!(store.get_latest_version(0).await.unwrap(), 1);
    });
}

#[test]
fn a_version_without_one_before_it_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let store = log_store(&local_url(&folder), &Options::new(), Duration::from_secs(1)).await;
        let error = store.write_commit_entry(5, bytes("WRITE"), Uuid::from_u128(1)).await.unwrap_err();
        assert!(matches!(&error, TransactionError::LogStoreError { msg, .. } if msg.contains("no version before it")), "{error}");
        assert_eq!(store.read_commit_entry(5).await.unwrap(), None);
    });
}

#[test]
fn what_is_not_known_is_neither_a_success_nor_a_loss() {
    let server = S3Server::start();
    let (url, mut options) = (url_of(&server, "orders"), options_of(&server));
    options.insert("max_retries".to_owned(), "1".to_owned());
    run(async {
        let store = log_store(&url, &options, Duration::from_millis(300)).await;
        let puts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&puts);
        server.set_rule(move |call| match call.operation {
            Operation::ConditionalPut => {
                counted.fetch_add(1, Ordering::Relaxed);
                Fault::DropAfter
            }
            Operation::Get => Fault::Answer(503, "SlowDown"),
            _ => Fault::Pass,
        });
        let error = store.write_commit_entry(1, bytes("WRITE"), Uuid::from_u128(7)).await.unwrap_err();
        let TransactionError::LogStoreError { msg, .. } = &error else { panic!("{error}") };
        assert!(msg.contains("not known") && msg.contains(&Uuid::from_u128(7).to_string()) && !msg.contains(SECRET), "{msg}");
        assert_eq!(puts.load(Ordering::Relaxed), 1);
        server.set_rule(|_| Fault::Pass);
        assert!(store.read_commit_entry(1).await.unwrap().is_some(), "it landed");
    });
}

#[test]
fn a_refusal_says_what_to_do_and_no_secret() {
    let server = S3Server::start();
    let (url, options) = (url_of(&server, "orders"), options_of(&server));
    run(async {
        let table = created(&url, &options).await;
        server.set_rule(|call| match call.operation {
            Operation::ConditionalPut => Fault::Answer(403, "AccessDenied"),
            _ => Fault::Pass,
        });
        let error = table.set_tbl_properties().with_properties(property("interval 40 days")).await.unwrap_err().to_string();
        assert!(error.contains("no permission to write") && error.contains("s3:PutObject") && !error.contains(SECRET), "{error}");
    });
    let ignoring = S3Server::start();
    ignoring.ignore_conditions();
    let table = table_at(&url_of(&ignoring, "orders"), &options_of(&ignoring));
    let error = run(async { table.create().with_columns([column("id")]).await }).unwrap_err().to_string();
    assert!(error.contains("ignores the condition"), "{error}");
}

#[test]
fn temporary_files_of_the_library_are_taken_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let store = log_store(&local_url(&folder), &Options::new(), Duration::from_secs(60)).await;
        assert_eq!(store.name(), "DefaultLogStore");
        let temporary = Path::from("_delta_log/_commit_x.json.tmp");
        for is_written in [true, false] {
            store.object_store(None).put(&temporary, "{\"commitInfo\":{}}\n".into()).await.unwrap();
            let commit = CommitOrBytes::TmpCommit(temporary.clone());
            match is_written {
                true => store.write_commit_entry(1, commit, Uuid::from_u128(1)).await.unwrap(),
                false => store.abort_commit_entry(2, commit, Uuid::from_u128(1)).await.unwrap(),
            }
            let listed: Vec<_> = store.object_store(None).list(None).try_collect().await.unwrap();
            assert_eq!(listed.len(), 2, "{listed:?}");
        }
    });
}

#[test]
fn every_scheme_is_registered_and_a_store_that_is_handed_over_is_refused() {
    register_log_stores(Duration::from_secs(60), seam::real()).unwrap();
    for scheme in LOG_STORE_SCHEMES {
        let key = Url::parse(&format!("{scheme}://")).unwrap();
        assert!(
            logstore::object_store_factories().contains_key(&key) && logstore::logstore_factories().contains_key(&key),
            "{scheme}"
        );
    }
    let url = Url::parse("memory:///t").unwrap();
    let builder = DeltaTableBuilder::from_url(url.clone()).unwrap().with_storage_backend(Arc::new(InMemory::new()), url);
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("handed over") && error.contains("open the table by its URL"), "{error}");
}

#[test]
fn a_commit_gets_the_id_of_its_operation_unless_it_has_one() {
    let with =
        |text: &str| String::from_utf8(with_id(&Bytes::from(text.to_owned()), Uuid::from_u128(9)).unwrap().to_vec()).unwrap();
    let id = "00000000-0000-0000-0000-000000000009";
    assert_eq!(
        with("{\"add\":{\"path\":\"commitInfo\"}}\n{\"commitInfo\":{\"operation\":\"WRITE\"}}"),
        format!("{{\"add\":{{\"path\":\"commitInfo\"}}}}\n{{\"commitInfo\":{{\"operation\":\"WRITE\",\"txnId\":\"{id}\"}}}}\n")
    );
    assert_eq!(with("{\"commitInfo\":{\"txnId\":\"a\"}}\n"), "{\"commitInfo\":{\"txnId\":\"a\"}}\n");
    assert_eq!(with("{\"add\":{}}"), format!("{{\"add\":{{}}}}\n{{\"commitInfo\":{{\"txnId\":\"{id}\"}}}}\n"));
    assert!(with_id(&Bytes::from_static(b"{\"commitInfo\":"), Uuid::nil()).is_err());
}
