//! Test support: a store whose answers are late, lost or wrong, by a script or by a seed, around a store that works.
//!
//! What is applied is applied by the store inside, so that a test can compare what callers were told with what is there.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

use super::{Description, Entry, Greeting, PutTry, Source, Store, Upload};
use crate::seam::Seam;
use crate::{Error, Result};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the call goes through.
    Pass,
    /// It is applied, and the answer is lost (a 503, a reset or a time-out after landing).
    AppliedUnclear,
    /// It is not applied, and the answer is lost.
    NotAppliedUnclear,
    /// The answer is lost, and it is applied so much later: the request was still on its way.
    AppliedLater(Duration),
    /// Puts: it is applied and the answer is "exists" (a client below repeated it and met its own object).
    AppliedExists,
    /// Puts: it is not applied and the answer is "exists" (a 409 of a store that means "try again").
    NotAppliedExists,
    /// It is refused for good, not applied (a 403, a full disk).
    Refused,
    /// It goes through after so long.
    Slow(Duration),
    /// It goes through at once, but its answer comes so much later.
    SlowAnswer(Duration),
}

/// The methods that faults are for; the others always go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Each is the method of [`Store`] of the same name; that one has the text.
#[allow(missing_docs)]
pub enum Method {
    Probe,
    PutOnce,
    MakeDurable,
    Get,
    Head,
    Put,
    List,
    Delete,
}

/// One call to a store.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The method called.
    pub method: Method,
    /// The path it is called with.
    pub path: &'a str,
    /// The time of the seam's clock.
    pub at: Duration,
}

type Rule = Box<dyn FnMut(Call<'_>) -> Fault + Send>;

/// A store with faults.
pub struct Faulty {
    inner: Arc<dyn Store>,
    seam: Seam,
    rule: Mutex<Rule>,
    /// Puts on their way: when they land, where, what.
    on_their_way: Mutex<Vec<(Duration, String, Bytes)>>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Faulty {
    /// Returns `inner` with the faults that `rule` gives for each call.
    pub fn new(inner: Arc<dyn Store>, seam: Seam, rule: impl FnMut(Call<'_>) -> Fault + Send + 'static) -> Self {
        Self { inner, seam, rule: Mutex::new(Box::new(rule)), on_their_way: Mutex::default() }
    }

    /// Returns `inner` with `faults` for its conditional puts, one after another; what comes after them goes through.
    pub fn scripted(inner: Arc<dyn Store>, seam: Seam, faults: impl IntoIterator<Item = Fault>) -> Self {
        let mut faults: VecDeque<Fault> = faults.into_iter().collect();
        Self::new(inner, seam, move |call| match call.method {
            Method::PutOnce => faults.pop_front().unwrap_or(Fault::Pass),
            _ => Fault::Pass,
        })
    }

    /// Returns `inner` with faults of every kind but refusals, drawn from `seed`; about `percent` of the calls have one.
    pub fn seeded(inner: Arc<dyn Store>, seam: Seam, seed: u64, percent: u64) -> Self {
        let mut draw = Draw(seed);
        Self::new(inner, seam, move |call| {
            if draw.below(100) >= percent {
                return Fault::Pass;
            }
            let pause = Duration::from_millis(draw.below(60_000));
            match (call.method, draw.below(7)) {
                (_, 0) => Fault::Slow(pause),
                (_, 1) => Fault::SlowAnswer(pause),
                (_, 2) => Fault::AppliedUnclear,
                (Method::PutOnce, 3) => Fault::AppliedLater(pause),
                (Method::PutOnce, 4) => Fault::AppliedExists,
                (Method::PutOnce, 5) => Fault::NotAppliedExists,
                _ => Fault::NotAppliedUnclear,
            }
        })
    }

    /// Lands what is due, and returns the fault of this call.
    async fn fault(&self, method: Method, path: &str) -> Fault {
        let at = self.seam.elapsed();
        let due = {
            let mut waiting = self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
            let due: Vec<_> = waiting.extract_if(.., |(when, ..)| *when <= at).collect();
            due
        };
        for (_, path, bytes) in due {
            self.inner.put_once(&path, bytes).await;
        }
        let mut rule = self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        rule(Call { method, path, at })
    }

    async fn with_fault<T>(&self, method: Method, path: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fault(method, path).await {
            Fault::Pass => call.await,
            Fault::Slow(pause) => {
                self.seam.sleep(pause).await;
                call.await
            }
            Fault::SlowAnswer(pause) => {
                let answer = call.await;
                self.seam.sleep(pause).await;
                answer
            }
            Fault::AppliedUnclear | Fault::AppliedExists | Fault::AppliedLater(_) => {
                call.await?;
                Err(lost_answer(path))
            }
            Fault::NotAppliedUnclear | Fault::NotAppliedExists => Err(lost_answer(path)),
            Fault::Refused => Err(refusal(path)),
        }
    }
}

fn lost_answer(path: &str) -> Error {
    Error::unavailable(format!("the answer for `{path}` was lost by a test"))
}

fn refusal(path: &str) -> Error {
    Error::denied(format!("`{path}` was refused by a test"))
}

#[async_trait]
impl Store for Faulty {
    fn url(&self) -> &Url {
        self.inner.url()
    }

    async fn describe(&self) -> Description {
        self.inner.describe().await
    }

    async fn greet(&self) -> Result<Greeting> {
        self.inner.greet().await
    }

    async fn probe(&self) -> Result<()> {
        self.with_fault(Method::Probe, "", self.inner.probe()).await
    }

    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry {
        match self.fault(Method::PutOnce, path).await {
            Fault::Pass => self.inner.put_once(path, bytes).await,
            Fault::Slow(pause) => {
                self.seam.sleep(pause).await;
                self.inner.put_once(path, bytes).await
            }
            Fault::SlowAnswer(pause) => {
                let answer = self.inner.put_once(path, bytes).await;
                self.seam.sleep(pause).await;
                answer
            }
            Fault::AppliedUnclear => {
                self.inner.put_once(path, bytes).await;
                PutTry::Unclear(lost_answer(path))
            }
            Fault::NotAppliedUnclear => PutTry::Unclear(lost_answer(path)),
            Fault::AppliedLater(pause) => {
                let landing = self.seam.elapsed() + pause;
                self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner).push((landing, path.to_owned(), bytes));
                PutTry::Unclear(lost_answer(path))
            }
            Fault::AppliedExists => {
                self.inner.put_once(path, bytes).await;
                PutTry::Exists
            }
            Fault::NotAppliedExists => PutTry::Exists,
            Fault::Refused => PutTry::Refused(refusal(path)),
        }
    }

    async fn make_durable(&self, path: &str) -> Result<()> {
        self.with_fault(Method::MakeDurable, path, self.inner.make_durable(path)).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.with_fault(Method::Get, path, self.inner.get(path)).await
    }

    async fn head(&self, path: &str) -> Result<Option<Entry>> {
        self.with_fault(Method::Head, path, self.inner.head(path)).await
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.with_fault(Method::Put, path, self.inner.put(path, bytes)).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        self.with_fault(Method::List, prefix, self.inner.list(prefix, after)).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.with_fault(Method::Delete, path, self.inner.delete(path)).await
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>> {
        self.inner.create_file(path)
    }

    fn open_file(&self, path: &str) -> Result<Source> {
        self.inner.open_file(path)
    }

    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn object_store::ObjectStore>, Url)> {
        self.inner.kernel_access(table)
    }

    fn bucket_access(&self) -> Arc<dyn object_store::ObjectStore> {
        self.inner.bucket_access()
    }
}

/// Numbers that follow from a seed (SplitMix64): a test that failed can be run again.
#[derive(Debug, Clone)]
pub struct Draw(pub u64);

impl Draw {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..limit`; 0 when there is no such number.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number().checked_rem(limit).unwrap_or_default()
    }
}
