//! Collects the figures of a running load and says what happens, as it happens.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::live;
use super::log::STDERR;
use super::summary::{Coercion, StreamSummary, Summary, counted};
use crate::InputLine;
use crate::seam::Seam;

/// The time between two `record_count` lines of a stream.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(60);

/// Shared by the stages of a load; every method may be called from any thread, and is meant to be called per batch, not per record.
#[derive(Debug)]
pub struct Reporter {
    seam: Seam,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    started: Duration,
    last_metrics: Duration,
    summary: Summary,
    /// Tries of commits beyond the first.
    retries: u64,
    /// One per stream of the summary.
    counters: Vec<Counter>,
    by_name: HashMap<String, usize>,
    said: HashSet<(Option<String>, String)>,
}

#[derive(Debug)]
struct Counter {
    first: Duration,
    /// Records since the last metric line.
    records: u64,
    is_told: bool,
}

/// A commit that landed.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The table's URL or path.
    pub table: String,
    /// The version, where the format has versions.
    pub version: Option<u64>,
    /// Rows in it.
    pub rows: u64,
    /// Data files in it.
    pub files: u64,
    /// Encoded bytes of these files.
    pub bytes: u64,
    /// How often the commit was tried.
    pub attempts: u32,
}

impl Reporter {
    /// Returns a reporter whose load starts at this moment.
    pub fn new(seam: Seam) -> Arc<Self> {
        let started = seam.elapsed();
        let state = State {
            started,
            last_metrics: started,
            summary: Summary::default(),
            retries: 0,
            counters: Vec::new(),
            by_name: HashMap::new(),
            said: HashSet::new(),
        };
        Arc::new(Self { seam, state: Mutex::new(state) })
    }

    /// Counts records that were read, and their bytes. Shows the metrics if they are due.
    pub fn rows(&self, stream: &str, rows: u64, bytes: u64) {
        let now = self.seam.elapsed();
        let mut state = self.state();
        let index = state.index(stream, now);
        state.counters[index].records += rows;
        let summary = &mut state.summary.streams[index];
        summary.rows_read += rows;
        summary.bytes_in += bytes;
        drop(state);
        self.tick();
    }

    /// Counts and tells a commit.
    pub fn committed(&self, stream: &str, commit: &Committed) {
        let now = self.seam.elapsed();
        let mut state = self.state();
        let index = state.index(stream, now);
        let first = state.counters[index].first;
        state.retries += u64::from(commit.attempts.saturating_sub(1));
        let summary = &mut state.summary.streams[index];
        summary.table.clone_from(&commit.table);
        summary.rows += commit.rows;
        summary.files += commit.files;
        summary.bytes_out += commit.bytes;
        summary.commits += 1;
        summary.version = commit.version.or(summary.version);
        summary.seconds = now.saturating_sub(first).as_secs_f64();
        drop(state);
        let version = commit.version.map(|version| format!(" version {version}:")).unwrap_or_default();
        let tries = if commit.attempts > 1 { format!(", {} tries", commit.attempts) } else { String::new() };
        let (rows, files) = (counted(commit.rows, "row", "rows"), counted(commit.files, "file", "files"));
        tracing::info!(stream_name = stream, "committed{version} {rows} in {files}{tries} ({})", commit.table);
    }

    /// Tells how long the building and writing of one batch of files took (the metric `batch_processing_time`).
    pub fn batch_time(&self, stream: &str, time: Duration, is_good: bool) {
        let status = if is_good { "succeeded" } else { "failed" };
        let tags = serde_json::json!({ "stream": stream, "pid": std::process::id(), "status": status });
        show_metric(stream, "timer", "batch_processing_time", time.as_secs_f64().into(), tags);
    }

    /// Counts records that were set aside.
    pub fn rejected(&self, stream: &str, records: u64) {
        self.change(stream, |summary| summary.rejects += records);
    }

    /// Counts rows that the schema contract left out.
    pub fn discarded(&self, stream: &str, rows: u64) {
        self.change(stream, |summary| summary.discarded += rows);
    }

    /// Counts a change to values; the first example of a field and kind stays.
    pub fn coerced(&self, stream: &str, coercion: Coercion) {
        self.change(stream, |summary| {
            let same = |known: &&mut Coercion| known.field == coercion.field && known.kind == coercion.kind;
            match summary.coercions.iter_mut().find(same) {
                Some(known) => known.count += coercion.count,
                None => summary.coercions.push(coercion),
            }
        });
    }

    /// Counts and shows an input line that was skipped.
    pub fn skipped_line(&self, line: InputLine, detail: &str) {
        self.state().summary.skipped_lines += 1;
        tracing::warn!("skipped input line {line}: {detail}");
    }

    /// Tells how many lines of the input were read up to this moment.
    pub fn lines(&self, lines: u64) {
        self.state().summary.lines = lines;
    }

    /// Counts a STATE that was written to stdout.
    pub fn state_out(&self, line: InputLine) {
        self.state().summary.states_out += 1;
        tracing::debug!("STATE of input line {line} is out");
    }

    /// Says something that a user should know, once.
    pub fn notice(&self, stream: Option<&str>, text: &str) {
        if self.is_new(stream, text) {
            match stream {
                Some(stream) => tracing::info!(stream_name = stream, "{text}"),
                None => tracing::info!("{text}"),
            }
        }
    }

    /// Says something that is not as it should be and loses nothing, once.
    pub fn warn(&self, stream: Option<&str>, text: &str) {
        if self.is_new(stream, text) {
            match stream {
                Some(stream) => tracing::warn!(stream_name = stream, "{text}"),
                None => tracing::warn!("{text}"),
            }
        }
    }

    /// Shows the live line, and the counters if [`METRICS_INTERVAL`] has passed. For a timer, since a silent tap calls nothing else.
    pub fn tick(&self) {
        let now = self.seam.elapsed();
        let mut state = self.state();
        STDERR.refresh(now, || {
            live::figures(&state.summary, state.retries, now.saturating_sub(state.started), live::resident_bytes())
        });
        if now.saturating_sub(state.last_metrics) < METRICS_INTERVAL {
            return;
        }
        state.last_metrics = now;
        let counts = state.take_counts(false);
        drop(state);
        show_counts(&counts);
    }

    /// Shows what the counters still hold, and returns all figures.
    pub fn finish(&self) -> Summary {
        let now = self.seam.elapsed();
        let mut state = self.state();
        let counts = state.take_counts(true);
        state.summary.seconds = now.saturating_sub(state.started).as_secs_f64();
        let summary = state.summary.clone();
        drop(state);
        STDERR.end();
        show_counts(&counts);
        summary
    }

    /// Shows the closing table.
    pub fn show(&self, summary: &Summary) {
        for line in summary.render().lines() {
            tracing::info!(target: super::log::TABLE_TARGET, "{line}");
        }
    }

    fn is_new(&self, stream: Option<&str>, text: &str) -> bool {
        let now = self.seam.elapsed();
        let mut state = self.state();
        let is_new = state.said.insert((stream.map(str::to_owned), text.to_owned()));
        if let (true, Some(stream)) = (is_new, stream) {
            let index = state.index(stream, now);
            state.summary.streams[index].notices.push(text.to_owned());
        }
        is_new
    }

    fn change(&self, stream: &str, change: impl FnOnce(&mut StreamSummary)) {
        let now = self.seam.elapsed();
        let mut state = self.state();
        let index = state.index(stream, now);
        change(&mut state.summary.streams[index]);
    }

    /// A thread that panicked with the lock held has left whole figures behind: every change above is a sum.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the index of `stream`, which it adds where it is new.
    fn index(&mut self, stream: &str, now: Duration) -> usize {
        if let Some(index) = self.by_name.get(stream) {
            return *index;
        }
        let index = self.counters.len();
        self.by_name.insert(stream.to_owned(), index);
        self.counters.push(Counter { first: now, records: 0, is_told: false });
        self.summary.streams.push(StreamSummary { name: stream.to_owned(), ..StreamSummary::default() });
        index
    }

    /// Returns the counts since the last call and starts them again. At the end every stream has at least one line.
    fn take_counts(&mut self, is_end: bool) -> Vec<(String, u64)> {
        let mut counts = Vec::new();
        for (counter, stream) in self.counters.iter_mut().zip(&self.summary.streams) {
            if counter.records > 0 || (is_end && !counter.is_told) {
                counts.push((stream.name.clone(), std::mem::take(&mut counter.records)));
                counter.is_told = true;
            }
        }
        counts
    }
}

fn show_counts(counts: &[(String, u64)]) {
    for (stream, count) in counts {
        let tags = serde_json::json!({ "stream": stream, "pid": std::process::id() });
        show_metric(stream, "counter", "record_count", (*count).into(), tags);
    }
}

fn show_metric(stream: &str, kind: &str, name: &str, value: serde_json::Value, tags: serde_json::Value) {
    let metric = serde_json::json!({ "type": kind, "metric": name, "value": value, "tags": tags });
    tracing::info!(target: super::log::METRICS_TARGET, stream_name = stream, metric_info = %metric, "METRIC");
}
