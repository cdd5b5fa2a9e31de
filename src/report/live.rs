//! The live line of a terminal: one line of figures below the log lines, written over as the load goes on.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use super::summary::{Summary, counted, grouped};

/// How often the line is written anew.
const INTERVAL: Duration = Duration::from_millis(200);
/// Characters of the line: one that wraps could not be taken back.
const WIDTH: usize = 79;
/// Back to the line's begin, and all of it erased. Source: ECMA-48, EL.
const ERASE: &[u8] = b"\r\x1b[2K";

/// Where the log goes, with the live line at its end.
#[derive(Debug)]
pub(super) struct Terminal<W>(Mutex<Inner<W>>);

#[derive(Debug)]
struct Inner<W> {
    output: W,
    /// Whether there is a live line at all: false in a pipe or a file.
    is_live: bool,
    shown: Option<String>,
    shown_at: Option<Duration>,
}

impl<W: Write> Terminal<W> {
    pub(super) const fn new(output: W) -> Self {
        Self(Mutex::new(Inner { output, is_live: false, shown: None, shown_at: None }))
    }

    /// From here on there is a live line.
    pub(super) fn go_live(&self) {
        self.inner().is_live = true;
    }

    /// Shows the figures, unless that was done a moment ago. `now` is the time of a running clock.
    pub(super) fn refresh(&self, now: Duration, figures: impl FnOnce() -> String) {
        let mut inner = self.inner();
        if !inner.is_live || inner.shown_at.is_some_and(|at| now < at + INTERVAL) {
            return;
        }
        inner.shown_at = Some(now);
        let text = figures().chars().take(WIDTH).collect::<String>();
        inner.erase();
        inner.show(text);
    }

    /// Takes the live line away for good.
    pub(super) fn end(&self) {
        let mut inner = self.inner();
        inner.erase();
        inner.is_live = false;
    }

    fn inner(&self) -> MutexGuard<'_, Inner<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> Inner<W> {
    fn erase(&mut self) {
        if self.shown.take().is_some() {
            // A terminal that has gone away is no reason to stop loading.
            drop(self.output.write_all(ERASE));
        }
    }

    fn show(&mut self, text: String) {
        drop(self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush()));
        self.shown = Some(text);
    }
}

/// Writes log lines above the live line.
pub(super) struct Lines<'a, W>(MutexGuard<'a, Inner<W>>);

impl<W: Write> Write for Lines<'_, W> {
    /// Takes whole lines: the log layer writes each event at once.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shown = self.0.shown.clone();
        self.0.erase();
        self.0.output.write_all(bytes)?;
        if let Some(text) = shown {
            self.0.show(text);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.output.flush()
    }
}

impl<'a, W: Write + 'a> MakeWriter<'a> for &'static Terminal<W> {
    type Writer = Lines<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines(self.inner())
    }
}

/// Returns the figures of a load that has run for `time`; `resident_bytes` is the memory of the process, where the system tells.
pub(super) fn figures(summary: &Summary, retries: u64, time: Duration, resident_bytes: Option<u64>) -> String {
    let sum = |of: fn(&super::StreamSummary) -> u64| summary.streams.iter().map(of).sum::<u64>();
    let rows = sum(|stream| stream.rows_read);
    let rate = if time.is_zero() { 0 } else { (rows as f64 / time.as_secs_f64()).round() as u64 };
    let mut parts = vec![
        counted(rows, "row", "rows"),
        format!("{} rows/s", grouped(rate)),
        format!("{} MB", grouped(sum(|stream| stream.bytes_in) / 1_000_000)),
        counted(sum(|stream| stream.files), "file", "files"),
        counted(sum(|stream| stream.commits), "commit", "commits"),
    ];
    if retries > 0 {
        parts.push(counted(retries, "retry", "retries"));
    }
    if let Some(bytes) = resident_bytes {
        parts.push(format!("{} MiB memory", bytes >> 20));
    }
    parts.join("  ")
}

/// Returns the resident memory of this process in bytes, where the system has it in a file.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::StreamSummary;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn written(terminal: &Terminal<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut terminal.inner().output)).expect("is text")
    }

    #[test]
    fn log_lines_stand_above_the_live_line() {
        let terminal: &'static Terminal<Vec<u8>> = Box::leak(Box::new(Terminal::new(Vec::new())));
        let log = |text: &str| terminal.make_writer().write_all(text.as_bytes()).expect("writes");
        terminal.refresh(ms(0), || "never".to_owned());
        log("first\n");
        assert_eq!(written(terminal), "first\n", "a pipe gets log lines alone");
        terminal.go_live();
        terminal.refresh(ms(0), || "one".to_owned());
        log("second\n");
        terminal.refresh(ms(100), || "too soon".to_owned());
        terminal.refresh(ms(200), || "x".repeat(200));
        let long = "x".repeat(WIDTH);
        assert_eq!(written(terminal), format!("one\r\x1b[2Ksecond\none\r\x1b[2K{long}"));
        terminal.end();
        terminal.refresh(ms(900), || "after the end".to_owned());
        log("table\n");
        assert_eq!(written(terminal), "\r\x1b[2Ktable\n");
    }

    #[test]
    fn the_figures_fit_into_one_line() {
        let stream = |rows_read, bytes_in, files, commits| StreamSummary {
            rows_read,
            bytes_in,
            files,
            commits,
            ..StreamSummary::default()
        };
        let summary =
            Summary { streams: vec![stream(1_000_000, 180_000_000, 2, 1), stream(500, 2_000_000, 1, 1)], ..Summary::default() };
        assert_eq!(
            figures(&summary, 0, ms(2_000), Some(72 << 20)),
            "1,000,500 rows  500,250 rows/s  182 MB  3 files  2 commits  72 MiB memory"
        );
        assert_eq!(figures(&Summary::default(), 1, Duration::ZERO, None), "0 rows  0 rows/s  0 MB  0 files  0 commits  1 retry");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_has_some_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
