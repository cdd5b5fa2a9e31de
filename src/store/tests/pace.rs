//! How fast many writers get on with one log, and how long the last of them waits, in a world where every request takes its time.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fixture::{Fixture, TIMEOUT, Writer, log};
use crate::seam::Seam;
use crate::store::faulty::{Draw, Fault, Faulty};
use crate::store::{Published, Store, publish};

/// What a run of writers gave.
#[derive(Debug)]
struct Pace {
    commits_per_second: f64,
    longest_wait: Duration,
    requests_per_commit: f64,
}

/// Each writer uploads a file and publishes, `count` times in a row; a request takes `latency` and up to a twentieth more.
fn pace(writers: usize, count: usize, latency: Duration, seed: u64) -> Pace {
    let fixture = Fixture::memory();
    let seam = fixture.seam();
    let requests = Arc::new(Mutex::new(0_u64));
    let counted = Arc::clone(&requests);
    let mut draw = Draw(seed);
    let store = Faulty::new(Arc::clone(&fixture.store), fixture.seam(), move |_| {
        *counted.lock().unwrap() += 1;
        Fault::Slow(latency + latency.mul_f64(draw.below(1000) as f64 / 20_000.0))
    });
    let work = (0..writers).map(|writer| {
        let work: Pin<Box<dyn Future<Output = Duration>>> = Box::pin(write(&store, writer, count, latency, &seam));
        work
    });
    let waits = fixture.world.run(work.collect());
    let requests = *requests.lock().unwrap();
    let commits = (writers * count) as f64;
    assert_eq!(fixture.log().len(), writers * count);
    Pace {
        commits_per_second: commits / seam.elapsed().as_secs_f64(),
        longest_wait: waits.into_iter().max().unwrap_or_default(),
        // the uploads are requests too
        requests_per_commit: requests as f64 / commits + 1.0,
    }
}

/// Returns the longest wait for one commit, the upload left out.
async fn write(store: &dyn Store, writer: usize, count: usize, latency: Duration, seam: &Seam) -> Duration {
    let (mut next, mut longest) = (0, Duration::ZERO);
    for index in 0..count {
        seam.sleep(latency + Duration::from_millis(4)).await;
        let begun = seam.elapsed();
        let name = format!("writer {writer} object {index}");
        let mut publication = Writer { after_replaced: Some(next), ..Writer::new(name) };
        match publish(store, &log(), next, &mut publication, TIMEOUT, seam).await {
            Ok(Published::At { number, .. }) => next = number + 1,
            other => panic!("{other:?}"),
        }
        longest = longest.max(seam.elapsed() - begun);
    }
    longest
}

/// The best that writers can do who each read what they lost against: a PUT and a GET for every version.
fn best(latency: Duration) -> f64 {
    1.0 / (latency.as_secs_f64() * 2.0)
}

#[test]
fn sixteen_writers_reach_sixty_percent_of_the_best_and_none_waits_long() {
    let latency = Duration::from_millis(40);
    for seed in 0..4 {
        let pace = pace(16, 60, latency, seed);
        println!("{pace:?}, best {:.1}", best(latency));
        assert!(pace.commits_per_second > 0.6 * best(latency), "{pace:?}");
        assert!(pace.longest_wait < Duration::from_secs(15), "{pace:?}");
        assert!(pace.requests_per_commit < 25.0, "{pace:?}");
    }
}

#[test]
fn a_crowd_still_gets_on() {
    let pace = pace(48, 20, Duration::from_millis(40), 1);
    println!("{pace:?}");
    assert!(pace.commits_per_second > 0.6 * best(Duration::from_millis(40)), "{pace:?}");
    assert!(pace.longest_wait < Duration::from_secs(30), "{pace:?}");
}

/// On a store that answers in a millisecond or two, a lost race must not cost many times what it takes to run another one.
#[test]
fn writers_on_a_quick_store_do_not_sleep_past_their_turns() {
    let latency = Duration::from_millis(2);
    for (writers, count, share, longest_ms) in [(16, 60, 0.6, 1000), (2, 100, 0.4, 150)] {
        let pace = pace(writers, count, latency, 1);
        println!("{writers} writers: {pace:?}, best {:.1}", best(latency));
        assert!(pace.commits_per_second > share * best(latency), "{writers} writers: {pace:?}");
        assert!(pace.longest_wait < Duration::from_millis(longest_ms), "{writers} writers: {pace:?}");
    }
}
