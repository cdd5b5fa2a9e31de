//! What a store tells about itself, for people.

use crate::{Error, Result};

/// Where requests go and by what right.
#[derive(Debug)]
pub struct Description {
    /// What the place is made of (`bucket`, `region`, `endpoint`), in the order in which it is shown.
    pub place: Vec<(&'static str, String)>,
    /// Where the credentials come from, with the id of the key, never a secret; `None` where none are needed.
    ///
    /// **Errors:** `Denied` when there are none, `Unavailable` when their source did not answer.
    pub credentials: Result<Option<String>, Error>,
    /// The bytes from which on a new object is sent in parts; `None` where all objects go in one piece.
    pub part_bytes: Option<usize>,
}

/// What a store answered to the first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// What was observed, for people.
    pub text: String,
    /// The store's clock; `None` where it is that of this machine, or the store does not tell.
    pub clock: Option<ServerClock>,
}

/// A store's clock beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerClock {
    /// Milliseconds by which it is ahead of ours; negative: behind.
    pub ahead_ms: i64,
    /// Milliseconds by which that may be wrong.
    pub within_ms: i64,
}
