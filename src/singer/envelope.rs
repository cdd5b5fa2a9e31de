//! The form that nearly all RECORD lines have, recognised without looking into the record.

/// What stands before the record of a RECORD line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead<'a> {
    /// The stream's name, free of escapes.
    pub stream: &'a [u8],
    /// Index of the record's `{`.
    pub record_at: usize,
    /// What of a tail stood before the record.
    pub tail: RecordTail<'a>,
}

/// What stands after the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordTail<'a> {
    /// The text of `time_extracted`, free of escapes.
    pub time_extracted: Option<&'a [u8]>,
    /// `version`
    pub version: Option<i64>,
}

/// Returns where the record of a RECORD line starts; `None` when anything about the line is not of the usual form: no error, [`super::parse`]
/// decides then.
pub fn record_head(line: &[u8]) -> Option<RecordHead<'_>> {
    let mut cursor = Cursor { text: line, at: 0 };
    cursor.byte(b'{')?;
    let mut is_record = false;
    let mut stream = None;
    let mut tail = RecordTail::default();
    loop {
        cursor.space();
        match cursor.plain_string()? {
            b"type" => {
                cursor.colon()?;
                if is_record || cursor.plain_string()? != b"RECORD" {
                    return None;
                }
                is_record = true;
            }
            b"stream" => {
                cursor.colon()?;
                if stream.replace(cursor.plain_string()?).is_some() {
                    return None;
                }
            }
            b"record" => {
                cursor.colon()?;
                if !is_record || line.get(cursor.at) != Some(&b'{') {
                    return None;
                }
                return Some(RecordHead { stream: stream?, record_at: cursor.at, tail });
            }
            key => cursor.tail_member(key, &mut tail)?,
        }
        cursor.space();
        cursor.byte(b',')?;
    }
}

/// Returns what follows the record, given the line from the byte after the record's `}`; `None` as for [`record_head`].
pub fn record_tail<'a>(rest: &'a [u8], head: &RecordTail<'a>) -> Option<RecordTail<'a>> {
    let mut tail = *head;
    if rest == b"}" {
        return Some(tail);
    }
    let mut cursor = Cursor { text: rest, at: 0 };
    loop {
        cursor.space();
        match cursor.next()? {
            b'}' if cursor.at == rest.len() => return Some(tail),
            b',' => {}
            _ => return None,
        }
        cursor.space();
        let key = cursor.plain_string()?;
        cursor.tail_member(key, &mut tail)?;
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    fn space(&mut self) {
        self.at = super::json::skip_space(self.text, self.at);
    }

    fn colon(&mut self) -> Option<()> {
        self.space();
        self.byte(b':')?;
        self.space();
        Some(())
    }

    /// A string without escapes and control characters.
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => return Some(&self.text[start..self.at - 1]),
                b'\\' | 0..=0x1f => return None,
                _ => {}
            }
        }
    }

    fn tail_member(&mut self, key: &[u8], tail: &mut RecordTail<'a>) -> Option<()> {
        self.colon()?;
        match key {
            b"time_extracted" if tail.time_extracted.is_none() => {
                if self.text[self.at..].starts_with(b"null") {
                    self.at += 4;
                } else {
                    tail.time_extracted = Some(self.plain_string()?);
                }
                Some(())
            }
            b"version" if tail.version.is_none() => {
                if self.text[self.at..].starts_with(b"null") {
                    self.at += 4;
                    return Some(());
                }
                let start = self.at;
                while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                    self.at += 1;
                }
                let digits = std::str::from_utf8(&self.text[start..self.at]).ok()?;
                if digits.len() > 1 && digits.starts_with('0') {
                    return None;
                }
                tail.version = Some(digits.parse().ok()?);
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_record_lines_are_recognised() {
        let line = br#"{"type": "RECORD", "stream": "orders", "record": {"id":1}, "version": 17, "time_extracted": "2024-01-01T00:00:00Z"}"#;
        let head = record_head(line).expect("usual form");
        assert_eq!((head.stream, &line[head.record_at..head.record_at + 8]), (&b"orders"[..], &br#"{"id":1}"#[..]));
        let tail = record_tail(&line[head.record_at + 8..], &head.tail).expect("usual form");
        assert_eq!((tail.version, tail.time_extracted), (Some(17), Some(&b"2024-01-01T00:00:00Z"[..])));
        let short = br#"{"type":"RECORD","version":null,"stream":"a","record":{}}"#;
        let head = record_head(short).expect("usual form");
        assert_eq!(record_tail(&short[head.record_at + 2..], &head.tail), Some(RecordTail::default()));
    }

    #[test]
    fn whatever_is_unusual_is_left_to_the_exact_parser() {
        for line in [
            &br#"{"type":"STATE","value":{}}"#[..],
            br#"{"stream":"a","record":{},"type":"RECORD"}"#,
            br#"{"type":"RECORD","stream":"a\u0062","record":{}}"#,
            br#"{"type":"RECORD","stream":"a","stream":"b","record":{}}"#,
            br#"{"type":"RECORD","stream":"a","record":[]}"#,
            br#"{"type":"RECORD","stream":"a","extra":1,"record":{}}"#,
            br#"{"type":"RECORD"}"#,
            b"",
        ] {
            assert_eq!(record_head(line), None, "{}", String::from_utf8_lossy(line));
        }
        for rest in [
            &br#",}"#[..],
            b"} ",
            b"",
            br#","version":1.5}"#,
            br#","version":01}"#,
            br#","version":1,"version":2}"#,
            br#","x":1}"#,
        ] {
            assert_eq!(record_tail(rest, &RecordTail::default()), None, "{}", String::from_utf8_lossy(rest));
        }
    }
}
