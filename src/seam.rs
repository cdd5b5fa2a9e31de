//! The seams to the world that tests replace: clock, waiting, randomness, ids, and the named points at which a test kills or fails us.
//!
//! Nothing else in the crate asks the operating system for the time, for randomness or for an id. Were that lost, the properties of
//! the commit loop and of the acknowledgement could only be tested by waiting.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A future that ends after a while.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Clock, waiting, randomness and ids.
pub trait World: Send + Sync + std::fmt::Debug {
    /// Returns the time of day in microseconds since 1970, UTC.
    fn now_us(&self) -> i64;
    /// Returns the time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration) -> Sleep;
    /// Returns a random number in `0.0..1.0`.
    fn random(&self) -> f64;
    /// Returns a fresh id.
    fn uuid(&self) -> uuid::Uuid;
}

/// A shared handle to the world.
pub type Seam = Arc<dyn World>;

/// Returns the real world: the system's clock, tokio's timer, the thread's random generator.
pub fn real() -> Seam {
    Arc::new(Real { start: Instant::now() })
}

#[derive(Debug)]
struct Real {
    start: Instant,
}

impl World for Real {
    fn now_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
    fn sleep(&self, duration: Duration) -> Sleep {
        // Made when it is first awaited: whoever asks for it need not be inside the runtime.
        Box::pin(async move { tokio::time::sleep(duration).await })
    }
    fn random(&self) -> f64 {
        rand::random()
    }
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}

/// What the environment variable `DELTA_LOAD_FAIL_POINT` asks for: `NAME=kill` or `NAME=error`, with `@N` for the Nth passage.
struct Asked {
    name: String,
    is_kill: bool,
    passage: u64,
    passed: AtomicU64,
}

static ASKED: OnceLock<Option<Asked>> = OnceLock::new();

/// Passes the crash point `name` (`commit:after_put`). Kills the process there if a test asked for it; returns true if a test asked
/// for a failure there, which the caller then reports as its own kind of error.
pub fn fail_point(name: &str) -> bool {
    let Some(asked) = ASKED.get_or_init(|| asked(&std::env::var("DELTA_LOAD_FAIL_POINT").ok()?)) else { return false };
    if asked.name != name || asked.passed.fetch_add(1, Ordering::SeqCst) + 1 != asked.passage {
        return false;
    }
    if asked.is_kill {
        // A crash, not an exit: no destructor runs, no buffer is flushed.
        std::process::abort();
    }
    true
}

fn asked(text: &str) -> Option<Asked> {
    let (name, action) = text.split_once('=')?;
    let (action, passage) = action.split_once('@').unwrap_or((action, "1"));
    Some(Asked { name: name.to_owned(), is_kill: action == "kill", passage: passage.parse().ok()?, passed: AtomicU64::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fail_point_names_its_action_and_passage() {
        let asked = asked("commit:after_put=kill@3").expect("parses");
        assert_eq!((asked.name.as_str(), asked.is_kill, asked.passage), ("commit:after_put", true, 3));
        assert!(super::asked("nonsense").is_none());
    }
}
