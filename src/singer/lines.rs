//! Chunks of input → lines with their numbers.

use crate::error::InputLine;

/// Splits pushed chunks into lines. A line that spans chunks is put together in a buffer of its own.
#[derive(Debug)]
pub struct LineSplitter {
    carry: Vec<u8>,
    next_line: u64,
    limit_bytes: usize,
}

/// The carry buffer is given back to the system above this size, so that one long line does not hold memory for ever.
const KEPT_CARRY_BYTES: usize = 4 << 20;

impl LineSplitter {
    /// Returns a splitter that refuses lines over `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { carry: Vec::new(), next_line: 1, limit_bytes }
    }

    /// Returns the bytes held for an unfinished line.
    pub fn held_bytes(&self) -> usize {
        self.carry.capacity()
    }

    /// Feeds `chunk`: calls `each` for every line that is complete, in order, without its end (LF or CRLF) and trailing blanks, with its
    /// number and whether it is known to be UTF-8. Blank lines are counted and skipped.
    ///
    /// **Errors**: those of `each`, at once; what `too_long` makes of the line's number and its bytes so far, over the limit.
    pub fn split<E>(
        &mut self,
        chunk: &[u8],
        too_long: impl Fn(InputLine, usize) -> E,
        mut each: impl FnMut(InputLine, &[u8], bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunk = chunk;
        if !self.carry.is_empty() {
            let Some(end) = memchr::memchr(b'\n', chunk) else {
                return self.keep(chunk, &too_long);
            };
            self.keep(&chunk[..end], &too_long)?;
            chunk = &chunk[end + 1..];
            let line = InputLine(self.next_line);
            self.next_line += 1;
            let carry = std::mem::take(&mut self.carry);
            let text = content(line, &carry);
            if !text.is_empty() {
                let is_utf8 = simdutf8::basic::from_utf8(text).is_ok();
                each(line, text, is_utf8)?;
            }
            if carry.capacity() <= KEPT_CARRY_BYTES {
                self.carry = carry;
                self.carry.clear();
            }
        }
        let Some(last) = memchr::memrchr(b'\n', chunk) else {
            return self.keep(chunk, &too_long);
        };
        let (whole, tail) = (&chunk[..last + 1], &chunk[last + 1..]);
        let is_utf8 = simdutf8::basic::from_utf8(whole).is_ok();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', whole) {
            let line = InputLine(self.next_line);
            self.next_line += 1;
            let text = content(line, &whole[start..end]);
            start = end + 1;
            if text.len() > self.limit_bytes {
                return Err(too_long(line, text.len()));
            }
            if !text.is_empty() {
                let is_utf8 = is_utf8 || simdutf8::basic::from_utf8(text).is_ok();
                each(line, text, is_utf8)?;
            }
        }
        self.keep(tail, &too_long)
    }

    /// Ends the input: calls `each` for a last line that no line end closed.
    pub fn finish<E>(mut self, mut each: impl FnMut(InputLine, &[u8], bool) -> Result<(), E>) -> Result<(), E> {
        let carry = std::mem::take(&mut self.carry);
        let text = content(InputLine(self.next_line), &carry);
        if text.is_empty() {
            return Ok(());
        }
        each(InputLine(self.next_line), text, simdutf8::basic::from_utf8(text).is_ok())
    }

    fn keep<E>(&mut self, bytes: &[u8], too_long: &impl Fn(InputLine, usize) -> E) -> Result<(), E> {
        if self.carry.len() + bytes.len() > self.limit_bytes {
            return Err(too_long(InputLine(self.next_line), self.carry.len() + bytes.len()));
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }
}

/// The line without a byte order mark (first line only), trailing blanks and CR.
fn content(line: InputLine, bytes: &[u8]) -> &[u8] {
    let bytes = if line.0 == 1 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
    bytes.trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(chunks: &[&[u8]], limit: usize) -> Result<Vec<(u64, Vec<u8>)>, u64> {
        let mut splitter = LineSplitter::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            splitter.split(
                chunk,
                |line, _| line.0,
                |line, text, _| {
                    found.push((line.0, text.to_vec()));
                    Ok(())
                },
            )?;
        }
        splitter.finish::<u64>(|line, text, _| {
            found.push((line.0, text.to_vec()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn blank_lines_line_ends_and_a_byte_order_mark_are_no_content() {
        let found = lines(&[b"\xef\xbb", b"\xbfa \r\n\n  \r\nb\t\n\nc"], 100).expect("short lines");
        assert_eq!(found, [(1, b"a".to_vec()), (4, b"b".to_vec()), (6, b"c".to_vec())]);
    }

    #[test]
    fn a_line_over_the_limit_is_refused_by_its_number() {
        assert_eq!(lines(&[b"ab\n", b"abc", b"defg", b"\n"], 5), Err(2));
        assert_eq!(lines(&[b"ab\nabcdef\n"], 5), Err(2));
        assert!(lines(&[b"ab\nabcde\n"], 5).is_ok());
    }

    proptest! {
        #[test]
        fn any_split_into_chunks_gives_the_same_lines(text in "[ab\r\n \u{e9}]{0,60}", cuts in proptest::collection::vec(0usize..60, 0..6)) {
            let bytes = text.as_bytes();
            let whole = lines(&[bytes], 1000).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(lines(&chunks, 1000).unwrap(), whole);
        }
    }
}
