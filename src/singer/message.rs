//! The message types, and the exact parser that takes every line that CONTRACTS allow.

use std::borrow::Cow;

use serde_json::Value;

use super::json::{JsonFault, members};

/// A Singer message. Unknown extra keys are ignored; of a key that stands twice, the last one counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// `SCHEMA`
    Schema(SchemaMessage),
    /// `RECORD`
    Record(RecordMessage<'a>),
    /// `STATE`
    State(StateMessage<'a>),
    /// `BATCH`
    Batch(BatchMessage),
    /// `ACTIVATE_VERSION`
    ActivateVersion(ActivateVersionMessage),
}

/// The schema and keys of a stream from here on.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaMessage {
    /// The stream.
    pub stream: String,
    /// The JSON Schema of its records: an object with `properties`.
    pub singer_schema: Value,
    /// Names of the key properties; empty when absent or null.
    pub key_properties: Vec<String>,
    /// Whether the tap names bookmark properties: it may send only what is new.
    pub has_bookmark: bool,
}

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordMessage<'a> {
    /// The stream.
    pub stream: Cow<'a, str>,
    /// The raw text of the record, validated JSON (bare NaN and bytes that are no UTF-8 allowed), not necessarily an object.
    pub record: &'a [u8],
    /// The text of `time_extracted`.
    pub time_extracted: Option<Cow<'a, str>>,
    /// `version`
    pub version: Option<i64>,
}

/// A position of the tap.
#[derive(Debug, Clone, PartialEq)]
pub struct StateMessage<'a> {
    /// The raw text of `value`, validated JSON.
    pub value: &'a [u8],
}

/// A list of files with records.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMessage {
    /// The stream.
    pub stream: String,
    /// The files, as the message has them.
    pub manifest: Vec<String>,
    /// The text of `time_extracted`.
    pub time_extracted: Option<String>,
    /// `version`
    pub version: Option<i64>,
}

/// The version whose rows are the stream's contents.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivateVersionMessage {
    /// The stream.
    pub stream: String,
    /// The version.
    pub version: i64,
}

/// Why a line is no message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageFault {
    /// Not JSON (the line may have been cut off).
    NotJson(JsonFault),
    /// JSON, but not what the message needs; lower case, without a full stop.
    Invalid(String),
}

/// Returns the message of `line`, all of which is validated.
///
/// **Source**: <https://hub.meltano.com/singer/spec>, BATCH and ACTIVATE_VERSION by the Meltano SDK.
pub fn parse(line: &[u8]) -> Result<Message<'_>, MessageFault> {
    let found = members(line).map_err(MessageFault::NotJson)?;
    let members = Fields(&found);
    let Some(kind) = members.raw("type") else { return invalid("the message has no `type`") };
    match text(kind).as_deref() {
        Some("RECORD") => Ok(Message::Record(RecordMessage {
            stream: members.stream("RECORD")?,
            record: members.raw("record").ok_or_else(|| MessageFault::Invalid("RECORD without `record`".into()))?,
            time_extracted: members.optional_text("time_extracted")?,
            version: members.version()?,
        })),
        Some("STATE") => match members.raw("value") {
            Some(value) => Ok(Message::State(StateMessage { value })),
            None => invalid("STATE without `value`"),
        },
        Some("SCHEMA") => schema(&members),
        Some("BATCH") => Ok(Message::Batch(BatchMessage {
            stream: members.stream("BATCH")?.into_owned(),
            manifest: members
                .json("manifest")?
                .and_then(|value| serde_json::from_value(value).ok())
                .ok_or_else(|| MessageFault::Invalid("BATCH without `manifest`, a list of files".into()))?,
            time_extracted: members.optional_text("time_extracted")?.map(Cow::into_owned),
            version: members.version()?,
        })),
        Some("ACTIVATE_VERSION") => Ok(Message::ActivateVersion(ActivateVersionMessage {
            stream: members.stream("ACTIVATE_VERSION")?.into_owned(),
            version: members.version()?.ok_or_else(|| MessageFault::Invalid("ACTIVATE_VERSION without `version`".into()))?,
        })),
        Some(other) => invalid(format!("unknown message type \"{}\"", excerpt(other))),
        None => invalid("`type` is not a string"),
    }
}

fn schema<'a>(members: &Fields<'_, 'a>) -> Result<Message<'a>, MessageFault> {
    let stream = members.stream("SCHEMA")?.into_owned();
    let singer_schema = members.json("schema")?.unwrap_or(Value::Null);
    if !singer_schema.get("properties").is_some_and(Value::is_object) {
        return invalid(format!("SCHEMA of stream `{stream}` has no `properties`"));
    }
    let key_properties = match members.json("key_properties")? {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => serde_json::from_value(value)
            .map_err(|_| MessageFault::Invalid(format!("`key_properties` of stream `{stream}` is not a list of names")))?,
    };
    let has_bookmark = match members.json("bookmark_properties")? {
        Some(Value::Array(names)) => !names.is_empty(),
        Some(Value::String(name)) => !name.is_empty(),
        _ => false,
    };
    Ok(Message::Schema(SchemaMessage { stream, singer_schema, key_properties, has_bookmark }))
}

fn invalid<T>(message: impl Into<String>) -> Result<T, MessageFault> {
    Err(MessageFault::Invalid(message.into()))
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

struct Fields<'f, 'a>(&'f [(&'a [u8], &'a [u8])]);

impl<'a> Fields<'_, 'a> {
    /// The raw value of the last member of that name.
    fn raw(&self, name: &str) -> Option<&'a [u8]> {
        let is_it = |key: &[u8]| {
            let inner = &key[1..key.len() - 1];
            inner == name.as_bytes() || (inner.contains(&b'\\') && text(key).as_deref() == Some(name))
        };
        self.0.iter().rev().find(|(key, _)| is_it(key)).map(|(_, value)| *value)
    }

    fn stream(&self, kind: &str) -> Result<Cow<'a, str>, MessageFault> {
        match self.raw("stream").map(text) {
            Some(Some(name)) => Ok(name),
            _ => invalid(format!("{kind} without `stream`, a string")),
        }
    }

    fn optional_text(&self, name: &str) -> Result<Option<Cow<'a, str>>, MessageFault> {
        match self.raw(name) {
            None | Some(b"null") => Ok(None),
            Some(raw) => text(raw).map(Some).ok_or_else(|| MessageFault::Invalid(format!("`{name}` is not a string"))),
        }
    }

    fn version(&self) -> Result<Option<i64>, MessageFault> {
        match self.raw("version") {
            None | Some(b"null") => Ok(None),
            Some(raw) => match std::str::from_utf8(raw).ok().and_then(|digits| digits.parse().ok()) {
                Some(version) => Ok(Some(version)),
                None => invalid("`version` is not an integer of 64 bits"),
            },
        }
    }

    fn json(&self, name: &str) -> Result<Option<Value>, MessageFault> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(&String::from_utf8_lossy(raw))
            .map(Some)
            .map_err(|error| MessageFault::Invalid(format!("`{name}` cannot be read: {error}")))
    }
}

/// The text of a raw JSON string; `None` when it is not a string. Lone surrogates and bytes that are no UTF-8 become U+FFFD.
fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if !inner.contains(&b'\\') {
        return Some(String::from_utf8_lossy(inner));
    }
    // serde_json reads a lone surrogate into the bytes of WTF-8 when asked for bytes; these are then replaced.
    let bytes: serde_bytes_text::Text = serde_json::from_slice(raw).ok()?;
    Some(Cow::Owned(String::from_utf8_lossy(&bytes.0).into_owned()))
}

mod serde_bytes_text {
    //! A string read as bytes, so that lone surrogates do not fail it.
    use serde::de::{Deserialize, Deserializer, Visitor};

    pub(super) struct Text(pub(super) Vec<u8>);

    impl<'de> Deserialize<'de> for Text {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Bytes;
            impl Visitor<'_> for Bytes {
                type Value = Text;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a string")
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                    Ok(Text(bytes.to_vec()))
                }
            }
            deserializer.deserialize_bytes(Bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_type_is_read() {
        let Ok(Message::Record(record)) = parse(br#"{"type":"RECORD","stream":"a","record":{"x":1.50},"version":3,"extra":[1]}"#)
        else {
            panic!("a record")
        };
        assert_eq!((record.stream.as_ref(), record.record, record.version), ("a", &br#"{"x":1.50}"#[..], Some(3)));
        let state = parse(br#"{"type":"STATE","value":{"a": 1.50}}"#);
        assert_eq!(state, Ok(Message::State(StateMessage { value: br#"{"a": 1.50}"# })));
        let schema = parse(br#"{"type":"SCHEMA","stream":"a","schema":{"properties":{}},"key_properties":null}"#);
        assert!(matches!(schema, Ok(Message::Schema(SchemaMessage { key_properties, .. })) if key_properties.is_empty()));
        let batch = parse(br#"{"type":"BATCH","stream":"a","encoding":{},"manifest":["file:///x"]}"#);
        assert!(matches!(batch, Ok(Message::Batch(BatchMessage { manifest, .. })) if manifest == ["file:///x"]));
        let activate = parse(br#"{"type":"ACTIVATE_VERSION","stream":"a","version":12}"#);
        assert!(matches!(activate, Ok(Message::ActivateVersion(ActivateVersionMessage { version: 12, .. }))));
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        let Ok(Message::Record(record)) = parse(br#"{"type":"STATE","stream":"a","ty\u0070e":"RECORD","record":1,"record":{}}"#)
        else {
            panic!("a record")
        };
        assert_eq!(record.record, b"{}");
    }

    #[test]
    fn odd_text_is_replaced_and_not_refused() {
        assert_eq!(text(br#""a\ud800b""#).as_deref(), Some("a\u{fffd}\u{fffd}\u{fffd}b"));
        assert_eq!(text(b"\"a\xffb\"").as_deref(), Some("a\u{fffd}b"));
        assert_eq!(text(br#""\ud83d\ude00""#).as_deref(), Some("\u{1f600}"));
    }

    #[test]
    fn what_a_message_needs_is_named() {
        for (line, message) in [
            (&br#"{"stream":"a"}"#[..], "the message has no `type`"),
            (br#"{"type":"NOPE"}"#, "unknown message type \"NOPE\""),
            (br#"{"type":"SCHEMA","stream":"a","schema":{}}"#, "SCHEMA of stream `a` has no `properties`"),
            (
                br#"{"type":"SCHEMA","stream":"a","schema":{"properties":{}},"key_properties":"id"}"#,
                "`key_properties` of stream `a` is not a list of names",
            ),
            (br#"{"type":"RECORD","record":{}}"#, "RECORD without `stream`, a string"),
            (br#"{"type":"RECORD","stream":"a"}"#, "RECORD without `record`"),
            (br#"{"type":"STATE"}"#, "STATE without `value`"),
            (br#"{"type":"ACTIVATE_VERSION","stream":"a"}"#, "ACTIVATE_VERSION without `version`"),
            (br#"{"type":"RECORD","stream":"a","record":{},"version":"x"}"#, "`version` is not an integer of 64 bits"),
        ] {
            assert_eq!(parse(line), Err(MessageFault::Invalid(message.into())), "{}", String::from_utf8_lossy(line));
        }
        assert!(matches!(parse(b"{\"type\":"), Err(MessageFault::NotJson(JsonFault { offset: 8, .. }))));
    }
}
