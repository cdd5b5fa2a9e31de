//! Waiting between tries: full jitter that grows and is capped, turns among writers, and a deadline.

use std::future::Future;
use std::time::Duration;

use crate::seam::Seam;

/// The longest first pause: about the time of a request to an object store, so that a lost race is run again soon.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause: a few commits of a busy table.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The shortest span that a pause is drawn from.
const MOMENT: Duration = Duration::from_millis(1);
/// What is given to the one read that may still tell what happened after the deadline.
const GRACE: Duration = Duration::from_secs(10);

/// A moment of the seam's clock after which no new try is begun.
#[derive(Debug, Clone)]
pub(super) struct Deadline<'a> {
    seam: &'a Seam,
    start: Duration,
    end: Duration,
}

impl<'a> Deadline<'a> {
    pub(super) fn at(end: Duration, seam: &'a Seam) -> Self {
        Self { seam, start: seam.elapsed(), end }
    }

    pub(super) fn now(&self) -> Duration {
        self.seam.elapsed()
    }

    pub(super) fn has_passed(&self) -> bool {
        self.now() >= self.end
    }

    /// Returns how things stand for a message: tries, elapsed time and limit.
    pub(super) fn tries(&self, tries: u32) -> String {
        let seconds = |duration: Duration| duration.as_secs_f64().round();
        let (elapsed, limit) = (self.now().saturating_sub(self.start), self.end.saturating_sub(self.start));
        format!("{tries} {} in {} s, limit {} s", if tries == 1 { "try" } else { "tries" }, seconds(elapsed), seconds(limit))
    }

    /// Returns what `work` gives, or `None` when the deadline comes first. The work may go on unseen and take effect.
    pub(super) async fn limit<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.limit_to(self.end, work).await
    }

    /// Like [`Deadline::limit`], with a little time left even after the deadline: for reads that say what an earlier put did.
    pub(super) async fn limit_with_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.limit_to(self.end.max(self.now() + GRACE), work).await
    }

    async fn limit_to<T>(&self, end: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = work => Some(value),
            () = self.seam.sleep(end.saturating_sub(self.seam.elapsed())) => None,
        }
    }
}

/// The pauses of one series of tries.
#[derive(Debug)]
pub(super) struct BackOff {
    longest: Duration,
}

impl BackOff {
    pub(super) fn new() -> Self {
        Self { longest: FIRST_PAUSE }
    }

    /// Waits a random time, on average longer than the last time, but not past the deadline.
    pub(super) async fn pause(&mut self, deadline: &Deadline<'_>) {
        pause(self.longest, deadline).await;
        self.longest = (self.longest * 2).min(LONGEST_PAUSE);
    }
}

/// The pauses of a writer that loses race after race, with full jitter: longer from loss to loss at first, so that a crowd does not come
/// back all at once, then shorter again, so that whoever lost most often goes next.
///
/// Pauses that only grow are unfair: the writer that just won comes back at once, wins again, and one that lost some times sleeps through
/// all of it: of 16 writers on a store that takes 40 ms for a request, one waits for most of a minute.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lost: u32,
}

impl Turns {
    /// The loss after which pauses get shorter.
    const PEAK: u32 = 4;

    /// Waits before the race after one that took `took`, but not past the deadline; returns how long.
    pub(super) async fn pause(&mut self, took: Duration, deadline: &Deadline<'_>) -> Duration {
        // 1, 2, 4, 8, 16, 8, 4, 2, 1 and then nothing but a moment: time must go on.
        let times = match self.lost {
            rising @ 0..=Self::PEAK => 1_u32 << rising,
            falling => (1_u32 << Self::PEAK) >> (falling - Self::PEAK).min(31),
        };
        self.lost = self.lost.saturating_add(1);
        pause((took * times).clamp(MOMENT, LONGEST_PAUSE), deadline).await
    }
}

/// Waits a random time up to `longest`, but not past the deadline; returns how long.
async fn pause(longest: Duration, deadline: &Deadline<'_>) -> Duration {
    let left = deadline.end.saturating_sub(deadline.now());
    let pause = longest.mul_f64(deadline.seam.random().clamp(0.0, 1.0)).min(left);
    deadline.seam.sleep(pause).await;
    pause
}
