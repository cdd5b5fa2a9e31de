//! What other writers' commits mean for an append: the conflict rules.
//!
//! | winner | then |
//! |---|---|
//! | adds, removes, anything else | no conflict |
//! | protocol or metaData | write rules checked again; another id or other partition columns: conflict; another schema: ours merged onto it |
//! | version 0 while we create | the table exists: as above, and never a second protocol |
//!
//! Every winner is taken in before the next attempt, so that an attempt always follows the rules of the version before it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::schema::{self, DataType, Field, TableSchema};
use crate::seam::fail_point;
use crate::store::{Entry, Publication, Step};
use crate::{Error, Result};

use super::action::{CommitHead, Metadata, Protocol};
use super::table::{Append, Place, State};
use super::{Version, commit, feature, open, property};

/// One append on its way into the log.
pub(super) struct AppendPublication<'a> {
    place: Place,
    append: &'a Append,
    /// The add actions, encoded.
    files: Vec<u8>,
    txn_id: String,
    /// The schema that our additions were made on; empty for a new table.
    base: Arc<TableSchema>,
    /// The schema that we want: base with additions. It may lack columns of base that an earlier append took over from others.
    ours: Arc<TableSchema>,
    /// The version before the next attempt; `None` while there is no table.
    state: Option<State>,
    /// What the commit has to carry, given `state`.
    change: Change,
    /// The length of the newest attempt.
    attempt_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct Change {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
}

impl<'a> AppendPublication<'a> {
    pub(super) fn new(place: Place, state: Option<State>, append: &'a Append) -> Result<Self> {
        let base = state.as_ref().map_or_else(Default::default, |state| state.metadata.schema.clone());
        let ours = match (&append.schema, &state) {
            (Some(schema), _) => schema.clone(),
            (None, Some(_)) => base.clone(),
            (None, None) => return Err(Error::internal("a new table needs a schema")),
        };
        let files = commit::encode_files(&append.files)?;
        let txn_id = place.seam.uuid().to_string();
        let mut publication =
            Self { place, append, files, txn_id, base, ours, state, change: Change::default(), attempt_bytes: None };
        publication.change = match &publication.state {
            None => publication.create()?,
            Some(state) => publication.adapt(state)?,
        };
        Ok(publication)
    }

    /// Whether the table has all of it already: no files, no change.
    pub(super) fn is_empty(&self) -> bool {
        self.state.is_some() && self.append.files.is_empty() && self.change.metadata.is_none()
    }

    pub(super) fn txn_id(&self) -> &str {
        &self.txn_id
    }

    /// Returns what is known of the version that the append has become.
    pub(super) fn into_state(self, version: Version) -> Result<State> {
        let (protocol, metadata, since) = match self.state {
            Some(state) => (Some(state.protocol), Some(state.metadata), state.metadata_since),
            None => (None, None, None),
        };
        let metadata_since = if self.change.metadata.is_some() { None } else { since };
        match (self.change.protocol.or(protocol), self.change.metadata.or(metadata)) {
            (Some(protocol), Some(metadata)) => {
                Ok(State { version, protocol, metadata, metadata_since, commit_bytes: self.attempt_bytes })
            }
            _ => Err(Error::internal("a commit was made without protocol and metaData")),
        }
    }

    /// Makes protocol and metaData of a new table.
    fn create(&self) -> Result<Change> {
        let new_table = &self.append.new_table;
        check_partition_columns(&self.ours, &new_table.partition_columns)?;
        let properties = property::of_new_table(&new_table.properties)?;
        let protocol = feature::protocol_of_new_table(&self.ours, &properties.features);
        let (id, now_us) = (self.place.seam.uuid().to_string(), self.place.seam.now_us());
        let metadata = commit::new_metadata(&id, now_us, &self.ours, new_table, &properties.configuration)?;
        feature::check_writable(&protocol, &metadata)?;
        self.check_files(&metadata.schema, &metadata.partition_columns, None)?;
        Ok(Change { protocol: Some(protocol), metadata: Some(metadata) })
    }

    /// Works out the metaData that the commit has to carry on top of `state`, and whether the files fit.
    fn adapt(&self, state: &State) -> Result<Change> {
        let theirs = &state.metadata.schema;
        let wanted = if self.ours == *theirs || self.ours == self.base {
            theirs.clone()
        } else {
            let is_foreign = *theirs != self.base;
            let merged = schema::merge(&self.ours, &self.base, theirs);
            Arc::new(merged.map_err(|error| if is_foreign { changed_schema(state.version, error) } else { error })?)
        };
        self.check_files(&wanted, &state.metadata.partition_columns, Some(state.version))?;
        if wanted == *theirs {
            return Ok(Change::default());
        }
        if let Some(why) = misfit(&theirs.fields, &wanted.fields, "") {
            return Err(Error::internal(format!("the new schema does not hold the files of the table: {why}")));
        }
        let metadata = state.metadata.with_schema(wanted);
        feature::check_writable(&state.protocol, &metadata)?;
        Ok(Change { protocol: None, metadata: Some(metadata) })
    }

    /// Checks that each uploaded file follows `schema`: columns of the same names have the same types, and what a file lacks may
    /// be null; and that it is partitioned as the table is.
    fn check_files(&self, schema: &TableSchema, partition_columns: &[String], version: Option<Version>) -> Result<()> {
        let mut seen: Option<&Arc<TableSchema>> = None;
        for file in &self.append.files {
            if !file.partition_values.iter().map(|(name, _)| name).eq(partition_columns) {
                return Err(Error::internal(format!("the file {} is not partitioned as its table is", file.path)));
            }
            // Files of a commit mostly share one schema; comparing pointers saves comparing columns.
            if seen.is_some_and(|seen| Arc::ptr_eq(seen, &file.schema)) {
                continue;
            }
            if let Some(why) = misfit(&file.schema.fields, &schema.fields, "") {
                return Err(match version {
                    Some(version) => Error::conflict(format!(
                        "another writer changed the schema of the table: {why} in version {version} (files: {}; table: {})",
                        short(&file.schema),
                        short(schema)
                    ))
                    .hint("run the load again: it then follows the table as it is"),
                    None => Error::internal(format!("a file does not follow the schema of its table: {why}")),
                });
            }
            seen = Some(&file.schema);
        }
        Ok(())
    }

    /// Takes in a new version of protocol or metaData.
    fn follow(&mut self, state: State) -> Result<()> {
        if let Some(known) = &self.state
            && known.metadata.id != state.metadata.id
        {
            return Err(Error::conflict(format!(
                "the table was replaced: version {} has the id {}, the one that was opened has {}",
                state.version, state.metadata.id, known.metadata.id
            ))
            .hint("run the load again: it then writes to the new table"));
        }
        feature::check_writable(&state.protocol, &state.metadata)?;
        let expected = match &self.state {
            Some(known) => &known.metadata.partition_columns,
            None => &self.append.new_table.partition_columns,
        };
        if state.metadata.partition_columns != *expected {
            return Err(Error::conflict(format!(
                "another writer partitioned the table by {}, the files are partitioned by {}",
                names(&state.metadata.partition_columns),
                names(expected)
            ))
            .hint("run the load again: it then follows the table as it is"));
        }
        self.change = self.adapt(&state)?;
        self.state = Some(state);
        Ok(())
    }
}

#[async_trait]
impl Publication for AppendPublication<'_> {
    async fn bytes(&mut self, number: u64) -> Result<Bytes> {
        if let Some(state) = &self.state
            && state.version + 1 != number
        {
            return Err(Error::internal(format!("version {number} was tried on top of version {}", state.version)));
        }
        if self.state.is_none() && number != 0 {
            return Err(Error::internal(format!("version {number} was tried on a table that does not exist")));
        }
        let known = self.state.as_ref().map(|state| &state.metadata);
        let metadata = self.change.metadata.as_ref().or(known);
        let info = commit::Info {
            version: number,
            now_us: self.place.seam.now_us(),
            txn_id: &self.txn_id,
            is_new_table: self.state.is_none(),
            partition_columns: metadata.map_or(&[], |metadata| &metadata.partition_columns),
            isolation_level: metadata.and_then(|metadata| metadata.properties.get("delta.isolationLevel")).map(String::as_str),
            new_table: &self.append.new_table,
            files: &self.append.files,
            provenance: &self.append.provenance,
        };
        let bytes = commit::encode(&info, self.change.protocol.as_ref(), self.change.metadata.as_ref(), &self.files)?;
        self.attempt_bytes = u64::try_from(bytes.len()).ok();
        Ok(bytes)
    }

    async fn lost(&mut self, number: u64, winner: Bytes) -> Result<Step> {
        let head = CommitHead::parse(&winner).map_err(|error| error.at_version(number))?;
        if head.txn_id.as_deref() == Some(&self.txn_id) {
            return Ok(Step::AlreadyOurs);
        }
        if fail_point("commit:lost") {
            return Err(Error::unavailable("a test asked for a failure after a lost attempt"));
        }
        let commit_bytes = u64::try_from(winner.len()).ok();
        let metadata = head.metadata.map(Metadata::parse).transpose().map_err(|error| error.at_version(number))?;
        match (&mut self.state, head.protocol, metadata) {
            (Some(state), None, None) => (state.version, state.commit_bytes) = (number, commit_bytes),
            (Some(known), protocol, metadata) => {
                let metadata_since = if metadata.is_some() { None } else { known.metadata_since };
                let state = State {
                    version: number,
                    protocol: protocol.unwrap_or_else(|| known.protocol.clone()),
                    metadata: metadata.unwrap_or_else(|| known.metadata.clone()),
                    metadata_since,
                    commit_bytes,
                };
                self.follow(state).map_err(|error| error.at_version(number))?;
            }
            (None, Some(protocol), Some(metadata)) => {
                let state = State { version: number, protocol, metadata, metadata_since: None, commit_bytes };
                self.follow(state).map_err(|error| error.at_version(number))?;
            }
            (None, ..) => {
                let message = "the first version of the table has no protocol or no metaData";
                return Err(Error::table(message).at_version(number));
            }
        }
        Ok(Step::GoOn)
    }

    async fn replaced(&mut self, number: u64) -> Result<u64> {
        let Some(mut state) = open::load(&self.place).await? else {
            return Err(Error::conflict(format!("the table was dropped: version {} is gone", number.saturating_sub(1)))
                .hint("run the load again: it then creates the table"));
        };
        let next = state.version + 1;
        if self.ours != self.base {
            open::complete_metadata(&self.place, &mut state).await?;
        }
        self.follow(state)?;
        Ok(next)
    }

    fn is_built_on(&self, _number: u64, predecessor: &Entry) -> bool {
        let expected = self.state.as_ref().and_then(|state| state.commit_bytes);
        expected.is_none_or(|bytes| bytes == predecessor.size)
    }
}

fn changed_schema(version: Version, cause: Error) -> Error {
    let field = cause.field().map(|field| format!("column `{field}` ")).unwrap_or_default();
    Error::conflict(format!("another writer changed the schema of the table in version {version}: {field}{}", cause.message()))
        .hint("run the load again: it then follows the table as it is")
}

fn check_partition_columns(schema: &TableSchema, partition_columns: &[String]) -> Result<()> {
    if schema.fields.is_empty() {
        return Err(Error::schema("a table needs at least one column"));
    }
    for (index, name) in partition_columns.iter().enumerate() {
        let Some(field) = schema.fields.iter().find(|field| field.name == *name) else {
            return Err(Error::schema(format!("the partition column `{name}` is not a column of the table")));
        };
        if matches!(field.data_type, DataType::Struct(_) | DataType::Array { .. } | DataType::Map { .. } | DataType::Other(_)) {
            return Err(Error::schema(format!(
                "the partition column `{name}` is nested; a table is partitioned by plain columns"
            )));
        }
        if partition_columns[..index].contains(name) {
            return Err(Error::schema(format!("the partition column `{name}` is named twice")));
        }
    }
    if partition_columns.len() == schema.fields.len() {
        return Err(Error::schema("all columns are partition columns; at least one has to stay in the files")
            .hint("leave a column out of `partition_by`"));
    }
    Ok(())
}

/// Returns why data written under `file` cannot be read under `table`, if so.
fn misfit(file: &[Field], table: &[Field], above: &str) -> Option<String> {
    for field in file {
        let path = if above.is_empty() { field.name.clone() } else { format!("{above}.{}", field.name) };
        let Some(other) = table.iter().find(|other| other.name == field.name) else {
            return Some(format!("column `{path}` of the files is missing"));
        };
        if field.nullable && !other.nullable {
            return Some(format!("column `{path}` of the files allows null, which is refused"));
        }
        if let Some(why) = misfit_type(&field.data_type, &other.data_type, &path) {
            return Some(why);
        }
    }
    let mut required = table.iter().filter(|other| !other.nullable);
    let lacking = required.find(|other| !file.iter().any(|field| field.name == other.name))?;
    let path = if above.is_empty() { lacking.name.clone() } else { format!("{above}.{}", lacking.name) };
    Some(format!("column `{path}`, which refuses null, is not in the files, but is required"))
}

fn misfit_type(file: &DataType, table: &DataType, path: &str) -> Option<String> {
    match (file, table) {
        (DataType::Struct(file), DataType::Struct(table)) => misfit(file, table, path),
        (DataType::Array { element: file, contains_null: has }, DataType::Array { element: table, contains_null: may }) => {
            misfit_type(file, table, &format!("{path}.element")).or_else(|| refuses_null(*has, *may, path))
        }
        (
            DataType::Map { key: file_key, value: file, value_contains_null: has },
            DataType::Map { key, value, value_contains_null: may },
        ) => misfit_type(file_key, key, &format!("{path}.key"))
            .or_else(|| misfit_type(file, value, &format!("{path}.value")))
            .or_else(|| refuses_null(*has, *may, path)),
        (file, table) if file == table => None,
        (file, table) => Some(format!("column `{path}` of the files is {}, but is {}", type_name(file), type_name(table))),
    }
}

fn refuses_null(has: bool, may: bool, path: &str) -> Option<String> {
    (has && !may).then(|| format!("column `{path}` of the files allows null inside, which is refused"))
}

/// The longest schema that a message shows.
const SHORT: usize = 400;

/// Returns the schema for a message, cut if it is long.
fn short(schema: &TableSchema) -> String {
    let columns: Vec<String> =
        schema.fields.iter().map(|field| format!("{} {}", field.name, type_name(&field.data_type))).collect();
    let text = columns.join(", ");
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Byte => "byte".to_owned(),
        DataType::Short => "short".to_owned(),
        DataType::Integer => "integer".to_owned(),
        DataType::Long => "long".to_owned(),
        DataType::Float => "float".to_owned(),
        DataType::Double => "double".to_owned(),
        DataType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        DataType::String => "string".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::Date => "date".to_owned(),
        DataType::Timestamp => "timestamp".to_owned(),
        DataType::TimestampNtz => "timestamp_ntz".to_owned(),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name, type_name(&field.data_type))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Array { element, .. } => format!("array<{}>", type_name(element)),
        DataType::Map { key, value, .. } => format!("map<{}, {}>", type_name(key), type_name(value)),
        DataType::Other(name) => name.as_str().map_or_else(|| name.to_string(), str::to_owned),
    }
}

fn names(columns: &[String]) -> String {
    match columns {
        [] => "no column".to_owned(),
        columns => columns.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}
