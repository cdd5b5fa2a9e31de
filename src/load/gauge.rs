//! How much memory the stages hold, and the word that one of them failed.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{Error, ErrorKind};

/// Shared by all threads of a load.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// Bytes of batches on their way to an encoder, or being encoded.
    queued: Mutex<usize>,
    fell: Condvar,
    /// Bytes of open files: held samples, pages of the row group.
    encoding: AtomicUsize,
    failure: Mutex<Option<Error>>,
    has_failed: AtomicBool,
    signal: AtomicI32,
}

impl Gauge {
    /// Adds a batch of `bytes` to the queue, after waiting until the queue holds at most `limit` with it, or nothing else. Gives up
    /// waiting when a stage failed.
    pub(super) fn enqueue(&self, bytes: usize, limit: usize) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        while *queued > 0 && *queued + bytes > limit && !self.has_failed() {
            // The time-out is for a failure that is noted between the check and the wait.
            let waited = self.fell.wait_timeout(queued, std::time::Duration::from_millis(100));
            queued = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *queued += bytes;
    }

    pub(super) fn dequeue(&self, bytes: usize) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        *queued = queued.saturating_sub(bytes);
        self.fell.notify_all();
    }

    pub(super) fn queued(&self) -> usize {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an open file of a stream holds `now` bytes where it held `before`.
    pub(super) fn encoder_changed(&self, before: usize, now: usize) {
        self.encoding.fetch_add(now, Ordering::Relaxed);
        self.encoding.fetch_sub(before, Ordering::Relaxed);
    }

    pub(super) fn encoding(&self) -> usize {
        self.encoding.load(Ordering::Relaxed)
    }

    /// Notes the first failure; later ones are consequences.
    pub(super) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.has_failed.store(true, Ordering::SeqCst);
        self.fell.notify_all();
    }

    /// Notes a failure that leaves rows in nobody's hands; returns what the router goes up with.
    pub(super) fn broken(&self, error: Error) -> Error {
        self.fail(error);
        Error::internal("a stage failed")
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            number => Some(number),
        }
    }

    /// Returns an error when a signal came or a stage failed: the router then takes no more input.
    pub(super) fn go_on(&self) -> crate::error::Result<()> {
        if let Some(number) = self.signal() {
            return Err(Error::new(ErrorKind::Signal(number), format!("stopped by {}", super::signal::name(number))));
        }
        if self.has_failed() {
            return Err(Error::internal("a stage failed"));
        }
        Ok(())
    }

    pub(super) fn set_signal(&self, number: i32) {
        self.signal.store(number, Ordering::SeqCst);
    }
}
