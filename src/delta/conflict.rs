//! What other writers' commits mean for ours: the conflict rules.
//!
//! | winner | then |
//! |---|---|
//! | adds, removes | the [`Planner`] says whether its plan still holds; an append's always does |
//! | protocol or metaData | write rules checked again; another id or other partition columns: conflict; another schema: ours merged onto it |
//! | a `txn` that is ours, or later | done already |
//! | version 0 while we create | the table exists: as above, and never a second protocol |
//! | anything else | no conflict |
//!
//! Every winner is taken in before the next attempt, so that an attempt always follows the rules of the version before it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::schema::{self, DataType, TableSchema};
use crate::seam::fail_point;
use crate::store::{Entry, Publication, Step};
use crate::{Error, Result};

use super::action::{CommitHead, Metadata, Protocol};
use super::misfit::{misfit, misfit_of_file, short};
use super::plan::{Base, Planned, Planner, Verdict, Winner};
use super::row_tracking::{self, RowIds};
use super::table::{Commit, Place, State, append_only};
use super::{AddFile, Version, commit, feature, open, property};

/// One commit on its way into the log.
pub(super) struct TablePublication<'a> {
    place: Place,
    commit: &'a Commit,
    planner: &'a mut dyn Planner,
    txn_id: String,
    /// The schema that our additions were made on; empty for a new table.
    base: Arc<TableSchema>,
    /// The schema that we want: base with additions. It may lack columns of base that an earlier commit took over from others.
    ours: Arc<TableSchema>,
    /// The version before the next attempt; `None` while there is no table.
    state: Option<State>,
    /// What the commit has to carry, given `state`.
    change: Change,
    /// What it does to the files, given `state`; `None` while that has to be planned (anew).
    planned: Option<Planned>,
    /// The lines of the planned files, where they are the same for every attempt.
    lines: Option<Vec<u8>>,
    /// What the newest attempt holds.
    attempt: Attempt,
    /// Why the commit ended without a version of its own.
    ended: Option<Ended>,
}

/// Why nothing is left to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The log holds our `txn` at this version, which is ours or a later one.
    DoneBefore(i64),
    /// What was planned is no longer wanted after what others committed.
    NothingLeft,
}

#[derive(Debug, Default)]
struct Change {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
}

/// What an attempt leaves behind in the log, if it becomes a version.
#[derive(Debug, Default, Clone, Copy)]
struct Attempt {
    bytes: Option<u64>,
    in_commit_timestamp: Option<i64>,
    row_id_high_water_mark: Option<i64>,
}

impl<'a> TablePublication<'a> {
    pub(super) fn new(place: Place, state: Option<State>, commit: &'a Commit, planner: &'a mut dyn Planner) -> Result<Self> {
        let base = state.as_ref().map_or_else(Default::default, |state| state.metadata.schema.clone());
        let ours = match (&commit.schema, &state) {
            (Some(schema), _) => schema.clone(),
            (None, Some(_)) => base.clone(),
            (None, None) => return Err(Error::internal("a new table needs a schema")),
        };
        let txn_id = place.seam.uuid().to_string();
        let mut publication = Self {
            place,
            commit,
            planner,
            txn_id,
            base,
            ours,
            state,
            change: Change::default(),
            planned: None,
            lines: None,
            attempt: Attempt::default(),
            ended: None,
        };
        publication.change = match &publication.state {
            None => publication.create()?,
            Some(state) => publication.adapt(state)?,
        };
        Ok(publication)
    }

    pub(super) fn txn_id(&self) -> &str {
        &self.txn_id
    }

    /// Returns why the commit ended without a version of its own, if it did. The error that ended the loop means nothing then.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Returns the newest version that was taken in.
    pub(super) fn into_known(self) -> Option<State> {
        self.state
    }

    /// Returns rows and bytes of the new files.
    pub(super) fn figures(&self) -> (u64, u64) {
        let files = self.planned.as_ref().map(|planned| &planned.files[..]).unwrap_or_default();
        (files.iter().map(|file| file.rows).sum(), files.iter().map(|file| file.size).sum())
    }

    /// Whether the table has all of it already: no files, no change, no `txn`.
    pub(super) fn is_empty(&self) -> bool {
        let is_planned_empty = self.planned.as_ref().is_none_or(Planned::is_empty);
        self.state.is_some() && is_planned_empty && self.change.metadata.is_none() && self.commit.txn.is_none()
    }

    /// Returns what is known of the version that the commit has become.
    pub(super) fn into_state(self, version: Version) -> Result<State> {
        let (protocol, metadata, since) = match self.state {
            Some(state) => (Some(state.protocol), Some(state.metadata), state.metadata_since),
            None => (None, None, None),
        };
        let metadata_since = if self.change.metadata.is_some() { None } else { since };
        let (Some(protocol), Some(metadata)) = (self.change.protocol.or(protocol), self.change.metadata.or(metadata)) else {
            return Err(Error::internal("a commit was made without protocol and metaData"));
        };
        let Attempt { bytes, in_commit_timestamp, row_id_high_water_mark } = self.attempt;
        Ok(State {
            version,
            protocol,
            metadata,
            metadata_since,
            commit_bytes: bytes,
            in_commit_timestamp,
            row_id_high_water_mark,
        })
    }

    /// Plans the files on top of the newest known version, unless the last plan still holds.
    ///
    /// # Errors
    /// Those of the planner; `Conflict` and `Table` when the files may not come or go there.
    pub(super) async fn plan(&mut self) -> Result<()> {
        if self.planned.is_some() {
            return Ok(());
        }
        let version = self.state.as_ref().map(|state| state.version);
        let planned = self.plan_on(version).await.map_err(|error| match version {
            Some(version) => error.at_version(version),
            None => error,
        })?;
        self.lines = None;
        self.planned = Some(planned);
        Ok(())
    }

    async fn plan_on(&mut self, version: Option<Version>) -> Result<Planned> {
        let known = self.state.as_ref().map(|state| &state.metadata);
        let metadata = self.change.metadata.as_ref().or(known).ok_or_else(|| Error::internal("a commit has no metaData"))?;
        let base = Base {
            version,
            schema: &metadata.schema,
            partition_columns: &metadata.partition_columns,
            properties: &metadata.properties,
        };
        let planned = self.planner.plan(&base).await?;
        check_files(&planned.files, metadata, version)?;
        let takes_rows = !planned.is_rearrangement && (!planned.removes.is_empty() || !planned.re_adds.is_empty());
        if takes_rows && property::is_true(&metadata.properties, "delta.appendOnly") {
            return Err(append_only());
        }
        Ok(planned)
    }

    /// Makes protocol and metaData of a new table.
    fn create(&self) -> Result<Change> {
        let new_table = &self.commit.new_table;
        check_partition_columns(&self.ours, &new_table.partition_columns)?;
        let mut properties = property::of_new_table(&new_table.properties)?;
        if property::is_true(&properties.configuration, "delta.enableRowTracking") {
            // Columns that hold the ids of rows which are moved; nobody else's column has such a name.
            for (key, name) in
                [("materializedRowIdColumnName", "row-id"), ("materializedRowCommitVersionColumnName", "row-commit-version")]
            {
                let column = format!("_{name}-col-{}", self.place.seam.uuid());
                properties.configuration.insert(format!("delta.rowTracking.{key}"), column);
            }
        }
        let protocol = feature::protocol_of_new_table(&self.ours, &properties.features);
        let (id, now_us) = (self.place.seam.uuid().to_string(), self.place.seam.now_us());
        let metadata = commit::new_metadata(&id, now_us, &self.ours, new_table, &properties.configuration)?;
        feature::check_writable(&protocol, &metadata)?;
        Ok(Change { protocol: Some(protocol), metadata: Some(metadata) })
    }

    /// Works out the metaData that the commit has to carry on top of `state`.
    fn adapt(&self, state: &State) -> Result<Change> {
        let theirs = &state.metadata.schema;
        if self.commit.replaces_schema {
            let columns = &self.commit.new_table.partition_columns;
            if self.ours == *theirs && *columns == state.metadata.partition_columns {
                return Ok(Change::default());
            }
            check_partition_columns(&self.ours, columns)?;
            let metadata = state.metadata.replaced(self.ours.clone(), columns);
            feature::check_writable(&state.protocol, &metadata)?;
            return Ok(Change { protocol: None, metadata: Some(metadata) });
        }
        let wanted = if self.ours == *theirs || self.ours == self.base {
            theirs.clone()
        } else {
            let is_foreign = *theirs != self.base;
            let merged = schema::merge(&self.ours, &self.base, theirs);
            Arc::new(merged.map_err(|error| if is_foreign { self.changed_schema(state, &error) } else { error })?)
        };
        if wanted == *theirs {
            return Ok(Change::default());
        }
        if let Some(why) = misfit(theirs, &wanted) {
            return Err(Error::internal(format!("the new schema does not hold the files of the table: {why}")));
        }
        let metadata = state.metadata.with_schema(wanted);
        feature::check_writable(&state.protocol, &metadata)?;
        Ok(Change { protocol: None, metadata: Some(metadata) })
    }

    /// Names what cannot be brought together, and both schemas.
    fn changed_schema(&self, state: &State, cause: &Error) -> Error {
        let field = cause.field().map(|field| format!("column `{field}` ")).unwrap_or_default();
        Error::conflict(format!(
            "another writer changed the schema of the table in version {}: {field}{} (files: {}; table: {})",
            state.version,
            cause.message(),
            short(&self.ours),
            short(&state.metadata.schema)
        ))
        .hint("run the load again: it then follows the table as it is")
    }

    /// Takes in a new version of protocol or metaData.
    fn follow(&mut self, state: State) -> Result<()> {
        feature::check_writable(&state.protocol, &state.metadata)?;
        let expected = match &self.state {
            Some(known) => &known.metadata.partition_columns,
            None => &self.commit.new_table.partition_columns,
        };
        if !self.commit.replaces_schema && state.metadata.partition_columns != *expected {
            return Err(Error::conflict(format!(
                "another writer partitioned the table by {}, the files are partitioned by {}",
                names(&state.metadata.partition_columns),
                names(expected)
            ))
            .hint("run the load again: it then follows the table as it is"));
        }
        self.change = self.adapt(&state)?;
        self.planned = None;
        self.state = Some(state);
        Ok(())
    }

    fn check_same_table(&self, state: &State) -> Result<()> {
        match &self.state {
            Some(known) if known.metadata.id != state.metadata.id => Err(Error::conflict(format!(
                "the table was replaced: version {} has the id {}, the one that was opened has {}",
                state.version, state.metadata.id, known.metadata.id
            ))
            .hint("run the load again: it then writes to the new table")),
            _ => Ok(()),
        }
    }

    /// Returns what is known after another writer's commit.
    fn after(&self, number: Version, bytes: u64, head: CommitHead) -> Result<State> {
        let metadata = head.metadata.map(Metadata::parse).transpose()?;
        let row_tracking = match head.row_tracking {
            Some(Some(configuration)) => Some(Some(row_tracking::parse_mark(&configuration)?)),
            Some(None) => Some(None),
            None => None,
        };
        let (known_mark, metadata_since) = match &self.state {
            Some(known) => (known.row_id_high_water_mark, if metadata.is_some() { None } else { known.metadata_since }),
            None => (None, None),
        };
        let known = self.state.as_ref();
        let protocol = head.protocol.or_else(|| known.map(|known| known.protocol.clone()));
        let metadata = metadata.or_else(|| known.map(|known| known.metadata.clone()));
        let (Some(protocol), Some(metadata)) = (protocol, metadata) else {
            return Err(Error::table("the first version of the table has no protocol or no metaData"));
        };
        if property::has_in_commit_timestamps(&protocol, &metadata) && head.in_commit_timestamp.is_none() {
            return Err(Error::table("a commit of another writer lacks the `inCommitTimestamp` that the table asks for"));
        }
        Ok(State {
            version: number,
            protocol,
            metadata,
            metadata_since,
            commit_bytes: Some(bytes),
            in_commit_timestamp: head.in_commit_timestamp,
            row_id_high_water_mark: row_tracking.unwrap_or(known_mark),
        })
    }

    /// Returns the bytes of an attempt at `number`, and what they leave behind.
    fn encode(&mut self, number: Version) -> Result<(Bytes, Attempt)> {
        let planned = self.planned.as_ref().ok_or_else(|| Error::internal("a commit was not planned"))?;
        let known = self.state.as_ref();
        let metadata = self.change.metadata.as_ref().or(known.map(|state| &state.metadata));
        let protocol = self.change.protocol.as_ref().or(known.map(|state| &state.protocol));
        let (Some(protocol), Some(metadata)) = (protocol, metadata) else {
            return Err(Error::internal("a commit has neither protocol nor metaData"));
        };
        let now_us = self.place.seam.now_us();
        let now_ms = now_us.div_euclid(1000);
        let in_commit_timestamp = property::has_in_commit_timestamps(protocol, metadata).then(|| {
            let previous = known.and_then(|state| state.in_commit_timestamp);
            previous.map_or(now_ms, |previous| now_ms.max(previous.saturating_add(1)))
        });
        let mark = known.and_then(|state| state.row_id_high_water_mark);
        let is_tracked = row_tracking::is_tracked(protocol, metadata);
        let mut row_ids = match is_tracked && !planned.files.is_empty() {
            true => Some(RowIds::above(mark, number)?),
            false => None,
        };
        let lines = match (&mut row_ids, self.lines.take()) {
            (None, Some(lines)) => lines,
            (row_ids, _) => commit::encode_files(planned, row_ids.as_mut(), now_ms)?,
        };
        let info = commit::Info {
            version: number,
            now_us,
            in_commit_timestamp,
            txn_id: &self.txn_id,
            is_new_table: known.is_none(),
            partition_columns: &metadata.partition_columns,
            isolation_level: metadata.properties.get("delta.isolationLevel").map(String::as_str),
            new_table: &self.commit.new_table,
            planned,
            preserves_row_ids: is_tracked.then_some(!planned.loses_row_ids),
            provenance: &self.commit.provenance,
        };
        let head = commit::Head {
            protocol: self.change.protocol.as_ref(),
            metadata: self.change.metadata.as_ref(),
            txn: self.commit.txn.as_ref(),
            row_ids,
        };
        let bytes = commit::encode(&info, &head, &lines)?;
        // A remove carries the time of its attempt, and row ids differ: all else is encoded once.
        self.lines = (row_ids.is_none() && planned.removes.is_empty()).then_some(lines);
        let row_id_high_water_mark = row_ids.map(RowIds::mark).or(mark);
        Ok((bytes.clone(), Attempt { bytes: u64::try_from(bytes.len()).ok(), in_commit_timestamp, row_id_high_water_mark }))
    }

    /// Notes that the log holds our `txn`, if one of `found` is it.
    fn is_done_before(&mut self, found: impl IntoIterator<Item = i64>) -> bool {
        let Some(txn) = &self.commit.txn else { return false };
        self.ended = found.into_iter().filter(|version| *version >= txn.version).max().map(Ended::DoneBefore);
        self.ended.is_some()
    }
}

/// Checks that each uploaded file follows the schema and is partitioned as the table is.
fn check_files(files: &[AddFile], metadata: &Metadata, version: Option<Version>) -> Result<()> {
    let schema = &metadata.schema;
    let mut fitting: Option<&Arc<TableSchema>> = None;
    for file in files {
        if !file.partition_values.iter().map(|(name, _)| name).eq(&metadata.partition_columns) {
            return Err(Error::internal(format!("the file {} is not partitioned as its table is", file.path)));
        }
        // Files of a commit mostly share one schema; comparing pointers saves comparing columns.
        if fitting.is_some_and(|fitting| Arc::ptr_eq(fitting, &file.schema)) {
            continue;
        }
        if misfit(&file.schema, schema).is_none() {
            fitting = Some(&file.schema);
            continue;
        }
        if let Some(why) = misfit_of_file(file, schema) {
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
    }
    Ok(())
}

#[async_trait]
impl Publication for TablePublication<'_> {
    async fn bytes(&mut self, number: u64) -> Result<Bytes> {
        if let Some(state) = &self.state
            && state.version + 1 != number
        {
            return Err(Error::internal(format!("version {number} was tried on top of version {}", state.version)));
        }
        if self.state.is_none() && number != 0 {
            return Err(Error::internal(format!("version {number} was tried on a table that does not exist")));
        }
        self.plan().await?;
        if self.is_empty() {
            self.ended = Some(Ended::NothingLeft);
            return Err(Error::internal("nothing is left to commit"));
        }
        let (bytes, attempt) = self.encode(number)?;
        self.attempt = attempt;
        Ok(bytes)
    }

    async fn lost(&mut self, number: u64, winner: Bytes) -> Result<Step> {
        let at = |error: Error| error.at_version(number);
        let head = CommitHead::parse(&winner).map_err(at)?;
        let bytes = u64::try_from(winner.len()).unwrap_or(u64::MAX);
        if head.txn_id.as_deref() == Some(&self.txn_id) {
            self.attempt.bytes = Some(bytes);
            return Ok(Step::AlreadyOurs);
        }
        if fail_point("commit:lost") {
            return Err(Error::unavailable("a test asked for a failure after a lost attempt"));
        }
        let changes_rules = head.protocol.is_some() || head.metadata.is_some();
        let app = self.commit.txn.as_ref().map(|txn| txn.app_id.as_str());
        let ours: Vec<i64> = head.txns.iter().filter(|txn| Some(txn.app_id.as_str()) == app).map(|txn| txn.version).collect();
        let state = self.after(number, bytes, head).map_err(at)?;
        self.check_same_table(&state).map_err(at)?;
        if self.is_done_before(ours) {
            return Ok(Step::AlreadyOurs);
        }
        if changes_rules {
            self.follow(state).map_err(at)?;
        } else {
            self.state = Some(state);
        }
        if self.planner.winner(&Winner::new(number, &winner)).await.map_err(at)? == Verdict::PlanAgain {
            self.planned = None;
        }
        Ok(Step::GoOn)
    }

    async fn replaced(&mut self, number: u64) -> Result<u64> {
        let Some(mut state) = open::load(&self.place).await? else {
            return Err(Error::conflict(format!("the table was dropped: version {} is gone", number.saturating_sub(1)))
                .hint("run the load again: it then creates the table"));
        };
        let version = state.version;
        self.check_same_table(&state)?;
        if let Some(txn) = &self.commit.txn {
            let found = open::txn_version(&self.place, version, &txn.app_id).await?;
            if self.is_done_before(found) {
                return Err(Error::conflict("the commit was made before"));
            }
        }
        if self.ours != self.base {
            open::complete_metadata(&self.place, &mut state).await?;
        }
        self.follow(state)?;
        self.planner.restart(version).await?;
        Ok(version + 1)
    }

    fn is_built_on(&self, _number: u64, predecessor: &Entry) -> bool {
        let expected = self.state.as_ref().and_then(|state| state.commit_bytes);
        expected.is_none_or(|bytes| bytes == predecessor.size)
    }
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

fn names(columns: &[String]) -> String {
    match columns {
        [] => "no column".to_owned(),
        columns => columns.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}
