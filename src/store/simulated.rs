//! Test support: a world without waiting. Time stands still while anything can go on, then jumps to the next sleeper.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::faulty::Draw;
use crate::seam::{Sleep, World};

/// A world whose clock, randomness and ids follow from a seed.
#[derive(Debug)]
pub(crate) struct Simulated {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Duration,
    draw: Draw,
    /// By due time; the second part tells sleepers of one moment apart.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next_sleeper: u64,
}

impl Simulated {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = State { now: Duration::ZERO, draw: Draw(seed), sleepers: BTreeMap::new(), next_sleeper: 0 };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Runs all of `work` to its end, side by side, and returns what each gave, in the order given.
    pub(crate) fn run<T>(&self, work: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
        let count = work.len();
        let numbered = work.into_iter().enumerate().map(|(index, work)| async move { (index, work.await) });
        let mut running: FuturesUnordered<_> = numbered.collect();
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        loop {
            match pin!(running.next()).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some((index, result))) => results[index] = Some(result),
                Poll::Ready(None) => return results.into_iter().map(|result| result.expect("each has ended")).collect(),
                Poll::Pending if flag.0.swap(false, Ordering::SeqCst) => {}
                Poll::Pending => self.jump(),
            }
        }
    }

    /// Runs one piece of work.
    pub(crate) fn run_one<T>(&self, work: impl Future<Output = T>) -> T {
        self.run(vec![Box::pin(work)]).pop().expect("one result")
    }

    fn jump(&self) {
        let mut state = self.lock();
        let ((due, _), waker) = state.sleepers.pop_first().expect("something sleeps when nothing can go on");
        state.now = state.now.max(due);
        drop(state);
        waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panicked with it")
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A handle to a simulated world, as code under test takes it.
#[derive(Debug, Clone)]
struct Handle(Arc<Simulated>);

/// Returns the seam of a simulated world.
pub(crate) fn seam(world: &Arc<Simulated>) -> crate::seam::Seam {
    Arc::new(Handle(Arc::clone(world)))
}

impl World for Handle {
    fn now_us(&self) -> i64 {
        // 2026-01-01, so that times of day look like some.
        1_767_225_600_000_000 + i64::try_from(self.elapsed().as_micros()).expect("a short test")
    }
    fn elapsed(&self) -> Duration {
        self.0.lock().now
    }
    fn sleep(&self, duration: Duration) -> Sleep {
        let mut state = self.0.lock();
        let key = (state.now + duration, state.next_sleeper);
        state.next_sleeper += 1;
        drop(state);
        Box::pin(Sleeper { world: Arc::clone(&self.0), key })
    }
    fn random(&self) -> f64 {
        let number = self.0.lock().draw.number() >> 11;
        number as f64 / (1u64 << 53) as f64
    }
    fn uuid(&self) -> uuid::Uuid {
        let mut state = self.0.lock();
        let (high, low) = (state.draw.number(), state.draw.number());
        uuid::Uuid::from_u64_pair(high, low)
    }
}

struct Sleeper {
    world: Arc<Simulated>,
    key: (Duration, u64),
}

impl Future for Sleeper {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.world.lock();
        if state.now >= self.key.0 {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleeper {
    /// A sleep that nobody waits for any more must not hold up the clock.
    fn drop(&mut self) {
        self.world.lock().sleepers.remove(&self.key);
    }
}
