//! Records set aside: `<root>/_rejects/<stream>/<run>-<n>.jsonl.gz`, one JSON object per record.

use std::io::Write;

use bytes::Bytes;

use super::encoder::StateCount;
use crate::error::{Error, InputLine, Result};
use crate::schema::stream_directory;

/// The rejects of one stream that are not durable yet.
#[derive(Debug, Default)]
pub(super) struct Rejects {
    /// With the STATE messages before each.
    waiting: Vec<(StateCount, Vec<u8>)>,
    bytes: usize,
    files: u64,
    /// All of this run.
    pub count: u64,
}

impl Rejects {
    /// Sets `record` of the input line aside, with its place in the file that the line names, if it names one. What is no strict JSON (a bare NaN, bytes that are no UTF-8) is kept as text.
    pub(super) fn add(
        &mut self,
        stream: &str,
        (line, place): (InputLine, Option<&str>),
        error: &Error,
        record: &[u8],
        states: StateCount,
    ) -> Result<()> {
        let record = match serde_json::from_slice::<&serde_json::value::RawValue>(record) {
            Ok(_) => serde_json::value::RawValue::from_string(String::from_utf8_lossy(record).into_owned()),
            Err(_) => serde_json::value::to_raw_value(&String::from_utf8_lossy(record)),
        };
        let encoded = record.and_then(|record| {
            let reject = Reject { stream, line: line.0, place, field: error.field(), reason: error.message(), record };
            serde_json::to_vec(&reject)
        });
        let mut encoded = encoded.map_err(|error| Error::internal("a rejected record cannot be encoded").source(error))?;
        encoded.push(b'\n');
        self.bytes += encoded.len();
        self.waiting.push((states, encoded));
        self.count += 1;
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the rejects before STATE number `before` (`None`: all) as a file: its path below the root and its bytes.
    pub(super) fn take(&mut self, stream: &str, run_id: &str, before: Option<StateCount>) -> Result<Option<(String, Bytes)>> {
        let end = before.map_or(self.waiting.len(), |before| self.waiting.partition_point(|(states, _)| *states < before));
        if end == 0 {
            return Ok(None);
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        for (_, line) in self.waiting.drain(..end) {
            self.bytes -= line.len();
            gzip.write_all(&line).map_err(|error| Error::internal("rejected records cannot be compressed").source(error))?;
        }
        let bytes = gzip.finish().map_err(|error| Error::internal("rejected records cannot be compressed").source(error))?;
        self.files += 1;
        let path = format!("_rejects/{}/{run_id}-{}.jsonl.gz", stream_directory(stream), self.files);
        Ok(Some((path, bytes.into())))
    }
}

#[derive(serde::Serialize)]
struct Reject<'a> {
    stream: &'a str,
    line: u64,
    /// Only for a record of a BATCH file.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    field: Option<&'a str>,
    reason: &'a str,
    record: Box<serde_json::value::RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn rejects_before_a_state_leave_and_later_ones_stay() {
        let mut rejects = Rejects::default();
        let error = Error::input("is \"x\", which is not a long").in_field("id");
        rejects.add("a:b", (InputLine(3), None), &error, br#"{"id": "x", "n": 1.50}"#, 0).unwrap();
        rejects.add("a:b", (InputLine(5), Some("row 2 of `/b`")), &error, b"{\"id\":NaN}", 1).unwrap();
        let (path, bytes) = rejects.take("a:b", "run", Some(1)).unwrap().expect("one");
        assert!(path.starts_with("_rejects/") && path.ends_with("/run-1.jsonl.gz") && !path.contains(':'), "{path}");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            "{\"stream\":\"a:b\",\"line\":3,\"field\":\"id\",\"reason\":\"is \\\"x\\\", which is not a long\",\"record\":{\"id\": \"x\", \"n\": 1.50}}\n"
        );
        assert!(rejects.take("a:b", "run", Some(1)).unwrap().is_none());
        let (_, bytes) = rejects.take("a:b", "run", None).unwrap().expect("one");
        text.clear();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("{\"stream\":\"a:b\",\"line\":5,\"place\":\"row 2 of `/b`\",\"field\":\"id\","), "{text}");
        assert_eq!((rejects.bytes(), rejects.count), (0, 2));
    }
}
