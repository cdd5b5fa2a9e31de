//! Many writers of one log, and stores whose answers are lost at random: nothing lost, nothing doubled, or said to be not known.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::fixture::{Fixture, TIMEOUT, Writer, log};
use crate::ErrorKind;
use crate::seam::{self, Seam};
use crate::store::faulty::Faulty;
use crate::store::{Local, Options, Published, Store, normalise_destination, publish};

/// The seed of every run, when a failure is to be seen again.
const SEED_VARIABLE: &str = "DELTA_LOAD_FAULT_SEED";

super::for_every_store!(sixteen_writers_leave_no_gap_and_no_duplicate);

/// What a writer was told about one publication, by its name.
type Told = Vec<(String, crate::Result<Published>)>;

/// Publishes `count` objects one after another, each following the last one that this writer knows of.
async fn write(store: &dyn Store, writer: usize, count: usize, timeout: Duration, seam: &Seam) -> Told {
    let mut told = Vec::new();
    let mut next = 0;
    for index in 0..count {
        let name = format!("writer {writer} object {index}");
        let mut publication = Writer { after_replaced: Some(next), ..Writer::new(&name) };
        let published = publish(store, &log(), next, &mut publication, timeout, seam).await;
        next = match &published {
            Ok(Published::At { number, .. }) => number + 1,
            _ => publication.lost.last().map_or(next, |(number, _)| number + 1),
        };
        told.push((name, published));
    }
    told
}

fn sixteen_writers_leave_no_gap_and_no_duplicate(fixture: &Fixture) {
    let seam = fixture.seam();
    let writers = (0..16).map(|writer| {
        let work: Pin<Box<dyn Future<Output = Told>>> = Box::pin(write(&*fixture.store, writer, 20, TIMEOUT, &seam));
        work
    });
    let told: Told = fixture.world.run(writers.collect()).into_iter().flatten().collect();
    assert_eq!(told.len(), 320);
    check(&told, &fixture.log());
    assert!(told.iter().all(|(_, published)| matches!(published, Ok(Published::At { .. }))));
}

/// Compares what the writers were told with what is in the log.
fn check(told: &Told, log: &[(u64, String)]) {
    let numbers: Vec<u64> = log.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..log.len() as u64).collect::<Vec<_>>(), "no gap");
    let mut found: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (number, text) in log {
        found.entry(text.rsplit_once(' ').unwrap().0).or_default().push(*number);
    }
    for (name, published) in told {
        let found = found.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        match published {
            Ok(Published::At { number, .. }) => assert_eq!(found, [*number], "{name} is there once, where it was said to be"),
            Ok(Published::Unknown { number, .. }) => assert!(found.is_empty() || found == [*number], "{name}: {found:?}"),
            Err(error) => {
                assert!(found.is_empty(), "{name} failed ({error}) and is there: {found:?}");
                assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable), "{error:?}");
            }
        }
    }
}

/// Runs four writers over a store with the faults of `seed`.
fn run_seed(fixture: &Fixture, seed: u64, percent: u64, timeout: Duration) -> Told {
    let seam = fixture.seam();
    let store = Faulty::seeded(Arc::clone(&fixture.store), fixture.seam(), seed, percent);
    let writers = (0..4).map(|writer| {
        let work: Pin<Box<dyn Future<Output = Told>>> = Box::pin(write(&store, writer, 6, timeout, &seam));
        work
    });
    let told: Told = fixture.world.run(writers.collect()).into_iter().flatten().collect();
    // What is still on its way lands, if it can.
    fixture.run(async {
        seam.sleep(Duration::from_secs(3600)).await;
        let _ = store.get("x").await;
    });
    check(&told, &fixture.log());
    told
}

fn seeds() -> BoxedStrategy<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => Just(text.parse().expect("a number in DELTA_LOAD_FAULT_SEED")).boxed(),
        Err(_) => any::<u64>().boxed(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_publication_lands_once_or_is_said_to_be_unknown(seed in seeds(), percent in 5u64..80, seconds in 1u64..900) {
        println!("{SEED_VARIABLE}={seed} percent={percent} seconds={seconds}");
        run_seed(&Fixture::memory(), seed, percent, Duration::from_secs(seconds));
    }

    #[test]
    fn every_publication_lands_once_on_local_disk(seed in seeds(), percent in 5u64..40) {
        println!("{SEED_VARIABLE}={seed} percent={percent}");
        run_seed(&Fixture::local(), seed, percent, TIMEOUT);
    }
}

#[test]
fn seeds_reach_all_three_outcomes() {
    let mut outcomes = [0; 3];
    for seed in 0..40 {
        for (_, published) in run_seed(&Fixture::memory(), seed, 70, Duration::from_secs(60)) {
            outcomes[match published {
                Ok(Published::At { .. }) => 0,
                Ok(Published::Unknown { .. }) => 1,
                Err(_) => 2,
            }] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[test]
fn threads_race_on_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    let url = normalise_destination(folder.path().to_str().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let told: Told = runtime.block_on(async {
        let writers = (0..8).map(|writer| {
            // A store of its own for each, as in processes of their own.
            let store = Local::open(&url, &Options::default()).unwrap();
            tokio::spawn(async move { write(&store, writer, 5, TIMEOUT, &seam::real()).await })
        });
        let told = futures::future::join_all(writers).await;
        told.into_iter().flat_map(|told| told.unwrap()).collect()
    });
    assert_eq!(told.len(), 40);
    let mut fixture = Fixture::local();
    fixture.store = Arc::new(Local::open(&url, &Options::default()).unwrap());
    check(&told, &fixture.log());
    assert_eq!(fixture.log().len(), 40);
}
