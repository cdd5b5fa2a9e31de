//! The one commit loop: writes the next object of a numbered log, whoever else is writing it.
//!
//! "Number N is absent" does not prove that N is next. A log that was dropped and begun again, or cleaned past N while this process
//! slept, would swallow the object. So every attempt has seen N−1 a short while ago, and an answer that comes later than that counts
//! only after N−1 was seen once more.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::io_error::is_denied;
use super::put_if_absent::{Put, Settled};
use super::retry::{BackOff, Deadline, Turns};
use super::{Entry, Store};
use crate::seam::Seam;
use crate::{Error, Result};

/// For how long N−1 counts as there once it was seen. Far below the retention of any log, and above the time of a slow put.
const FRESH: Duration = Duration::from_secs(30);

/// The names of a log's objects: prefix, number in twenty digits, suffix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// The path up to the number, for example `orders/_delta_log/`.
    pub prefix: String,
    /// What follows the number, for example `.json`.
    pub suffix: String,
}

impl Numbered {
    /// Returns the path of object `number`.
    pub fn path(&self, number: u64) -> String {
        format!("{}{number:020}{}", self.prefix, self.suffix)
    }

    /// Returns the number of the object at `path`, if it is one of the log's.
    pub fn number(&self, path: &str) -> Option<u64> {
        let digits = path.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)?;
        let is_number = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
        if is_number { digits.parse().ok() } else { None }
    }
}

/// What is to be published: gives the bytes of each attempt and is told what others wrote.
#[async_trait]
pub trait Publication: Send + Sync {
    /// Returns the bytes for an attempt at `number`. They must differ from those of every other attempt and writer.
    async fn bytes(&mut self, number: u64) -> Result<Bytes>;

    /// Takes notice of what another writer put at `number`. Called for every number in turn, without a gap. An error ends the loop.
    async fn lost(&mut self, number: u64, winner: Bytes) -> Result<Step>;

    /// The log is not the one that `number` was to follow: its predecessor is gone. Looks at the log anew and returns the next number
    /// to try. Nothing of ours is left at `number`.
    async fn replaced(&mut self, number: u64) -> Result<u64>;

    /// Tells whether `predecessor` is the object that this publication follows, so that a log which was dropped and grew again to the
    /// same length is not taken for the old one. Asked before the first attempt and whenever N−1 had to be looked up again, and never
    /// after a put. False is answered by [`Publication::replaced`].
    fn is_built_on(&self, number: u64, predecessor: &Entry) -> bool {
        let _ = (number, predecessor);
        true
    }
}

/// What to do after another writer's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It was somebody else's: go on.
    GoOn,
    /// It was this very publication: done.
    AlreadyOurs,
}

/// What became of a publication.
#[derive(Debug)]
pub enum Published {
    /// It is object `number`, after so many attempts.
    At {
        /// The object's number.
        number: u64,
        /// Attempts, the last one included.
        attempts: u32,
    },
    /// Nobody knows, until the deadline, whether it is object `number`.
    Unknown {
        /// The number that may be ours.
        number: u64,
        /// What was observed last.
        error: Error,
    },
}

/// Publishes one object at the end of `log`; `first` is the number to try first. Goes on for `timeout`, without a fixed number of tries.
///
/// **Errors:** those of `publication`; what the store refuses with; `Conflict` when others were first until the deadline;
/// `Unavailable` when the store could not be read. After an error a read has shown that nothing of this publication is in the log.
pub async fn publish(
    store: &dyn Store,
    log: &Numbered,
    first: u64,
    publication: &mut dyn Publication,
    timeout: Duration,
    seam: &Seam,
) -> Result<Published> {
    let deadline = Deadline::at(seam.elapsed() + timeout, seam);
    let (mut back_off, mut turns) = (BackOff::new(), Turns::default());
    let mut predecessor = Predecessor::before(log, first);
    let mut attempts = 0;
    loop {
        let number = predecessor.next;
        let bytes = publication.bytes(number).await?;
        let begun = deadline.now();
        let mut settled = Settled::Gone;
        if predecessor.is_expected(store, log, publication, &deadline).await? {
            attempts += 1;
            let path = log.path(number);
            let put = Put { store, path: &path, bytes: &bytes, deadline: &deadline, predecessor: Some(&mut predecessor) };
            settled = put.settle().await?;
        }
        match settled {
            Settled::Mine => return Ok(Published::At { number, attempts }),
            Settled::Unknown(error) => return Ok(Published::Unknown { number, error }),
            Settled::Gone => {
                predecessor = Predecessor::before(log, publication.replaced(number).await?);
                give_up_after(&deadline, log, number, attempts)?;
                back_off.pause(&deadline).await;
            }
            Settled::Theirs { winner, read_at } => {
                if publication.lost(number, winner).await? == Step::AlreadyOurs {
                    return Ok(Published::At { number, attempts });
                }
                predecessor = Predecessor::seen(log, number, read_at);
                let took = deadline.now().saturating_sub(begun);
                // After a short pause the next number is mostly free: to look first would cost a request that the winner does not make.
                let is_long = turns.pause(took, &deadline).await > took / 2;
                if is_long && let Some(number) = catch_up(store, log, publication, &mut predecessor, &deadline).await? {
                    return Ok(Published::At { number, attempts });
                }
                give_up_after(&deadline, log, number, attempts)?;
            }
        }
    }
}

/// Reads the winners after `predecessor`, one after another and without a listing, until there is none. Returns the number of one
/// that is ours.
async fn catch_up(
    store: &dyn Store,
    log: &Numbered,
    publication: &mut dyn Publication,
    predecessor: &mut Predecessor,
    deadline: &Deadline<'_>,
) -> Result<Option<u64>> {
    loop {
        let number = predecessor.next;
        let path = log.path(number);
        let read_at = deadline.now();
        let Some(winner) = read(deadline, &path, || store.get(&path)).await? else { return Ok(None) };
        if publication.lost(number, winner).await? == Step::AlreadyOurs {
            return Ok(Some(number));
        }
        *predecessor = Predecessor::seen(log, number, read_at);
    }
}

fn give_up_after(deadline: &Deadline<'_>, log: &Numbered, number: u64, attempts: u32) -> Result<()> {
    if !deadline.has_passed() {
        return Ok(());
    }
    let tries = deadline.tries(attempts);
    Err(Error::conflict(format!("`{}` could not be written, other writers came first ({tries})", log.path(number)))
        .hint("run the same command again; where many write the same table, raise `commit_timeout_seconds`"))
}

/// Reads until an answer comes, at least once. What a person has to mend is an error at once.
async fn read<T, F: Future<Output = Result<T>>>(deadline: &Deadline<'_>, path: &str, work: impl Fn() -> F) -> Result<T> {
    let mut back_off = BackOff::new();
    let mut tries = 0;
    loop {
        tries += 1;
        let cause = match deadline.limit_with_grace(work()).await {
            Some(Ok(found)) => return Ok(found),
            Some(Err(error)) if is_denied(&error) => return Err(error),
            Some(Err(error)) => Some(error),
            None => None,
        };
        if deadline.has_passed() {
            let error = Error::unavailable(format!("`{path}` could not be read ({})", deadline.tries(tries)));
            return Err(match cause {
                Some(cause) => error.source(cause),
                None => error,
            });
        }
        back_off.pause(deadline).await;
    }
}

/// The object before the next one, and when it was seen.
pub(super) struct Predecessor {
    next: u64,
    /// `None` before object 0.
    path: Option<String>,
    seen_at: Option<Duration>,
}

impl Predecessor {
    fn before(log: &Numbered, next: u64) -> Self {
        Self { next, path: next.checked_sub(1).map(|number| log.path(number)), seen_at: None }
    }

    fn seen(log: &Numbered, number: u64, at: Duration) -> Self {
        Self { next: number + 1, path: Some(log.path(number)), seen_at: Some(at) }
    }

    fn is_fresh(&self, now: Duration) -> bool {
        self.seen_at.is_some_and(|at| now.saturating_sub(at) <= FRESH)
    }

    /// Tells whether the predecessor was there within the last 30 s, looking again when that is not known.
    pub(super) async fn is_there(&mut self, store: &dyn Store, deadline: &Deadline<'_>) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(true) };
        let now = deadline.now();
        if self.is_fresh(now) {
            return Ok(true);
        }
        let is_there = read(deadline, path, || store.head(path)).await?.is_some();
        self.seen_at = is_there.then_some(now);
        Ok(is_there)
    }

    /// Like [`Predecessor::is_there`], before an attempt: what is there must also be what the publication follows.
    async fn is_expected(
        &mut self,
        store: &dyn Store,
        log: &Numbered,
        publication: &mut dyn Publication,
        deadline: &Deadline<'_>,
    ) -> Result<bool> {
        let now = deadline.now();
        if self.is_fresh(now) {
            return Ok(true);
        }
        let is_expected = match (&self.path, self.next.checked_sub(1)) {
            (Some(path), Some(number)) => {
                let entry = read(deadline, path, || store.head(path)).await?;
                entry.is_some_and(|entry| publication.is_built_on(number, &entry))
            }
            // A log without its object 0 but with later ones was cleaned: a new 0 would not be its first.
            _ => {
                let entries = read(deadline, &log.prefix, || store.list(&log.prefix, None)).await?;
                let mut numbers = entries.iter().filter_map(|entry| log.number(&entry.path));
                numbers.next().is_none_or(|lowest| lowest == 0)
            }
        };
        self.seen_at = is_expected.then_some(now);
        Ok(is_expected)
    }
}
