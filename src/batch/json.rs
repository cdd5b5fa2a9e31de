//! A strict JSON reader over bytes that keeps every value's own text.
//!
//! Guarantee: what [`end_of_value`] accepts is JSON as RFC 8259 has it, skipped parts included, but for three things that taps do send:
//! bare `NaN`, `Infinity` and `-Infinity`, lone surrogate escapes, and invalid UTF-8 inside strings. Each has one meaning here
//! (not a number, U+FFFD, U+FFFD) and whoever converts a value learns of it. No depth of nesting overflows the stack.

use std::borrow::Cow;

/// Text that is not JSON: what is wrong and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    pub detail: &'static str,
    pub offset: usize,
}

/// A value of validated text, by its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Boolean(bool),
    /// The digits as they are.
    Number(&'a [u8]),
    /// NaN or an infinity.
    NotANumber(f64),
    /// The text between the quotes, escapes unresolved.
    String(&'a [u8]),
    /// The whole text, braces included.
    Object(&'a [u8]),
    /// The whole text, brackets included.
    Array(&'a [u8]),
}

/// What was replaced on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Replaced {
    /// Invalid UTF-8 became U+FFFD.
    pub is_utf8: bool,
    /// A lone surrogate became U+FFFD.
    pub is_surrogate: bool,
    /// NaN or an infinity became null.
    pub is_not_a_number: bool,
}

impl Replaced {
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// Returns the index of the first byte from `at` on that is not white space.
pub(super) fn skip_white(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the index after the value that begins at `at` (no white space before it). The whole value is checked.
pub(super) fn end_of_value(text: &[u8], at: usize) -> Result<usize, Malformed> {
    let mut at = at;
    // One entry per open container: whether it is an object.
    let mut open: Vec<bool> = Vec::new();
    loop {
        // A value begins here.
        let begin = text.get(at).copied();
        match begin {
            Some(b'{') => {
                at = skip_white(text, at + 1);
                if text.get(at) == Some(&b'}') {
                    at += 1;
                } else {
                    at = end_of_key(text, at)?;
                    open.push(true);
                    continue;
                }
            }
            Some(b'[') => {
                at = skip_white(text, at + 1);
                if text.get(at) == Some(&b']') {
                    at += 1;
                } else {
                    open.push(false);
                    continue;
                }
            }
            Some(b'"') => at = end_of_string(text, at)?,
            Some(b'-' | b'0'..=b'9') => at = end_of_number(text, at)?,
            Some(b't') => at = end_of_literal(text, at, b"true")?,
            Some(b'f') => at = end_of_literal(text, at, b"false")?,
            Some(b'n') => at = end_of_literal(text, at, b"null")?,
            Some(b'N') => at = end_of_literal(text, at, b"NaN")?,
            Some(b'I') => at = end_of_literal(text, at, b"Infinity")?,
            Some(_) => return Err(Malformed { detail: "a value was expected", offset: at }),
            None => return Err(Malformed { detail: "the text ends where a value was expected", offset: at }),
        }
        // A value has ended: close what ends with it, or go to the next one.
        loop {
            let Some(is_object) = open.last().copied() else { return Ok(at) };
            at = skip_white(text, at);
            match (text.get(at), is_object) {
                (Some(b','), true) => {
                    at = end_of_key(text, skip_white(text, at + 1))?;
                    break;
                }
                (Some(b','), false) => {
                    at = skip_white(text, at + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    at += 1;
                    open.pop();
                }
                (Some(_), true) => return Err(Malformed { detail: "`,` or `}` was expected", offset: at }),
                (Some(_), false) => return Err(Malformed { detail: "`,` or `]` was expected", offset: at }),
                (None, _) => return Err(Malformed { detail: "the text ends inside an object or array", offset: at }),
            }
        }
    }
}

/// Returns the index of the value that follows the key at `at`.
fn end_of_key(text: &[u8], at: usize) -> Result<usize, Malformed> {
    if text.get(at) != Some(&b'"') {
        return Err(Malformed { detail: "a key in quotes was expected", offset: at });
    }
    let at = skip_white(text, end_of_string(text, at)?);
    if text.get(at) != Some(&b':') {
        return Err(Malformed { detail: "`:` was expected", offset: at });
    }
    Ok(skip_white(text, at + 1))
}

fn end_of_literal(text: &[u8], at: usize, literal: &[u8]) -> Result<usize, Malformed> {
    match text.get(at..).is_some_and(|rest| rest.starts_with(literal)) {
        true => Ok(at + literal.len()),
        false => Err(Malformed { detail: "a value was expected", offset: at }),
    }
}

/// Returns the index after the closing quote of the string that opens at `at`.
pub(super) fn end_of_string(text: &[u8], at: usize) -> Result<usize, Malformed> {
    let mut at = at + 1;
    loop {
        at = find_special(text, at);
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match text.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                Some(b'u') if hex4(text, at + 2).is_some() => at += 6,
                _ => return Err(Malformed { detail: "an escape is not one of JSON's", offset: at }),
            },
            Some(_) => return Err(Malformed { detail: "a string holds a raw control character", offset: at }),
            None => return Err(Malformed { detail: "the text ends inside a string", offset: at }),
        }
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// Returns the index of the first `"`, `\` or control character from `at` on, or the length of `text`. Eight bytes at a time.
#[inline]
pub(super) fn find_special(text: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        // The lowest flag of each term is exact (a borrow can only reach the bytes above it), so the lowest of all is.
        let found =
            (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash) | (word.wrapping_sub(ONES * 0x20) & !word);
        let found = found & HIGHS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\') {
        at += 1;
    }
    at
}

/// Returns the index after the number at `at`; `-Infinity` counts as one.
pub(super) fn end_of_number(text: &[u8], begin: usize) -> Result<usize, Malformed> {
    let digits = |mut at: usize| {
        let begin = at;
        while text.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > begin).then_some(at)
    };
    let wrong = |offset| Malformed { detail: "a number is not written as JSON has it", offset };
    let mut at = begin;
    if text.get(at) == Some(&b'-') {
        at += 1;
        if text.get(at) == Some(&b'I') {
            return end_of_literal(text, at, b"Infinity");
        }
    }
    let integer = at;
    at = digits(at).ok_or(wrong(begin))?;
    if text.get(integer) == Some(&b'0') && at > integer + 1 {
        return Err(wrong(begin));
    }
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1).ok_or(wrong(begin))?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(at).ok_or(wrong(begin))?;
    }
    Ok(at)
}

/// Returns the value of four hexadecimal digits.
pub(super) fn hex4(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 4)?;
    let mut value = 0u16;
    for digit in digits {
        value = value << 4 | (*digit as char).to_digit(16)? as u16;
    }
    Some(value)
}

/// Returns the kind of a validated value's text.
pub(super) fn classify(raw: &[u8]) -> Json<'_> {
    match raw {
        [b'{', ..] => Json::Object(raw),
        [b'[', ..] => Json::Array(raw),
        [b'"', inner @ .., b'"'] => Json::String(inner),
        [b't', ..] => Json::Boolean(true),
        [b'f', ..] => Json::Boolean(false),
        [b'N', ..] => Json::NotANumber(f64::NAN),
        [b'I', ..] => Json::NotANumber(f64::INFINITY),
        [b'-', b'I', ..] => Json::NotANumber(f64::NEG_INFINITY),
        [b'-' | b'0'..=b'9', ..] => Json::Number(raw),
        _ => Json::Null,
    }
}

/// The members of a validated object: key (between the quotes, escapes unresolved) and value text.
pub(super) struct Members<'a> {
    text: &'a [u8],
    at: usize,
}

/// Returns the members of a validated object's text, in order, repeated keys included.
pub(super) fn members(object: &[u8]) -> Members<'_> {
    Members { text: object, at: 1 }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let begin = next_item(self.text, self.at)?;
        let end = end_of_string(self.text, begin).ok()?;
        let key = self.text.get(begin + 1..end - 1)?;
        let value = skip_white(self.text, skip_white(self.text, end) + 1);
        self.at = end_of_value(self.text, value).ok()?;
        Some((key, self.text.get(value..self.at)?))
    }
}

/// The elements of a validated array: their texts.
pub(super) struct Elements<'a> {
    text: &'a [u8],
    at: usize,
}

/// Returns the elements of a validated array's text.
pub(super) fn elements(array: &[u8]) -> Elements<'_> {
    Elements { text: array, at: 1 }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let begin = next_item(self.text, self.at)?;
        self.at = end_of_value(self.text, begin).ok()?;
        self.text.get(begin..self.at)
    }
}

/// Returns where the next item of a container begins, `None` at its end.
fn next_item(text: &[u8], at: usize) -> Option<usize> {
    let mut at = skip_white(text, at);
    if text.get(at) == Some(&b',') {
        at = skip_white(text, at + 1);
    }
    (!matches!(text.get(at), Some(b'}' | b']') | None)).then_some(at)
}

/// Adds the text of a validated string (between its quotes) to `out`, escapes resolved.
pub(super) fn unescape_into(inner: &[u8], out: &mut Vec<u8>) -> Replaced {
    let mut replaced = Replaced::default();
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        replaced.is_utf8 |= push_utf8(plain, out);
        let mut used = 2;
        match escape.get(1) {
            Some(b'b') => out.push(0x08),
            Some(b'f') => out.push(0x0c),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'u') => {
                let (character, length) = unicode_escape(escape);
                used = length;
                replaced.is_surrogate |= character.is_none();
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some(byte) => out.push(*byte),
            None => {}
        }
        rest = escape.get(used..).unwrap_or_default();
    }
    replaced.is_utf8 |= push_utf8(rest, out);
    replaced
}

/// Returns the character of the `\u` escape (or pair of them) that `text` begins with, and its length; `None`: a lone surrogate.
pub(super) fn unicode_escape(text: &[u8]) -> (Option<char>, usize) {
    let first = hex4(text, 2).unwrap_or_default();
    if !(0xd800..0xe000).contains(&first) {
        return (char::from_u32(first as u32), 6);
    }
    if first < 0xdc00
        && text.get(6..8) == Some(b"\\u")
        && let Some(second @ 0xdc00..0xe000) = hex4(text, 8)
    {
        let code = 0x10000 + ((first as u32 - 0xd800) << 10) + (second as u32 - 0xdc00);
        return (char::from_u32(code), 12);
    }
    (None, 6)
}

/// Adds bytes that should be UTF-8; invalid sequences become U+FFFD. Tells whether there were any.
fn push_utf8(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => {
            out.extend_from_slice(text.as_bytes());
            false
        }
        Cow::Owned(text) => {
            out.extend_from_slice(text.as_bytes());
            true
        }
    }
}

/// Returns the text of a validated string (between its quotes), escapes resolved.
pub(super) fn unescape(inner: &[u8]) -> (Cow<'_, str>, Replaced) {
    if memchr::memchr(b'\\', inner).is_none() {
        let text = String::from_utf8_lossy(inner);
        let replaced = Replaced { is_utf8: matches!(text, Cow::Owned(_)), ..Replaced::default() };
        return (text, replaced);
    }
    let mut out = Vec::with_capacity(inner.len());
    let replaced = unescape_into(inner, &mut out);
    (Cow::Owned(String::from_utf8_lossy(&out).into_owned()), replaced)
}

/// Adds the compact text of a validated value to `out`: white space between tokens goes, keys keep their order and numbers their
/// digits; what JSON does not have is replaced.
pub(super) fn compact_into(raw: &[u8], out: &mut Vec<u8>) -> Replaced {
    let mut replaced = Replaced::default();
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            b'"' => {
                let end = end_of_string(raw, at).unwrap_or(raw.len());
                compact_string(raw.get(at..end).unwrap_or_default(), out, &mut replaced);
                at = end;
            }
            b'N' | b'I' => {
                out.extend_from_slice(b"null");
                replaced.is_not_a_number = true;
                at += if *byte == b'N' { 3 } else { 8 };
            }
            b'-' if raw.get(at + 1) == Some(&b'I') => {
                out.extend_from_slice(b"null");
                replaced.is_not_a_number = true;
                at += 9;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    replaced
}

/// Adds a validated string, quotes included, its escapes as they are but for lone surrogates.
fn compact_string(string: &[u8], out: &mut Vec<u8>, replaced: &mut Replaced) {
    let mut rest = string;
    let mut searched = 0;
    while let Some(at) = memchr::memchr(b'\\', rest.get(searched..).unwrap_or_default()).map(|at| at + searched) {
        let escape = rest.get(at..).unwrap_or_default();
        if escape.get(1) != Some(&b'u') {
            searched = at + 2;
            continue;
        }
        let (character, length) = unicode_escape(escape);
        searched = at + length;
        if character.is_none() {
            replaced.is_surrogate = true;
            replaced.is_utf8 |= push_utf8(rest.get(..at).unwrap_or_default(), out);
            out.extend_from_slice(b"\\ufffd");
            rest = rest.get(searched..).unwrap_or_default();
            searched = 0;
        }
    }
    replaced.is_utf8 |= push_utf8(rest, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_json(text: &str) -> bool {
        end_of_value(text.as_bytes(), 0).is_ok_and(|end| end == text.len())
    }

    #[test]
    fn bare_not_a_numbers_are_the_only_words_beyond_json() {
        for good in
            ["NaN", "Infinity", "-Infinity", "[NaN,{\"a\":-Infinity}]", "-0", "0.5e-7", "1E+9", "\"\\ud800\"", "{ \"a\" : [ ] }"]
        {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "nan",
            "-NaN",
            "+1",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\t\"",
            "{a:1}",
            "{\"a\":1,}",
            "[1,]",
            "[1 2]",
            "tru",
            "",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[test]
    fn a_hundred_thousand_levels_do_not_overflow_the_stack() {
        let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(is_json(&text));
        assert!(!is_json(&text[1..]));
    }

    #[test]
    fn compact_text_keeps_order_digits_and_escapes() {
        let mut out = Vec::new();
        let replaced = compact_into(br#"{ "b" : 1.50 , "a":[ 1e3, "x \" y \u00e9 \ud83d\ude00" ] }"#, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"b":1.50,"a":[1e3,"x \" y \u00e9 \ud83d\ude00"]}"#);
        assert!(!replaced.is_any());
    }

    #[test]
    fn compact_text_is_json_whatever_came() {
        let mut out = Vec::new();
        let replaced = compact_into(b"[NaN, -Infinity, Infinity, \"\\udc00 \\ud800\\\\ a\xff\"]", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "[null,null,null,\"\\ufffd \\ufffd\\\\ a\u{fffd}\"]");
        assert!(replaced.is_utf8 && replaced.is_surrogate && replaced.is_not_a_number);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn escapes_are_resolved_and_lone_surrogates_replaced() {
        assert_eq!(unescape(br#"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"#).0, "\"\\/\u{8}\u{c}\n\r\té😀");
        let (text, replaced) = unescape(br#"a\ud83dx\ude00\ud800\ud83d\ude00"#);
        assert_eq!(text, "a\u{fffd}x\u{fffd}\u{fffd}😀");
        assert!(replaced.is_surrogate && !replaced.is_utf8);
        let (text, replaced) = unescape(b"\xc3(\xe2\x82");
        assert_eq!(text, "\u{fffd}(\u{fffd}");
        assert!(replaced.is_utf8);
    }

    proptest! {
        #[test]
        fn accepts_what_serde_json_accepts(text in "[\\[\\]{},:\"\\\\ ntu0-9eE.+\\-afx]{0,24}") {
            let serde = serde_json::from_str::<serde::de::IgnoredAny>(text.trim_matches(' ')).is_ok();
            prop_assert_eq!(is_json(text.trim_matches(' ')), serde);
        }

        #[test]
        fn the_word_scan_equals_the_byte_scan(bytes in proptest::collection::vec(any::<u8>(), 0..40), at in 0usize..40) {
            let slow = (at..bytes.len()).find(|i| bytes[*i] < 0x20 || bytes[*i] == b'"' || bytes[*i] == b'\\').unwrap_or(bytes.len().max(at));
            prop_assert_eq!(find_special(&bytes, at), slow);
        }
    }
}
