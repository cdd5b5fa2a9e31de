//! Tables in a container, by writers over a network that loses answers.

use super::s3::{PATIENCE, holds_once, race, seeds};
use super::*;
use crate::store::azure_server::{AzureServer, Fault, Operation, seeded};

/// How many seeds are tried; a long run is one command:
/// `DELTA_LOAD_AZURE_SEEDS=1000 cargo test azure::every_batch_is_in_the_log_once`.
const SEEDS_VARIABLE: &str = "DELTA_LOAD_AZURE_SEEDS";
/// The first seed, when a failure is to be seen again.
const SEED_VARIABLE: &str = "DELTA_LOAD_AZURE_SEED";

#[tokio::test(flavor = "multi_thread")]
async fn every_batch_is_in_the_log_once() {
    for seed in seeds(SEEDS_VARIABLE, SEED_VARIABLE) {
        let server = AzureServer::with_rule(seeded(seed, 25, PATIENCE));
        let patience = format!("{}ms", PATIENCE.as_millis());
        let told = race(|| Arc::new(server.open_with("lake", &[("timeout", &patience)]))).await;
        server.set_rule(|_| Fault::Pass);
        holds_once(&told, Arc::new(server.open("lake"))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_written_and_read_in_a_container() {
    let server = AzureServer::start();
    let store: Arc<dyn Store> = Arc::new(server.open("a lake/50%"));
    let mut table = open(&store, "t").await;
    for version in 0..12 {
        assert_eq!(commit(&mut table, append(&format!("{version}.parquet"), &a_long())).await, version);
        assert_eq!(table.after_commit().await, Vec::<String>::new());
    }
    let names: Vec<String> =
        store.list("t/_delta_log/", None).await.expect("lists").into_iter().map(|entry| entry.path).collect();
    assert!(names.iter().any(|name| name.ends_with("10.checkpoint.parquet")), "{names:?}");
    server.take_calls();
    assert_eq!(open(&store, "t").await.version(), Some(11));
    let read: Vec<String> =
        server.take_calls().into_iter().filter(|call| call.operation == Operation::Get).map(|call| call.path).collect();
    assert!(
        read.iter().all(|path| !path.contains("00000000000000000009.json")),
        "the log before the checkpoint is not read: {read:?}"
    );
    assert_eq!(kernel_files(&store, "t").await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_costs_two_requests() {
    let server = AzureServer::start();
    let store: Arc<dyn Store> = Arc::new(server.open("lake"));
    let mut table = open(&store, "t").await;
    commit(&mut table, append("0", &a_long())).await;
    server.take_calls();
    commit(&mut table, append("1", &a_long())).await;
    let calls: Vec<Operation> = server.take_calls().into_iter().map(|call| call.operation).collect();
    assert_eq!(calls, [Operation::Head, Operation::ConditionalPut]);
}
