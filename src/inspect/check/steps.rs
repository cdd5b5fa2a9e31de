//! The trials, each with what came back in words.

use std::collections::BTreeSet;
use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use url::Url;

use super::report::{Check, Finding, Row, Verdict};
use super::{SKEW_LIMIT, SKEW_WARNING};
use crate::delta::Table;
use crate::seam::Seam;
use crate::store::{self, Options, PROBES, PutTry, ServerClock, Store};
use crate::{Error, ErrorKind, Result};

/// Writers that create one object at once, and how often: a store that looks first and writes then lets two of eight through within a
/// few rounds.
const WRITERS: usize = 8;
const ROUNDS: usize = 5;

/// How often a put is sent when no clear answer comes.
const TRIES: u32 = 5;

/// How long all deletions together may take.
const TIDY_LIMIT: Duration = Duration::from_secs(60);

/// A check on its way.
pub(super) struct Trial {
    store: Arc<dyn Store>,
    /// How a store is opened that may go without the condition.
    lenient: Options,
    accepts_risk: bool,
    seam: Seam,
    /// What the names of all objects of this check begin with.
    name: String,
    /// Objects that may be there. Behind a lock, since a row that takes too long is given up where it stands.
    written: Mutex<BTreeSet<String>>,
    has_put: bool,
    rows: Vec<Row>,
    /// The row after which nothing else can go well.
    stopped_by: Option<&'static str>,
    left_behind: Vec<String>,
}

impl Trial {
    pub(super) fn new(store: Arc<dyn Store>, lenient: Options, accepts_risk: bool, seam: Seam) -> Self {
        let name = format!("{PROBES}{}", seam.uuid());
        Self {
            store,
            lenient,
            accepts_risk,
            seam,
            name,
            written: Mutex::default(),
            has_put: false,
            rows: Vec::new(),
            stopped_by: None,
            left_behind: Vec::new(),
        }
    }

    pub(super) fn into_check(self, destination: &Url) -> Check {
        Check { destination: destination.to_string(), rows: self.rows, left_behind: self.left_behind }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn now(&self) -> Duration {
        self.seam.elapsed()
    }

    /// Adds a row. An error that any other request would meet too stops the check.
    pub(super) fn row(&mut self, step: &'static str, started: Duration, found: Result<Finding>) {
        if found.as_ref().is_err_and(Error::is_for_every_request) {
            self.stopped_by = Some(step);
        }
        self.rows.push(Row::new(step, self.now().saturating_sub(started), found));
    }

    /// Tells whether the check was stopped, and if so adds the row of a thing that is not tried.
    pub(super) fn is_stopped(&mut self, step: &'static str) -> bool {
        let Some(by) = self.stopped_by else { return false };
        let reason = Finding::not_tried(format!("it would fail for the same reason as `{by}`"));
        self.rows.push(Row::new(step, Duration::ZERO, Ok(reason)));
        true
    }

    pub(super) fn has_written(&self) -> bool {
        !self.paths().is_empty()
    }

    pub(super) fn has_failed(&self, step: &str) -> bool {
        self.rows.iter().any(|row| row.step == step && row.verdict == Verdict::Failed)
    }

    pub(super) fn note_put(&mut self, has_put: bool) {
        self.has_put = has_put;
    }

    /// Returns what `work` gives, or an error when it takes too long. What was sent may take effect later.
    pub(super) async fn limit<T>(&self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            value = work => value,
            () = self.seam.sleep(limit) => Err(Error::unavailable(format!("no answer came within {} s", limit.as_secs()))
                .hint("try again; look at the network between this machine and the store")),
        }
    }

    fn path(&self, what: &str) -> String {
        format!("{}.{what}", self.name)
    }

    /// Returns a path that is about to be written.
    fn written(&self, what: &str) -> String {
        let path = self.path(what);
        self.paths().insert(path.clone());
        path
    }

    fn paths(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        // A set of names is whole after a panic, too.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn list(&self) -> Result<Finding> {
        let entries = self.store.list(PROBES, None).await?;
        Ok(match entries.len() {
            0 => Finding::good(format!("listed `{PROBES}`: no object, as it should be")),
            1 => Finding::good(format!("listed `{PROBES}`: 1 object of an earlier or concurrent check")),
            count => Finding::good(format!("listed `{PROBES}`: {count} objects of earlier or concurrent checks")),
        })
    }

    pub(super) async fn put(&self) -> Result<Finding> {
        let path = self.written("put");
        let bytes = content(&path, "put");
        let length = bytes.len();
        self.store.put(&path, bytes).await?;
        Ok(Finding::good(format!("wrote {length} bytes to `{path}`")))
    }

    pub(super) async fn get(&self) -> Result<Finding> {
        let path = self.path("put");
        let found = self.store.get(&path).await?;
        match (found, self.has_put) {
            (Some(found), _) if found == content(&path, "put") => Ok(Finding::good("read them back, byte by byte as written")),
            (Some(found), _) => Err(Error::denied(format!("`{path}` holds {} other bytes than were written to it", found.len()))
                .hint("something between this machine and the store changes objects: a cache, a proxy, encryption on the way")),
            (None, false) => {
                Ok(Finding::good("read an object that is not there, and was told so; nothing could be put to read back"))
            }
            (None, true) => Err(Error::denied(format!("`{path}` was written, and is not there")).hint(
                "the store does not show at once what was written, which commits need; look whether a cache or a replica answers",
            )),
        }
    }

    /// Creates one object twice.
    pub(super) async fn create_twice(&self) -> Result<Finding> {
        let path = self.written("created");
        let (first, second) = (content(&path, "first"), content(&path, "second"));
        if let Err(refusal) = self.create(&*self.store, &path, &first).await {
            return self.without_condition(refusal).await;
        }
        let answer = self.create_again(&path, &second).await?;
        let ignored = || {
            let text = "the store ignores the condition of put-if-absent: it accepted a second object of the same name, so commits would be lost";
            let hint = "use a store or a version that honours the condition; or set `single_writer = true` if no other process ever writes these tables";
            match self.accepts_risk {
                true => Ok(Finding::warning(text, "`single_writer` is set: keep every other writer away from these tables")),
                false => Err(Error::denied(text).hint(hint)),
            }
        };
        if answer == Second::Accepted {
            return ignored();
        }
        match self.store.get(&path).await {
            Ok(Some(found)) if found == first => {
                Ok(Finding::good("created an object twice: the second was refused, the first is there as it was"))
            }
            Ok(Some(_)) => ignored(),
            Ok(None) => Err(Error::denied(format!("`{path}` was created, and is not there"))),
            Err(error) if error.kind() == ErrorKind::Denied => {
                Ok(Finding::good("created an object twice: the second was refused (what is there could not be read back)"))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates an object whose name nobody else knows.
    async fn create(&self, store: &dyn Store, path: &str, bytes: &Bytes) -> Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            let cause = match store.put_once(path, bytes.clone()).await {
                PutTry::Created => return Ok(()),
                PutTry::Refused(error) => return Err(error),
                PutTry::Exists => {
                    Error::unavailable(format!("the store says that `{path}` exists, but nobody else knows that name"))
                }
                PutTry::Unclear(error) => error,
            };
            if store.get(path).await?.is_some_and(|found| found == *bytes) {
                return Ok(());
            }
            if tries == TRIES {
                return Err(not_shown(tries, cause));
            }
            self.seam.sleep(Duration::from_millis(100 << tries)).await;
        }
    }

    /// Creates an object that is there.
    async fn create_again(&self, path: &str, bytes: &Bytes) -> Result<Second> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.put_once(path, bytes.clone()).await {
                PutTry::Created => return Ok(Second::Accepted),
                PutTry::Exists => return Ok(Second::Refused),
                PutTry::Refused(error) => return Err(error),
                PutTry::Unclear(error) if tries == TRIES => return Err(not_shown(tries, error)),
                PutTry::Unclear(_) => self.seam.sleep(Duration::from_millis(100 << tries)).await,
            }
        }
    }

    /// The condition is refused. With `single_writer` that is a warning, where a load then goes without it.
    async fn without_condition(&self, refusal: Error) -> Result<Finding> {
        if !self.accepts_risk || refusal.is_for_every_request() {
            return Err(refusal);
        }
        let lenient = store::open(self.store.url(), &self.lenient)?;
        let path = self.written("lenient");
        match self.create(&*lenient, &path, &content(&path, "lenient")).await {
            Ok(()) => Ok(Finding::warning(
                refusal.to_string(),
                "`single_writer` is set, so loads go without it: keep every other writer away from these tables",
            )),
            Err(_) => Err(refusal),
        }
    }

    /// Lets several writers create one object at once, several times over.
    pub(super) async fn race(&self) -> Result<Finding> {
        let mut all_unclear = 0;
        for round in 1..=ROUNDS {
            let path = self.written(&format!("race-{round}"));
            let bytes: Vec<Bytes> = (0..WRITERS).map(|writer| content(&path, &format!("writer {writer}"))).collect();
            let answers = join_all(bytes.iter().map(|bytes| self.store.put_once(&path, bytes.clone()))).await;
            let (mut winners, mut unclear) = (Vec::new(), 0);
            for (writer, answer) in answers.into_iter().enumerate() {
                match answer {
                    PutTry::Created => winners.push(writer),
                    PutTry::Exists => {}
                    PutTry::Refused(error) => return Err(error),
                    PutTry::Unclear(_) => unclear += 1,
                }
            }
            all_unclear += unclear;
            if winners.len() > 1 {
                let count = winners.len();
                return self.not_atomic(format!(
                    "in round {round}, {count} of {WRITERS} writers were told that they created the same object"
                ));
            }
            let found = match self.store.get(&path).await {
                Ok(found) => found,
                // Answers alone have to do.
                Err(error) if error.kind() == ErrorKind::Denied => continue,
                Err(error) => return Err(error),
            };
            match (winners.first(), found) {
                (Some(winner), Some(found)) if found == bytes[*winner] => {}
                (Some(_), _) => {
                    return self.not_atomic(format!(
                        "in round {round}, the object of the writer that was told to have won is not there"
                    ));
                }
                // The answer of the one that won was lost, or something on the way sent its request twice.
                (None, Some(found)) if bytes.contains(&found) => {}
                (None, Some(_)) => {
                    return self.not_atomic(format!("in round {round}, the object that is there is none of the writers'"));
                }
                (None, None) if unclear > 0 => {}
                (None, None) => {
                    return self
                        .not_atomic(format!("in round {round}, nobody created the object, and all were told that it exists"));
                }
            }
        }
        let lost = if all_unclear > 0 { format!("; {all_unclear} answers were unclear") } else { String::new() };
        Ok(Finding::good(format!(
            "{WRITERS} writers created one object at once, {ROUNDS} times: never more than one was let in{lost}"
        )))
    }

    fn not_atomic(&self, observed: String) -> Result<Finding> {
        let text = format!("put-if-absent is not atomic: {observed}, so commits would be lost");
        match self.accepts_risk {
            true => Ok(Finding::warning(text, "`single_writer` is set: keep every other writer away from these tables")),
            false => Err(Error::denied(text).hint(
                "use a store or a version whose conditional put is atomic; or set `single_writer = true` if no other process ever writes these tables",
            )),
        }
    }

    /// Writes an object that is too long for one request.
    pub(super) async fn write_parts(&self, part_bytes: usize) -> Result<Finding> {
        let path = self.written("parts");
        let (store, at) = (Arc::clone(&self.store), path.clone());
        let length = part_bytes + 1_000;
        let write = move || {
            let mut upload = store.create_file(&at)?;
            let part = vec![b'x'; length];
            upload.write_all(&part).map_err(|error| {
                store::write_failure(&error)
                    .unwrap_or_else(|| Error::unavailable(format!("`{at}` could not be written")).source(error))
            })?;
            upload.finish()
        };
        tokio::task::spawn_blocking(write)
            .await
            .map_err(|error| Error::internal("the upload was broken off").source(error))??;
        match self.store.head(&path).await? {
            Some(entry) if entry.size == length as u64 => {
                Ok(Finding::good(format!("wrote {:.1} MB in 2 parts", length as f64 / 1e6)))
            }
            Some(entry) => Err(Error::denied(format!("`{path}` has {} bytes, {length} were written in 2 parts", entry.size))),
            None => Err(Error::denied(format!("`{path}` was written in 2 parts, and is not there"))),
        }
    }

    /// Deletes all that was written. What cannot be deleted is named: a load needs no right to delete.
    pub(super) async fn tidy_up(&mut self) -> Result<Finding> {
        let started = self.now();
        let paths = std::mem::take(&mut *self.paths());
        let mut refusal = None;
        for path in &paths {
            let left = TIDY_LIMIT.saturating_sub(self.now().saturating_sub(started));
            let Err(error) = self.limit(left, self.delete(path)).await else { continue };
            refusal.get_or_insert(error);
            // What was never written is not left behind; where that is not known, it is named.
            if !matches!(self.limit(left, self.store.head(path)).await, Ok(None)) {
                self.left_behind.push(format!("{}{path}", self.store.url()));
            }
        }
        let Some(error) = refusal else { return Ok(Finding::good("deleted all that this check wrote")) };
        let left = match self.left_behind.as_slice() {
            [] => "; nothing is left behind".to_owned(),
            [only] => format!("; `{only}` is left behind"),
            several => format!("; {} objects are left behind, `{}{}.*`", several.len(), self.store.url(), self.name),
        };
        Ok(Finding::warning_of(&error, format!("{error}{left}")))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.store.delete(path).await?;
        // Readable only with that right; without it the store's word has to do.
        match self.store.head(path).await {
            Ok(Some(_)) => Err(Error::denied(format!("`{path}` is still there after it was deleted"))),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Reads what the root is, if it is a table.
    pub(super) async fn table(&self) -> Result<Finding> {
        let table = Table::open(Arc::clone(&self.store), "", self.seam.clone()).await?;
        let (Some(version), Some(schema)) = (table.version(), table.schema()) else {
            return Ok(Finding::good("no table at the root itself: a place for tables, or for a new one"));
        };
        let columns = match schema.fields.len() {
            1 => "1 column".to_owned(),
            count => format!("{count} columns"),
        };
        let partitions = match table.partition_columns() {
            [] => String::new(),
            columns => format!(", partitioned by `{}`", columns.join("`, `")),
        };
        Ok(Finding::good(format!("a table, version {version}, {columns}{partitions}; all that it asks of a writer is followed")))
    }
}

/// What a second object of one name came to.
#[derive(Debug, PartialEq, Eq)]
enum Second {
    Refused,
    Accepted,
}

/// Returns the bytes of an object: unlike those of any other.
fn content(path: &str, what: &str) -> Bytes {
    Bytes::from(format!("delta-load check: {what} of {path}\n"))
}

fn not_shown(tries: u32, cause: Error) -> Error {
    Error::unavailable(format!("the store did not answer clearly whether it honours put-if-absent ({tries} tries)")).source(cause)
}

/// Returns what the credentials are.
pub(super) fn credentials(found: Result<Option<String>>) -> Result<Finding> {
    match found {
        Ok(Some(text)) => Ok(Finding::good(text)),
        Ok(None) => Ok(Finding::good("none are needed")),
        Err(error) => Err(error.for_every_request()),
    }
}

/// Returns how far the clocks are apart.
pub(super) fn clock(clock: Option<ServerClock>) -> Finding {
    let Some(ServerClock { ahead_ms, within_ms }) = clock else {
        return Finding::good("the store has no other clock than this machine's, or does not tell it");
    };
    let apart_s = ahead_ms.unsigned_abs() / 1_000;
    let way = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let at_least = Duration::from_millis(ahead_ms.unsigned_abs().saturating_sub(within_ms.unsigned_abs()));
    let text = format!("the store's clock is {apart_s} s {way} this machine's");
    if at_least > SKEW_LIMIT {
        let text = format!("{text}; requests are refused from {} min on", SKEW_LIMIT.as_secs() / 60);
        return Finding::failed(text, "set the clock of this machine (NTP)");
    }
    if at_least > SKEW_WARNING {
        let limit = SKEW_LIMIT.as_secs() / 60;
        return Finding::warning(text, format!("set the clock of this machine (NTP): requests are refused from {limit} min on"));
    }
    match apart_s {
        0..2 => Finding::good("the store's clock and this machine's agree"),
        _ => Finding::good(text),
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn clocks_are_judged_by_what_is_certain() {
        let verdict = |ahead_ms: i64, within_ms: i64| {
            let row = Row::new("clock", Duration::ZERO, Ok(clock(Some(ServerClock { ahead_ms, within_ms }))));
            (row.verdict, row.text)
        };
        assert_eq!(verdict(900, 500), (Verdict::Good, "the store's clock and this machine's agree".to_owned()));
        assert_eq!(verdict(-61_000, 500).1, "the store's clock is 61 s behind this machine's");
        assert_eq!(verdict(300_400, 500).0, Verdict::Good);
        assert_eq!(verdict(-301_000, 500).0, Verdict::Warning);
        assert_eq!(verdict(901_000, 500).0, Verdict::Failed);
        assert_eq!(verdict(901_000, 20_000).0, Verdict::Warning);
    }
}
