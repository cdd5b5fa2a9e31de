//! A line of input as strict JSON, for readers that take nothing else, and the way back from its parts to the original bytes.

use std::borrow::Cow;

use super::json;

/// Strict text made from a line, and where it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strict<'a> {
    /// The text: valid UTF-8, no bare NaN, no lone surrogates.
    pub text: Cow<'a, str>,
    /// Invalid UTF-8 sequences that became U+FFFD.
    pub invalid_utf8: u64,
    /// Lone surrogate escapes that became `\ufffd`.
    pub lone_surrogates: u64,
    /// Bare NaN, Infinity and -Infinity that became null.
    pub not_a_numbers: u64,
    original: &'a [u8],
    /// Ends of replaced pieces: in `text`, in `original`.
    edits: Vec<(usize, usize)>,
}

/// Returns `line` as strict JSON text: invalid UTF-8 and lone surrogates become U+FFFD, bare NaN and infinities become null. What else
/// is wrong with it stays.
pub fn make_strict(line: &[u8]) -> Strict<'_> {
    let mut maker = Maker { text: String::new(), line, copied: 0, at: 0, edits: Vec::new(), counts: [0; 3] };
    maker.run();
    let Maker { mut text, copied, edits, counts: [invalid_utf8, lone_surrogates, not_a_numbers], .. } = maker;
    let rest = line.get(copied..).unwrap_or_default();
    let text = match std::str::from_utf8(rest) {
        Ok(rest) if copied == 0 => Cow::Borrowed(rest),
        Ok(rest) => {
            text.push_str(rest);
            Cow::Owned(text)
        }
        Err(_) => Cow::Owned(text + &String::from_utf8_lossy(rest)),
    };
    Strict { text, invalid_utf8, lone_surrogates, not_a_numbers, original: line, edits }
}

impl<'a> Strict<'a> {
    /// Returns the original bytes of `part`, which must be a slice of `text` (a raw value in it); `None` when it is not.
    pub fn original(&self, part: &str) -> Option<&'a [u8]> {
        let begin = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let end = begin + part.len();
        if end > self.text.len() {
            return None;
        }
        self.original.get(self.original_offset(begin)..self.original_offset(end))
    }

    fn original_offset(&self, offset: usize) -> usize {
        match self.edits.partition_point(|(end, _)| *end <= offset).checked_sub(1).and_then(|index| self.edits.get(index)) {
            Some((end, original_end)) => offset - end + original_end,
            None => offset,
        }
    }
}

struct Maker<'a> {
    text: String,
    line: &'a [u8],
    /// What of `line` is in `text` already.
    copied: usize,
    at: usize,
    edits: Vec<(usize, usize)>,
    counts: [u64; 3],
}

impl Maker<'_> {
    fn run(&mut self) {
        let mut is_string = false;
        while let Some(byte) = self.line.get(self.at).copied() {
            let rest = self.line.get(self.at..).unwrap_or_default();
            match byte {
                b'"' => {
                    is_string = !is_string;
                    self.at += 1;
                }
                b'\\' if is_string => {
                    if rest.get(1) == Some(&b'u') && json::hex4(rest, 2).is_some() {
                        match json::unicode_escape(rest) {
                            (Some(_), length) => self.at += length,
                            (None, length) => self.replace(length, "\\ufffd", 1),
                        }
                    } else {
                        self.at += 2;
                    }
                }
                b'N' if !is_string && rest.starts_with(b"NaN") => self.replace(3, "null", 2),
                b'I' if !is_string && rest.starts_with(b"Infinity") => self.replace(8, "null", 2),
                b'-' if !is_string && rest.starts_with(b"-Infinity") => self.replace(9, "null", 2),
                0x80.. => self.character(rest),
                _ if is_string => self.at = json::find_special(self.line, self.at).max(self.at + 1).min(self.next_high()),
                _ => self.at += 1,
            }
        }
    }

    /// Returns the index of the next byte after this one that is not ASCII, at most a short way off.
    fn next_high(&self) -> usize {
        let begin = self.at + 1;
        let end = (begin + 256).min(self.line.len());
        let chunk = self.line.get(begin..end).unwrap_or_default();
        chunk.iter().position(|byte| *byte >= 0x80).map_or(end.max(begin), |found| begin + found)
    }

    fn character(&mut self, rest: &[u8]) {
        let head = rest.get(..rest.len().min(4)).unwrap_or_default();
        let (valid, wrong) = match std::str::from_utf8(head) {
            Ok(text) => (text, 0),
            Err(error) => {
                let (valid, invalid) = head.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), error.error_len().unwrap_or(invalid.len()))
            }
        };
        match valid.chars().next() {
            Some(character) => self.at += character.len_utf8(),
            None => self.replace(wrong, "\u{fffd}", 0),
        }
    }

    fn replace(&mut self, length: usize, by: &str, count: usize) {
        let before = self.line.get(self.copied..self.at).unwrap_or_default();
        self.text.push_str(&String::from_utf8_lossy(before));
        self.text.push_str(by);
        self.at += length;
        self.copied = self.at;
        self.edits.push((self.text.len(), self.at));
        if let Some(counted) = self.counts.get_mut(count) {
            *counted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    #[test]
    fn strict_text_is_borrowed_as_it_is() {
        let line = r#"{"a":"NaN Infinity é \ud83d\ude00","b":[1,"\\"]}"#;
        let strict = make_strict(line.as_bytes());
        assert!(matches!(strict.text, Cow::Borrowed(text) if text == line));
    }

    #[test]
    fn what_json_lacks_is_replaced_and_counted() {
        let strict = make_strict(b"{\"a\":NaN,\"b\":[-Infinity,Infinity],\"c\":\"\\ud800x\xff\xe2\x82\",\"d\":\"\\\\ud800\"}");
        assert_eq!(strict.text, "{\"a\":null,\"b\":[null,null],\"c\":\"\\ufffdx\u{fffd}\u{fffd}\",\"d\":\"\\\\ud800\"}");
        assert_eq!((strict.invalid_utf8, strict.lone_surrogates, strict.not_a_numbers), (2, 1, 3));
    }

    #[test]
    fn a_part_leads_back_to_its_original_bytes() {
        let line = b"{\"x\":NaN,\"record\":{\"a\":\"\xff\",\"b\":-Infinity},\"y\":1}";
        let strict = make_strict(line);
        let parts: std::collections::HashMap<String, &RawValue> = serde_json::from_str(&strict.text).unwrap();
        assert_eq!(strict.original(parts["record"].get()).unwrap(), b"{\"a\":\"\xff\",\"b\":-Infinity}");
        assert_eq!(strict.original(parts["x"].get()).unwrap(), b"NaN");
        assert_eq!(strict.original(parts["y"].get()).unwrap(), b"1");
        assert_eq!(strict.original("elsewhere"), None);
    }

    proptest! {
        #[test]
        fn equals_the_lossy_text_when_there_are_no_words_and_escapes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let bytes: Vec<u8> = bytes.into_iter().filter(|byte| !b"NI\\".contains(byte)).collect();
            let strict = make_strict(&bytes);
            prop_assert_eq!(&*strict.text, &*String::from_utf8_lossy(&bytes));
            prop_assert_eq!(strict.original(&strict.text), Some(&bytes[..]));
        }
    }
}
