//! Does the store honour put-if-absent? One that ignores the condition loses commits without a word.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::{Place, Remote};
use crate::store::{PutAnswer, PutTry, Store, put_if_absent};
use crate::{Error, ErrorKind, Result};

/// How long a store may take to show it.
const LIMIT: Duration = Duration::from_secs(60);

/// How often the second put is sent when no clear answer comes.
const TRIES: u32 = 6;

/// Endpoints and buckets that passed: the answer holds for the life of the process.
static PASSED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// What the second put of one object showed.
enum Second {
    /// It was refused, and the first object is still there.
    Refused,
    /// It was accepted, or the object was replaced.
    Accepted,
}

/// Puts one object twice, if that was not done before.
pub(super) async fn probe(store: &Remote) -> Result<()> {
    let Place { kind, name, endpoint } = store.cloud().place();
    let key = (endpoint.to_owned(), name.to_owned());
    let passed = || PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    if passed().contains(&key) {
        return Ok(());
    }
    let path = format!("_delta_load/_probe/{}", store.seam().uuid());
    let outcome = put_twice(store, &path).await;
    if let Err(error) = store.delete(&path).await {
        let cause = error.hint_text().map(|hint| format!(" ({hint})")).unwrap_or_default();
        tracing::warn!("`{}{path}` of the test for put-if-absent is left behind: {error}{cause}", store.url());
    }
    match outcome? {
        Second::Refused => {}
        Second::Accepted if store.is_single_writer() => {
            tracing::warn!(
                "the store ignores the condition of put-if-absent: safe only as long as no other process writes these tables"
            );
        }
        Second::Accepted => {
            return Err(Error::denied(format!(
                "the store of {kind} `{name}` ignores the condition of put-if-absent: it accepted a second object of the same name, so commits would be lost"
            ))
            .hint(
                "use a store or a version that honours it; or set `single_writer = true` if no other process ever writes \
                 these tables",
            ));
        }
    }
    passed().insert(key);
    Ok(())
}

async fn put_twice(store: &Remote, path: &str) -> Result<Second> {
    let seam = store.seam();
    let (first, second) = (Bytes::from(format!("{path} first")), Bytes::from(format!("{path} second")));
    match put_if_absent(store, path, first.clone(), seam.elapsed() + LIMIT, seam).await? {
        PutAnswer::Mine => {}
        // Nobody else knows the name: the store replaced or invented it.
        PutAnswer::Theirs(_) => return Ok(Second::Accepted),
        PutAnswer::Unknown(error) => return Err(not_shown(store, error)),
    }
    let mut tries = 0;
    let answer = loop {
        tries += 1;
        match store.put_once(path, second.clone()).await {
            PutTry::Created => return Ok(Second::Accepted),
            PutTry::Exists => break None,
            PutTry::Refused(error) => return Err(error),
            PutTry::Unclear(error) if tries == TRIES => break Some(error),
            PutTry::Unclear(_) => seam.sleep(Duration::from_millis(100 << tries)).await,
        }
    };
    match (store.get(path).await?, answer) {
        (Some(found), _) if found == second => Ok(Second::Accepted),
        (Some(_), None) => Ok(Second::Refused),
        (Some(_), Some(error)) => Err(not_shown(store, error)),
        (None, _) => Err(not_shown(store, Error::new(ErrorKind::Unavailable, format!("`{path}` was written and is not there")))),
    }
}

fn not_shown(store: &Remote, cause: Error) -> Error {
    let Place { kind, name, .. } = store.cloud().place();
    Error::unavailable(format!("{kind} `{name}` did not answer clearly whether it honours put-if-absent")).source(cause)
}
