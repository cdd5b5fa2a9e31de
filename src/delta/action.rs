//! The actions of the log, as commits hold them.
//!
//! Reading ignores unknown actions and unknown fields, as the protocol asks; what is written back (the `metaData` of a table) is kept
//! word for word. Source: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions>

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::TableSchema;
use crate::{Error, Result};

/// One action of a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Who wrote the commit, and how. Its keys are free.
    CommitInfo(Map<String, Value>),
    /// What a reader and a writer have to understand.
    Protocol(Protocol),
    /// Schema, partition columns and properties, as they were read.
    MetaData(Map<String, Value>),
    /// A file that is in the table from here on.
    Add(Add),
    /// A file that is no longer in the table.
    Remove(Remove),
    /// How far an application has got.
    Txn(Txn),
    /// A named configuration.
    DomainMetadata(DomainMetadata),
}

/// `protocol`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// The lowest version of the protocol that a reader has to follow.
    pub min_reader_version: u32,
    /// The lowest version of the protocol that a writer has to follow.
    pub min_writer_version: u32,
    /// The features that a reader has to know; from reader version 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// The features that a writer has to know; from writer version 7 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

impl Protocol {
    /// Whether the feature lists name `feature`. What a legacy version implies is not listed.
    pub fn lists(&self, feature: &str) -> bool {
        let has = |list: &Option<Vec<String>>| list.iter().flatten().any(|name| name == feature);
        has(&self.reader_features) || has(&self.writer_features)
    }
}

/// `add`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Relative to the table, URI-encoded; or an absolute URI.
    pub path: String,
    /// Raw values by partition column; null is null.
    pub partition_values: Map<String, Value>,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970.
    pub modification_time: i64,
    /// Whether rows come or go with the commit.
    pub data_change: bool,
    /// Statistics as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Rows of the file that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Value>,
    /// All other fields: tags, row ids, clustering provider, unknown ones.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `remove`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// As in `add`.
    pub path: String,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// Whether rows come or go with the commit.
    #[serde(default)]
    pub data_change: bool,
    /// The deletion vector of the file that goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Remove {
    /// Returns the remove of a file that stands in the table as `add`, with all that the protocol wants to be kept of it.
    pub fn of(add: &Add) -> Self {
        let mut rest = Map::from_iter([
            ("extendedFileMetadata".to_owned(), Value::Bool(true)),
            ("partitionValues".to_owned(), Value::Object(add.partition_values.clone())),
            ("size".to_owned(), add.size.into()),
        ]);
        for key in ["tags", "baseRowId", "defaultRowCommitVersion"] {
            if let Some(value) = add.rest.get(key).filter(|value| !value.is_null()) {
                rest.insert(key.to_owned(), value.clone());
            }
        }
        let deletion_vector = add.deletion_vector.clone();
        Self { path: add.path.clone(), deletion_timestamp: None, data_change: true, deletion_vector, rest }
    }
}

/// `txn`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    /// The application.
    pub app_id: String,
    /// How far it has got.
    pub version: i64,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// `domainMetadata`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMetadata {
    /// The name.
    pub domain: String,
    /// Free text, mostly JSON.
    pub configuration: String,
    /// Whether the domain is removed.
    pub removed: bool,
}

/// Returns the actions of a commit, in order; unknown ones are left out.
///
/// # Errors
/// `Table`: a line is not a JSON object, or a known action lacks a field that the protocol demands.
pub fn parse_commit(bytes: &[u8]) -> Result<Vec<Action>> {
    const KNOWN: [&str; 7] = ["commitInfo", "protocol", "metaData", "add", "remove", "txn", "domainMetadata"];
    let mut actions = Vec::new();
    for line in lines(bytes) {
        let object: Map<String, Value> = serde_json::from_slice(line).map_err(unreadable)?;
        for (name, value) in object {
            if KNOWN.contains(&name.as_str()) && !value.is_null() {
                actions.push(serde_json::from_value(Value::Object(Map::from_iter([(name, value)]))).map_err(unreadable)?);
            }
        }
    }
    Ok(actions)
}

/// What every commit has to know of somebody else's, whatever it does.
#[derive(Debug, Default)]
pub(super) struct CommitHead {
    pub txn_id: Option<String>,
    pub in_commit_timestamp: Option<i64>,
    pub protocol: Option<Protocol>,
    pub metadata: Option<Map<String, Value>>,
    pub txns: Vec<Txn>,
    /// The configuration of the domain `delta.rowTracking`; `Some(None)` when it is removed.
    pub row_tracking: Option<Option<String>>,
}

impl CommitHead {
    /// Reads a commit of any size; of its adds and removes nothing is kept.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Line {
            #[serde(default)]
            commit_info: Option<Value>,
            #[serde(default)]
            protocol: Option<Protocol>,
            #[serde(default)]
            meta_data: Option<Map<String, Value>>,
            #[serde(default)]
            txn: Option<Txn>,
            #[serde(default)]
            domain_metadata: Option<DomainMetadata>,
        }
        let mut head = Self::default();
        for line in lines(bytes) {
            let line: Line = serde_json::from_slice(line).map_err(unreadable)?;
            if let Some(mut info) = line.commit_info {
                if let Some(Value::String(txn_id)) = info.get_mut("txnId").map(Value::take) {
                    head.txn_id = Some(txn_id);
                }
                head.in_commit_timestamp = info.get("inCommitTimestamp").and_then(Value::as_i64).or(head.in_commit_timestamp);
            }
            head.protocol = line.protocol.or(head.protocol);
            head.metadata = line.meta_data.or(head.metadata);
            head.txns.extend(line.txn);
            if let Some(domain) = line.domain_metadata.filter(|domain| domain.domain == super::row_tracking::DOMAIN) {
                head.row_tracking = Some((!domain.removed).then_some(domain.configuration));
            }
        }
        Ok(head)
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::table("a commit in the log of the table is not readable").source(error)
}

/// The `metaData` of a table: the action word for word, and what of it is used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Metadata {
    raw: Map<String, Value>,
    pub id: String,
    pub schema: Arc<TableSchema>,
    pub partition_columns: Vec<String>,
    pub properties: BTreeMap<String, String>,
}

impl Metadata {
    /// Reads the action's value.
    pub(super) fn parse(raw: Map<String, Value>) -> Result<Self> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        let lacks = |key: &str| Error::table(format!("the metaData of the table lacks `{key}`"));
        let id = text("id").ok_or_else(|| lacks("id"))?.to_owned();
        let schema = Arc::new(TableSchema::from_json(text("schemaString").ok_or_else(|| lacks("schemaString"))?)?);
        let partition_columns = raw.get("partitionColumns").and_then(Value::as_array);
        let partition_columns = partition_columns.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let properties = raw.get("configuration").and_then(Value::as_object).into_iter().flatten();
        let properties = properties.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        Ok(Self { id, schema, partition_columns, properties, raw })
    }

    /// Returns the same metaData with another schema, everything else word for word.
    pub(super) fn with_schema(&self, schema: Arc<TableSchema>) -> Self {
        let mut raw = self.raw.clone();
        raw.insert("schemaString".to_owned(), Value::String(schema.to_json()));
        Self { raw, schema, ..self.clone() }
    }

    /// Returns the same metaData with another schema and other partition columns, everything else word for word.
    pub(super) fn replaced(&self, schema: Arc<TableSchema>, partition_columns: &[String]) -> Self {
        let mut replaced = self.with_schema(schema);
        replaced.raw.insert("partitionColumns".to_owned(), partition_columns.into());
        replaced.partition_columns = partition_columns.to_vec();
        replaced
    }

    /// Returns the action's value.
    pub(super) fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_actions_and_fields_are_ignored() {
        let commit = br#"{"commitInfo":{"txnId":"t","operation":"WRITE"}}
{"telepathy":{"of":"the future"}}

{"add":{"path":"a","partitionValues":{"p":null},"size":1,"modificationTime":2,"dataChange":true,"mood":"good","tags":{"a":"b"}}}
{"txn":{"appId":"a","version":3}}
"#;
        let actions = parse_commit(commit).expect("parses");
        assert_eq!(actions.len(), 3);
        let Action::Add(add) = &actions[1] else { panic!("not an add: {actions:?}") };
        assert_eq!(add.rest["mood"], "good");
        assert_eq!(CommitHead::parse(commit).expect("parses").txn_id.as_deref(), Some("t"));
    }

    #[test]
    fn a_commit_that_is_cut_off_is_an_error() {
        assert!(CommitHead::parse(b"{\"add\":{\"path\":\"a\"").is_err());
        assert!(parse_commit(b"{\"add\":{\"path\":\"a\"}}").is_err(), "an add without size");
    }

    #[test]
    fn actions_are_written_as_they_were_read() {
        let lines = [
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}"#,
            r#"{"remove":{"path":"a","deletionTimestamp":5,"dataChange":false,"size":7,"partitionValues":{}}}"#,
            r#"{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}"#,
            r#"{"txn":{"appId":"a","version":3,"lastUpdated":4}}"#,
        ];
        for line in lines {
            let action = parse_commit(line.as_bytes()).expect("parses").remove(0);
            assert_eq!(serde_json::to_string(&action).expect("is JSON"), line);
        }
    }

    #[test]
    fn metadata_keeps_what_it_does_not_know() {
        let raw = r#"{"future":{"x":1.50},"id":"i","format":{"provider":"parquet","options":{"k":"v"}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["p"],"configuration":{"delta.appendOnly":"true"},"createdTime":null}"#;
        let metadata = Metadata::parse(serde_json::from_str(raw).expect("is JSON")).expect("parses");
        assert_eq!(metadata.partition_columns, ["p"]);
        let changed = metadata.with_schema(metadata.schema.clone());
        let schema = metadata.schema.to_json();
        assert_eq!(changed.raw()["schemaString"], schema);
        let keys: Vec<_> = changed.raw().keys().map(String::as_str).collect();
        assert_eq!(keys, ["future", "id", "format", "schemaString", "partitionColumns", "configuration", "createdTime"]);
    }
}
