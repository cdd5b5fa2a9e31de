//! What may be said on stdout: the newest STATE all of whose earlier input is durably applied.
//!
//! The committer calls [`Ack::covered`] only after every table's commit of a cut has landed, in the order of the cuts. So what is
//! printed never runs ahead of the data; printing late, or leaving an older one out, is always allowed. During a load nothing else
//! writes to stdout.

use std::io::Write;
use std::time::Duration;

use crate::error::{Error, Result};

/// A STATE of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Its line.
    pub line: u64,
    /// The text of its value; `None` for `{}` and `null`, which are positions of the input but say nothing.
    pub text: Option<Vec<u8>>,
}

impl State {
    pub(super) fn new(line: u64, text: &[u8]) -> Self {
        let is_empty = {
            let bare: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(5).collect();
            bare == b"{}" || bare == b"null"
        };
        Self { line, text: (!is_empty).then(|| text.to_vec()) }
    }

    /// Returns the state that stands for this one and `older`: one that says nothing does not hide what the older one says.
    pub(super) fn after(mut self, older: Option<State>) -> Self {
        self.text = self.text.or(older.and_then(|older| older.text));
        self
    }
}

/// The writer of STATE lines.
pub(super) struct Ack {
    output: Box<dyn Write + Send>,
    interval: Duration,
    /// Covered, not yet printed.
    pending: Option<Vec<u8>>,
    printed_at: Option<Duration>,
    /// Whoever reads the output has gone.
    is_closed: bool,
    /// The line of the newest STATE that is covered.
    covered_line: Option<u64>,
    printed: u64,
}

impl Ack {
    pub(super) fn new(output: Box<dyn Write + Send>, interval: Duration) -> Self {
        Self { output, interval, pending: None, printed_at: None, is_closed: false, covered_line: None, printed: 0 }
    }

    /// Takes note that all input before `state` is durably applied; prints it if the interval allows.
    pub(super) fn covered(&mut self, state: State, now: Duration) -> Result<()> {
        self.covered_line = Some(state.line);
        if let Some(text) = state.text {
            self.pending = Some(text);
        }
        self.print_due(now)
    }

    /// Prints what is pending if the interval allows.
    pub(super) fn print_due(&mut self, now: Duration) -> Result<()> {
        match self.printed_at {
            Some(at) if now < at + self.interval => Ok(()),
            _ => self.print(now),
        }
    }

    /// Prints what is pending, whatever the interval: the end of the load, good or bad, since what it covers is committed.
    pub(super) fn print(&mut self, now: Duration) -> Result<()> {
        let Some(mut text) = self.pending.take().filter(|_| !self.is_closed) else { return Ok(()) };
        text.push(b'\n');
        // One write per line: a reader that is killed in between never sees half of one.
        self.output.write_all(&text).and_then(|()| self.output.flush()).map_err(|error| {
            self.is_closed = true;
            Error::denied("the STATE cannot be written to stdout")
                .source(error)
                .hint("whatever reads the output closed it; what is committed stays, and the tap sends again what came after the last STATE that was read")
        })?;
        self.printed_at = Some(now);
        self.printed += 1;
        Ok(())
    }

    /// Whether something is waiting for the interval to pass.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn covered_line(&self) -> Option<u64> {
        self.covered_line
    }

    pub(super) fn printed(&self) -> u64 {
        self.printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn states_are_throttled_and_the_newest_stands_for_those_before_it() {
        let shared = Shared::default();
        let mut ack = Ack::new(Box::new(shared.clone()), at(5));
        for (second, text) in [(1, "{\"a\": 1}"), (2, "{\"a\":2}"), (3, "{\"a\":3}"), (7, "{\"a\":4}"), (8, "{\"a\":5}")] {
            ack.covered(State::new(second, text.as_bytes()), at(second)).unwrap();
        }
        ack.print(at(9)).unwrap();
        ack.print(at(10)).unwrap();
        assert_eq!(String::from_utf8(shared.0.lock().unwrap().clone()).unwrap(), "{\"a\": 1}\n{\"a\":4}\n{\"a\":5}\n");
    }

    #[test]
    fn an_empty_state_is_never_printed_and_does_not_hide_an_older_one() {
        let shared = Shared::default();
        let mut ack = Ack::new(Box::new(shared.clone()), at(5));
        ack.covered(State::new(1, b" { } "), at(1)).unwrap();
        ack.covered(State::new(2, b"null"), at(2)).unwrap();
        ack.covered(State::new(3, b"{\"a\":1}"), at(3)).unwrap();
        ack.covered(State::new(4, b"{\"a\":2}"), at(4)).unwrap();
        ack.covered(State::new(5, b"{}"), at(5)).unwrap();
        ack.print(at(6)).unwrap();
        assert_eq!(String::from_utf8(shared.0.lock().unwrap().clone()).unwrap(), "{\"a\":1}\n{\"a\":2}\n");
        assert_eq!(ack.covered_line(), Some(5));
    }
}
