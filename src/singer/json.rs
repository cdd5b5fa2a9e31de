//! A validating scanner over JSON bytes: finds where values end and refuses what is not JSON.
//!
//! It takes what taps really send: the bare words `NaN`, `Infinity` and `-Infinity`, and bytes that are no UTF-8 inside strings (they
//! become U+FFFD where the value is read). Nesting is counted, not recursed into, so that no line can exhaust the stack.

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFault {
    /// Bytes from the start of the text.
    pub offset: usize,
    /// Lower case, without a full stop: `expected a value`.
    pub what: &'static str,
}

/// The members of an object: the raw key with its quotes, and the raw value, in order, duplicates included.
pub type Members<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Returns the members of the object that `text` is, after validating all of it.
///
/// **Errors**: the first place at which `text` is not one JSON object with nothing but white space around it.
pub fn members(text: &[u8]) -> Result<Members<'_>, JsonFault> {
    let mut found = Vec::with_capacity(8);
    let mut at = skip_space(text, 0);
    if text.get(at) != Some(&b'{') {
        return Err(JsonFault { offset: at, what: "expected `{`" });
    }
    at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return end_of_text(text, at + 1).map(|()| found);
    }
    loop {
        let key_end = string_end(text, at)?;
        let key = &text[at..key_end];
        at = skip_space(text, key_end);
        if text.get(at) != Some(&b':') {
            return Err(JsonFault { offset: at, what: "expected `:`" });
        }
        at = skip_space(text, at + 1);
        let value_end = value_end(text, at)?;
        found.push((key, &text[at..value_end]));
        at = skip_space(text, value_end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return end_of_text(text, at + 1).map(|()| found),
            _ => return Err(JsonFault { offset: at, what: "expected `,` or `}`" }),
        }
    }
}

/// Checks that `text` is one JSON value with nothing but white space around it.
pub fn validate(text: &[u8]) -> Result<(), JsonFault> {
    let end = value_end(text, skip_space(text, 0))?;
    end_of_text(text, end)
}

fn end_of_text(text: &[u8], at: usize) -> Result<(), JsonFault> {
    let at = skip_space(text, at);
    if at == text.len() { Ok(()) } else { Err(JsonFault { offset: at, what: "trailing characters" }) }
}

pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Returns the index after the value that starts at `at`.
fn value_end(text: &[u8], mut at: usize) -> Result<usize, JsonFault> {
    // One entry per open bracket: true for an object.
    let mut open: Vec<bool> = Vec::new();
    loop {
        // A value starts here.
        at = match text.get(at) {
            Some(b'"') => string_end(text, at)?,
            Some(b'{') => {
                let inside = skip_space(text, at + 1);
                if text.get(inside) == Some(&b'}') {
                    inside + 1
                } else {
                    open.push(true);
                    at = key_and_colon(text, inside)?;
                    continue;
                }
            }
            Some(b'[') => {
                let inside = skip_space(text, at + 1);
                if text.get(inside) == Some(&b']') {
                    inside + 1
                } else {
                    open.push(false);
                    at = inside;
                    continue;
                }
            }
            Some(b't') => word(text, at, b"true")?,
            Some(b'f') => word(text, at, b"false")?,
            Some(b'n') => word(text, at, b"null")?,
            Some(b'N') => word(text, at, b"NaN")?,
            Some(b'I') => word(text, at, b"Infinity")?,
            Some(b'-') if text.get(at + 1) == Some(&b'I') => word(text, at, b"-Infinity")?,
            Some(b'-' | b'0'..=b'9') => number_end(text, at)?,
            None => return Err(JsonFault { offset: at, what: "the text ends inside a value" }),
            Some(_) => return Err(JsonFault { offset: at, what: "expected a value" }),
        };
        // A value ended here: close what it ends.
        loop {
            let Some(is_object) = open.last() else { return Ok(at) };
            at = skip_space(text, at);
            match (text.get(at), is_object) {
                (Some(b','), true) => {
                    at = key_and_colon(text, skip_space(text, at + 1))?;
                    break;
                }
                (Some(b','), false) => {
                    at = skip_space(text, at + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    open.pop();
                    at += 1;
                }
                (None, _) => return Err(JsonFault { offset: at, what: "the text ends inside a value" }),
                (Some(_), true) => return Err(JsonFault { offset: at, what: "expected `,` or `}`" }),
                (Some(_), false) => return Err(JsonFault { offset: at, what: "expected `,` or `]`" }),
            }
        }
    }
}

/// Returns the index at which the member's value starts.
fn key_and_colon(text: &[u8], at: usize) -> Result<usize, JsonFault> {
    let at = skip_space(text, string_end(text, at)?);
    if text.get(at) != Some(&b':') {
        return Err(JsonFault { offset: at, what: "expected `:`" });
    }
    Ok(skip_space(text, at + 1))
}

/// Returns the index after the closing quote of the string that starts at `at`.
pub(super) fn string_end(text: &[u8], at: usize) -> Result<usize, JsonFault> {
    if text.get(at) != Some(&b'"') {
        return Err(JsonFault { offset: at, what: "expected a string" });
    }
    let mut at = at + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match text.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                Some(b'u') if text.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => at += 6,
                Some(_) => return Err(JsonFault { offset: at, what: "invalid escape" }),
                None => return Err(JsonFault { offset: at, what: "the text ends inside a string" }),
            },
            Some(0..=0x1f) => return Err(JsonFault { offset: at, what: "a control character stands unescaped in a string" }),
            Some(_) => at += 1,
            None => return Err(JsonFault { offset: at, what: "the text ends inside a string" }),
        }
    }
}

fn number_end(text: &[u8], start: usize) -> Result<usize, JsonFault> {
    let digits = |mut at: usize| {
        let from = at;
        while matches!(text.get(at), Some(b'0'..=b'9')) {
            at += 1;
        }
        if at == from { Err(JsonFault { offset: at, what: "expected a digit" }) } else { Ok(at) }
    };
    let mut at = if text.get(start) == Some(&b'-') { start + 1 } else { start };
    let is_zero_first = text.get(at) == Some(&b'0');
    let first = at;
    at = digits(at)?;
    if is_zero_first && at > first + 1 {
        return Err(JsonFault { offset: first, what: "a number starts with 0" });
    }
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(at)?;
    }
    Ok(at)
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Result<usize, JsonFault> {
    if text[at..].starts_with(word) { Ok(at + word.len()) } else { Err(JsonFault { offset: at, what: "expected a value" }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_are_found_with_their_raw_text() {
        let found = members(br#" {"a" : 1.50 , "b":{"c":[1,{"d":"}"}]},"a":NaN} "#).expect("an object");
        let shown: Vec<_> =
            found.iter().map(|(k, v)| (std::str::from_utf8(k).unwrap(), std::str::from_utf8(v).unwrap())).collect();
        assert_eq!(shown, [("\"a\"", "1.50"), ("\"b\"", r#"{"c":[1,{"d":"}"}]}"#), ("\"a\"", "NaN")]);
    }

    #[test]
    fn what_is_not_json_is_refused_where_it_stands() {
        for (text, offset) in [
            (&b"{"[..], 1),
            (b"{\"a\":}", 5),
            (b"{\"a\":01}", 5),
            (b"{\"a\":1.}", 7),
            (b"{\"a\":\"\x01\"}", 6),
            (b"{\"a\":\"\\q\"}", 6),
            (b"{\"a\":\"\\u12g4\"}", 6),
            (b"{\"a\":[1}", 7),
            (b"{\"a\":1}x", 7),
            (b"{\"a\":1,}", 7),
            (b"{\"a\":tru}", 5),
            (b"[]", 0),
        ] {
            assert_eq!(members(text).map_err(|fault| fault.offset), Err(offset), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn nesting_does_not_use_the_stack() {
        let deep = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
        assert_eq!(validate(&deep), Ok(()));
    }

    proptest! {
        #[test]
        fn accepts_exactly_what_serde_json_accepts(text in r#"[\[\]{}:, "0-9a-ctrue\\\.eE+-]{0,24}"#) {
            let ours = validate(text.as_bytes()).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }
}
