//! JSON lines: one record a line.

use std::io::BufRead;
use std::path::Path;

use super::io_error;
use crate::{Error, Result};

/// The lines of a file that are not blank.
pub(super) struct Lines {
    reader: Box<dyn BufRead + Send>,
    max_line_bytes: usize,
    number: u64,
    is_open: bool,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Lines {
    pub fn new(reader: Box<dyn BufRead + Send>, max_line_bytes: usize) -> Self {
        Self { reader, max_line_bytes, number: 0, is_open: false }
    }

    /// Returns the number of the last line, counted from 1, blank lines included.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Tells whether the last line ended with the file and not with a line end: it may have been cut off.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn next_into(&mut self, record: &mut Vec<u8>, path: &Path) -> Result<bool> {
        loop {
            record.clear();
            if !self.read_line(record, path)? {
                return Ok(false);
            }
            if self.number == 1 && record.starts_with(b"\xEF\xBB\xBF") {
                record.drain(..3);
            }
            let end = record.trim_ascii_end().len();
            record.truncate(end);
            let blank = record.len() - record.trim_ascii_start().len();
            if blank > 0 {
                record.drain(..blank);
            }
            if !record.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Reads up to the next line feed or the end; false when nothing is left.
    fn read_line(&mut self, record: &mut Vec<u8>, path: &Path) -> Result<bool> {
        let mut is_begun = false;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.damaged(path, error)),
            };
            if available.is_empty() {
                self.is_open = true;
                return Ok(is_begun);
            }
            if !is_begun {
                is_begun = true;
                self.number += 1;
            }
            let (piece, used, is_whole) = match memchr::memchr(b'\n', available) {
                Some(end) => (&available[..end], end + 1, true),
                None => (available, available.len(), false),
            };
            if record.len() + piece.len() > self.max_line_bytes {
                let (number, file, limit) = (self.number, path.display(), self.max_line_bytes);
                return Err(Error::input(format!("line {number} of `{file}` is longer than {limit} bytes"))
                    .hint("raise `memory_limit_bytes`: a line may take a fifth of it"));
            }
            record.extend_from_slice(piece);
            self.reader.consume(used);
            if is_whole {
                return Ok(true);
            }
        }
    }

    fn damaged(&self, path: &Path, error: std::io::Error) -> Error {
        match io_error(path, error) {
            error if error.kind() == crate::ErrorKind::Input => {
                let message = format!("the file `{}` is damaged or cut off after line {}", path.display(), self.number);
                Error::input(message).source(error)
            }
            error => error,
        }
    }
}
