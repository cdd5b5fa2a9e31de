//! Put-if-absent with three answers: an unclear answer is resolved by reading back what is there, never guessed.

use std::time::Duration;

use bytes::Bytes;

use super::io_error::is_denied;
use super::publish::Predecessor;
use super::retry::{BackOff, Deadline};
use super::{PutTry, Store};
use crate::seam::{Seam, fail_point};
use crate::{Error, Result};

/// What became of an object that was to be created.
#[derive(Debug)]
pub enum PutAnswer {
    /// The object is there, with our bytes.
    Mine,
    /// The object is there with these bytes of somebody else.
    Theirs(Bytes),
    /// It could not be found out until the deadline: our bytes may be there, now or later.
    Unknown(Error),
}

/// Creates the object `path`, once, and finds out whether it is ours. `bytes` must be unlike those of any other writer; `deadline`
/// is a time of the seam's clock ([`World::elapsed`](crate::seam::World::elapsed)).
///
/// **Errors:** `Denied` and what else the store refuses with: nothing was written. `Unavailable` when the store kept saying "exists"
/// for an object that is not there.
pub async fn put_if_absent(store: &dyn Store, path: &str, bytes: Bytes, deadline: Duration, seam: &Seam) -> Result<PutAnswer> {
    let deadline = Deadline::at(deadline, seam);
    let put = Put { store, path, bytes: &bytes, deadline: &deadline, predecessor: None };
    Ok(match put.settle().await? {
        Settled::Mine => PutAnswer::Mine,
        Settled::Theirs { winner, .. } => PutAnswer::Theirs(winner),
        Settled::Unknown(error) => PutAnswer::Unknown(error),
        Settled::Gone => return Err(Error::internal(format!("`{path}` has no predecessor that could be gone"))),
    })
}

/// One object on its way.
pub(super) struct Put<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) path: &'a str,
    pub(super) bytes: &'a Bytes,
    pub(super) deadline: &'a Deadline<'a>,
    /// The object that must be there for ours to count.
    pub(super) predecessor: Option<&'a mut Predecessor>,
}

/// Like [`PutAnswer`], with what the loop over numbered objects needs.
pub(super) enum Settled {
    Mine,
    Theirs {
        winner: Bytes,
        /// When the read was begun that saw the winner.
        read_at: Duration,
    },
    Unknown(Error),
    /// The predecessor is gone, and nothing of ours is left behind.
    Gone,
}

impl Put<'_> {
    pub(super) async fn settle(mut self) -> Result<Settled> {
        let mut back_off = BackOff::new();
        let mut tries = 0;
        let mut is_maybe_applied = false;
        loop {
            match self.has_predecessor().await {
                Ok(true) => {}
                Ok(false) if tries == 0 => return Ok(Settled::Gone),
                Ok(false) => return Ok(self.withdraw().await),
                Err(error) if is_maybe_applied => return Ok(Settled::Unknown(self.unknown(tries, error))),
                Err(error) => return Err(error),
            }
            tries += 1;
            let cause = match self.put_once().await {
                PutTry::Created => return Ok(self.confirm().await),
                PutTry::Refused(error) if tries == 1 => return Err(error),
                PutTry::Refused(error) => return self.settle_refused(tries, error).await,
                PutTry::Exists => Error::unavailable(format!("the store says that `{}` exists, but it is not there", self.path)),
                PutTry::Unclear(error) => {
                    is_maybe_applied = true;
                    error
                }
            };
            match self.read_back().await {
                Ok((Some(found), _)) if found == *self.bytes => return Ok(self.confirm_found().await),
                Ok((Some(winner), read_at)) => return Ok(Settled::Theirs { winner, read_at }),
                Ok((None, _)) => {}
                Err(error) => return Ok(Settled::Unknown(self.unknown(tries, error))),
            }
            if self.deadline.has_passed() {
                if is_maybe_applied {
                    // Absent now: a put that is still on its way may come later.
                    return Ok(Settled::Unknown(self.unknown(tries, cause)));
                }
                let tries = self.deadline.tries(tries);
                return Err(Error::unavailable(format!("`{}` could not be written ({tries})", self.path)).source(cause));
            }
            back_off.pause(self.deadline).await;
        }
    }

    async fn put_once(&self) -> PutTry {
        let lost = |what: &str| PutTry::Unclear(Error::unavailable(format!("{what} to the put of `{}`", self.path)));
        if fail_point("store:before_put") {
            return lost("a test let no answer come");
        }
        let answer = self.deadline.limit(self.store.put_once(self.path, self.bytes.clone())).await;
        if fail_point("store:after_put") {
            return lost("a test let no answer come");
        }
        answer.unwrap_or_else(|| lost("no answer came"))
    }

    /// Our bytes were not accepted this time, but an earlier try may have left them there: one look decides.
    async fn settle_refused(mut self, tries: u32, refusal: Error) -> Result<Settled> {
        let read_at = self.deadline.now();
        match self.deadline.limit_with_grace(self.store.get(self.path)).await {
            Some(Ok(Some(found))) if found == *self.bytes => Ok(self.confirm_found().await),
            Some(Ok(Some(winner))) => Ok(Settled::Theirs { winner, read_at }),
            Some(Ok(None)) => Err(refusal),
            Some(Err(_)) | None => Ok(Settled::Unknown(self.unknown(tries, refusal))),
        }
    }

    /// Returns what is there and when the read was begun. Reads until it is known; at least once, even after the deadline.
    async fn read_back(&self) -> Result<(Option<Bytes>, Duration)> {
        let mut back_off = BackOff::new();
        loop {
            let read_at = self.deadline.now();
            let error = match self.deadline.limit_with_grace(self.store.get(self.path)).await {
                Some(Ok(found)) => return Ok((found, read_at)),
                Some(Err(error)) => error,
                None => Error::unavailable(format!("no answer came to the read of `{}`", self.path)),
            };
            if self.deadline.has_passed() {
                return Err(error);
            }
            back_off.pause(self.deadline).await;
        }
    }

    /// Our bytes were found by reading: they count once they would survive a power cut.
    async fn confirm_found(&mut self) -> Settled {
        let mut back_off = BackOff::new();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.deadline.limit_with_grace(self.store.make_durable(self.path)).await {
                Some(Ok(())) => return self.confirm().await,
                Some(Err(error)) => error,
                None => Error::unavailable(format!("no answer came while `{}` was made durable", self.path)),
            };
            if self.deadline.has_passed() {
                return Settled::Unknown(self.unknown(tries, error));
            }
            back_off.pause(self.deadline).await;
        }
    }

    /// Our bytes are there: they count if the predecessor was there at about that time.
    async fn confirm(&mut self) -> Settled {
        match self.has_predecessor().await {
            Ok(true) => Settled::Mine,
            Ok(false) => self.withdraw().await,
            Err(error) => Settled::Unknown(self.unknown(1, error)),
        }
    }

    /// Tells whether the predecessor was seen a short while ago, looking again when it was not.
    async fn has_predecessor(&mut self) -> Result<bool> {
        match &mut self.predecessor {
            Some(predecessor) => predecessor.is_there(self.store, self.deadline).await,
            None => Ok(true),
        }
    }

    /// Removes what we wrote into a log that is not the one that we know.
    async fn withdraw(&mut self) -> Settled {
        let mut back_off = BackOff::new();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.deadline.limit_with_grace(self.remove_if_ours()).await {
                Some(Ok(())) => return Settled::Gone,
                Some(Err(error)) => error,
                None => Error::unavailable(format!("no answer came to the removal of `{}`", self.path)),
            };
            if self.deadline.has_passed() || is_denied(&error) {
                let tries = self.deadline.tries(tries);
                return Settled::Unknown(
                    Error::unavailable(format!(
                        "`{}` may have been written although the object before it is gone, and could not be removed ({tries})",
                        self.path
                    ))
                    .source(error),
                );
            }
            back_off.pause(self.deadline).await;
        }
    }

    async fn remove_if_ours(&self) -> Result<()> {
        match self.store.get(self.path).await? {
            Some(found) if found == *self.bytes => self.store.delete(self.path).await,
            _ => Ok(()),
        }
    }

    fn unknown(&self, tries: u32, cause: Error) -> Error {
        let tries = self.deadline.tries(tries);
        Error::unavailable(format!("it is not known whether `{}` was written ({tries})", self.path)).source(cause)
    }
}
