//! Tables in a bucket, by writers over a network that loses answers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::store::s3_server::{Fault, Operation, S3Server, seeded};

/// How many seeds are tried; a long run is one command: `DELTA_LOAD_S3_SEEDS=1000 cargo test every_batch_is_in_the_log_once`.
const SEEDS_VARIABLE: &str = "DELTA_LOAD_S3_SEEDS";
/// The first seed, when a failure is to be seen again.
const SEED_VARIABLE: &str = "DELTA_LOAD_S3_SEED";

const WRITERS: usize = 4;
const APPENDS: usize = 5;
/// How long a client of the test waits for an answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(150);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// One writer, as a process of its own: its own clients, its own table.
async fn write(store: Arc<dyn Store>, writer: usize) -> BTreeMap<String, Option<Version>> {
    let mut told = BTreeMap::new();
    let mut table = open(&store, "a table/é").await;
    for index in 0..APPENDS {
        let name = format!("{writer}-{index}.parquet");
        let outcome = table.append(append(&name, &a_long()), TIMEOUT).await;
        let version = match outcome.unwrap_or_else(|error| panic!("{name}: {}", error.render())) {
            Outcome::Committed { version, .. } => Some(version),
            Outcome::Unknown { .. } | Outcome::DoneBefore { .. } => None,
        };
        told.insert(name, version);
        table.after_commit().await;
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn every_batch_is_in_the_log_once() {
    for seed in seeds(SEEDS_VARIABLE, SEED_VARIABLE) {
        let server = S3Server::with_rule(seeded(seed, 25, PATIENCE));
        let patience = format!("{}ms", PATIENCE.as_millis());
        let told = race(|| Arc::new(server.open_with("lake", &[("timeout", &patience)]))).await;
        server.set_rule(|_| Fault::Pass);
        holds_once(&told, Arc::new(server.open("lake"))).await;
    }
}

/// Returns the seeds to try, each printed.
pub(super) fn seeds(count: &str, first: &'static str) -> impl Iterator<Item = u64> {
    let start = number(first).unwrap_or_else(|| crate::seam::real().uuid().as_u64_pair().1);
    (0..number(count).unwrap_or(4)).map(move |index| start.wrapping_add(index)).inspect(move |seed| println!("{first}={seed}"))
}

/// Lets the writers create one table and commit to it, each with a store of its own, and returns what they were told.
pub(super) async fn race(open: impl Fn() -> Arc<dyn Store>) -> BTreeMap<String, Option<Version>> {
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(open(), writer))).collect::<Vec<_>>();
    let told = futures::future::join_all(writers).await.into_iter().flat_map(|told| told.expect("no panic"));
    let told: BTreeMap<String, Option<Version>> = told.collect();
    assert_eq!(told.len(), WRITERS * APPENDS);
    told
}

/// Checks that the log has no gap and holds each batch once, where its writer was told.
pub(super) async fn holds_once(told: &BTreeMap<String, Option<Version>>, store: Arc<dyn Store>) {
    // What is still on its way arrives.
    crate::seam::real().sleep(PATIENCE * 3).await;
    let mut found: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    let mut created = 0;
    let log = store.list(&log_name::folder("a table/é"), None).await.expect("lists");
    let commits: Vec<Version> = log
        .iter()
        .filter_map(|entry| match log_name::parse("a table/é", &entry.path) {
            log_name::LogFile::Commit(version) => Some(version),
            _ => None,
        })
        .collect();
    assert_eq!(commits, (0..commits.len() as u64).collect::<Vec<_>>(), "no gap");
    for version in &commits {
        for action in actions(&store, "a table/é", *version).await {
            match action {
                Action::Add(add) => found.entry(add.path).or_default().push(*version),
                Action::Protocol(_) => created += 1,
                _ => {}
            }
        }
    }
    assert_eq!(created, 1, "one writer created the table");
    for (name, version) in told {
        let found = found.get(name).map_or(&[][..], Vec::as_slice);
        match version {
            Some(version) => assert_eq!(found, [*version], "{name} is there once, where it was said to be"),
            None => assert!(found.len() <= 1, "{name}: {found:?}"),
        }
    }
    assert_eq!(kernel_files(&store, "a table/é").await, found.keys().cloned().collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_written_and_read_in_a_bucket() {
    let server = S3Server::start();
    let store: Arc<dyn Store> = Arc::new(server.open("a lake/50%"));
    let mut table = open(&store, "t").await;
    for version in 0..12 {
        assert_eq!(commit(&mut table, append(&format!("{version}.parquet"), &a_long())).await, version);
        assert_eq!(table.after_commit().await, Vec::<String>::new());
    }
    let names: Vec<String> =
        store.list("t/_delta_log/", None).await.expect("lists").into_iter().map(|entry| entry.path).collect();
    assert!(names.iter().any(|name| name.ends_with("10.checkpoint.parquet")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("_last_checkpoint")), "{names:?}");
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
    let server = S3Server::start();
    let store: Arc<dyn Store> = Arc::new(server.open("lake"));
    let mut table = open(&store, "t").await;
    commit(&mut table, append("0", &a_long())).await;
    server.take_calls();
    commit(&mut table, append("1", &a_long())).await;
    let calls: Vec<Operation> = server.take_calls().into_iter().map(|call| call.operation).collect();
    assert_eq!(calls, [Operation::Head, Operation::ConditionalPut]);
}
