//! A table at a version, and commits to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::schema::TableSchema;
use crate::seam::{Seam, fail_point};
use crate::store::{self, Numbered, Published, Store};
use crate::{Error, Result};

use super::action::{Metadata, Protocol, Txn};
use super::conflict::{Ended, TablePublication};
use super::overwrite::OverwritePlanner;
use super::plan::{AppendPlanner, Planner};
use super::{StatisticsColumns, Version, checkpoint, feature, log_name, open, property};

/// A table as of a version that is known, or one that does not exist yet.
///
/// Only version, protocol and metaData are held: the memory does not grow with the table.
#[derive(Debug)]
pub struct Table {
    pub(super) place: Place,
    pub(super) state: Option<State>,
    /// Whether the newest version is one that this value committed.
    is_ours: bool,
}

/// Where a table is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub store: Arc<dyn Store>,
    /// Below the root of the store, no slashes at its ends.
    pub path: String,
    pub seam: Seam,
}

impl Place {
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.store.url(), self.path).trim_end_matches('/').to_owned()
    }
}

/// What is known of a version.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub version: Version,
    pub protocol: Protocol,
    pub metadata: Metadata,
    /// The oldest commit that is not in a checkpoint; `None` once `metadata` is known word for word (a kernel leaves out keys that
    /// it does not know).
    pub metadata_since: Option<Version>,
    /// The length of this version's commit, where it is known: by it a table that was dropped and made again is told.
    pub commit_bytes: Option<u64>,
    /// The version's own timestamp in milliseconds, where the table has such: the next one is later.
    pub in_commit_timestamp: Option<i64>,
    /// The highest row id that was ever given, where the table tracks rows; `None`: none was.
    pub row_id_high_water_mark: Option<i64>,
}

/// Files to commit, with what the table has to become for them.
#[derive(Debug, Clone, Default)]
pub struct Append {
    /// The files, all of them durable.
    pub files: Vec<AddFile>,
    /// The schema after the commit: the table's with columns added. Needed when the table is new; `None` leaves the table's.
    /// Columns that it lacks are kept all the same: another writer may have added them since the schema was made.
    pub schema: Option<Arc<TableSchema>>,
    /// What a table gets that does not exist yet.
    pub new_table: NewTable,
    /// Who writes.
    pub provenance: Provenance,
    /// As in [`Commit::txn`].
    pub txn: Option<Txn>,
}

/// What a commit is beside its files, however those are planned.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// As in [`Append::schema`].
    pub schema: Option<Arc<TableSchema>>,
    /// Whether the schema takes the place of the table's, whatever that is, and the partition columns of `new_table` that of its own: for
    /// commits that leave no file of the table.
    pub replaces_schema: bool,
    /// What a table gets that does not exist yet.
    pub new_table: NewTable,
    /// Who writes.
    pub provenance: Provenance,
    /// How far an application is with this commit, so that it is made once: where the log holds the application at this version or a
    /// later one, nothing is committed. `last_updated` is filled in.
    pub txn: Option<Txn>,
}

/// A data file that is in the store.
#[derive(Debug, Clone)]
pub struct AddFile {
    /// The path relative to the table, raw: not URI-encoded.
    pub path: String,
    /// Raw values by partition column, in the order of the partition columns; `None` is null.
    pub partition_values: Vec<(String, Option<String>)>,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last change in milliseconds since 1970.
    pub modified_ms: i64,
    /// The statistics as JSON text.
    pub statistics: String,
    /// Rows in the file.
    pub rows: u64,
    /// The schema that the file was written under.
    pub schema: Arc<TableSchema>,
}

/// What a new table is made with.
#[derive(Debug, Clone, Default)]
pub struct NewTable {
    /// The partition columns, in order.
    pub partition_columns: Vec<String>,
    /// `delta.*` and other properties.
    pub properties: BTreeMap<String, String>,
    /// A text for people.
    pub description: Option<String>,
}

/// Who writes a commit, and from which input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The id of the run.
    pub run_id: String,
    /// The pipeline, where it is named.
    pub pipeline: Option<String>,
    /// The first input line whose row is in the commit.
    pub first_line: u64,
    /// The last one.
    pub last_line: u64,
    /// Whether the commit holds rows behind the last STATE, before the end of the input.
    pub is_without_state: bool,
}

/// How a commit ended.
#[derive(Debug)]
pub enum Outcome {
    /// The files are in the table.
    Committed {
        /// The version that holds them; the newest known one when there was nothing to commit.
        version: Version,
        /// How many versions were tried; 0 when there was nothing to commit.
        attempts: u32,
        /// Rows of all files.
        rows: u64,
        /// Bytes of all files.
        bytes: u64,
    },
    /// Nothing was committed: the log holds the application of [`Commit::txn`] at its version or a later one. The table is known as it
    /// was before.
    DoneBefore {
        /// The version of the application that was found.
        found: i64,
    },
    /// The version may exist or not; nobody may tell before the store answers again. The files must stay.
    Unknown {
        /// The version that was tried.
        version: Version,
        /// What that version's `commitInfo.txnId` is if it is ours.
        txn_id: String,
        /// The message, with table, version and `txnId`.
        error: Error,
    },
}

impl Table {
    /// Opens the table at `path` below the root of the store, without slashes at its ends. A folder without commits and checkpoints
    /// is a table that does not exist yet.
    ///
    /// # Errors
    /// `Table`, naming what stands in the way: the log is not readable, or the table has features or column types that are not
    /// written. Kinds of the store otherwise.
    pub async fn open(store: Arc<dyn Store>, path: &str, seam: Seam) -> Result<Self> {
        let place = Place { store, path: path.to_owned(), seam };
        let state = open::load(&place).await.map_err(|error| error.at_table(place.url()))?;
        Ok(Self { place, state, is_ours: false })
    }

    /// Returns where the table is, for people.
    pub fn url(&self) -> String {
        self.place.url()
    }

    /// Returns the version that is known, `None` before the table exists.
    pub fn version(&self) -> Option<Version> {
        self.state.as_ref().map(|state| state.version)
    }

    /// Returns the table's own id.
    pub fn id(&self) -> Option<&str> {
        self.state.as_ref().map(|state| state.metadata.id.as_str())
    }

    /// Returns the schema, partition columns included.
    pub fn schema(&self) -> Option<&Arc<TableSchema>> {
        self.state.as_ref().map(|state| &state.metadata.schema)
    }

    /// Returns the partition columns in order; none before the table exists.
    pub fn partition_columns(&self) -> &[String] {
        self.state.as_ref().map_or(&[], |state| &state.metadata.partition_columns)
    }

    /// Returns the properties; none before the table exists.
    pub fn properties(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.state.as_ref().map_or(&NONE, |state| &state.metadata.properties)
    }

    /// Whether a column's type may be widened.
    pub fn is_type_widening_enabled(&self) -> bool {
        let is_listed = self.state.as_ref().is_some_and(|state| state.protocol.lists(feature::TYPE_WIDENING));
        is_listed && self.properties().get("delta.enableTypeWidening").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns which columns have statistics.
    pub fn statistics_columns(&self) -> StatisticsColumns {
        StatisticsColumns::of(self.properties())
    }

    /// Returns the codec that the table's property asks for.
    pub fn compression(&self) -> Option<&str> {
        self.properties().get("delta.parquet.compression.codec").map(String::as_str)
    }

    /// Commits the files, creating the table or changing its schema in the same commit. The table is at the committed version
    /// afterwards; after an error or an unknown outcome it is as it was.
    ///
    /// # Errors
    /// `Conflict`: another writer replaced the table, or changed schema or partition columns so that the files do not fit, with both
    /// named. `Table`: another writer made the table one that is not written. `Schema`, `Config`: the table cannot become what is
    /// asked for. Kinds of the store otherwise; then nothing was committed.
    pub async fn append(&mut self, append: Append, timeout: Duration) -> Result<Outcome> {
        let Append { files, schema, new_table, provenance, txn } = append;
        let commit = Commit { schema, replaces_schema: false, new_table, provenance, txn };
        self.commit(&commit, &mut AppendPlanner::new(files), timeout).await
    }

    /// Commits the files in the place of all that the table holds, with their schema and partition columns in the place of its own; id
    /// and properties stay. A table that does not exist is created.
    ///
    /// # Errors
    /// Those of [`Table::append`]; `Table` when the table is append-only.
    pub async fn overwrite(&mut self, append: Append, timeout: Duration) -> Result<Outcome> {
        let Append { files, schema, new_table, provenance, txn } = append;
        let commit = Commit { replaces_schema: schema.is_some(), schema, new_table, provenance, txn };
        let mut planner = OverwritePlanner::new(self.place.clone(), files);
        self.commit(&commit, &mut planner, timeout).await
    }

    /// Checks that rows may be taken out of the table.
    ///
    /// # Errors
    /// `Table`: it is append-only.
    pub fn check_may_remove(&self) -> Result<()> {
        if property::is_true(self.properties(), "delta.appendOnly") {
            return Err(append_only().at_table(self.url()));
        }
        Ok(())
    }

    /// Commits what `planner` plans, as [`Table::append`] does with new files.
    ///
    /// # Errors
    /// Those of [`Table::append`], and those of the planner.
    pub async fn commit(&mut self, commit: &Commit, planner: &mut dyn Planner, timeout: Duration) -> Result<Outcome> {
        let url = self.place.url();
        self.commit_here(commit, planner, timeout).await.map_err(|error| error.at_table(url))
    }

    async fn commit_here(&mut self, commit: &Commit, planner: &mut dyn Planner, timeout: Duration) -> Result<Outcome> {
        if let (Some(state), Some(schema)) = (&mut self.state, &commit.schema)
            && *schema != state.metadata.schema
        {
            open::complete_metadata(&self.place, state).await?;
        }
        let known = self.version();
        if let (Some(txn), Some(version)) = (&commit.txn, known)
            && let Some(found) = open::txn_version(&self.place, version, &txn.app_id).await?
            && found >= txn.version
        {
            return Ok(Outcome::DoneBefore { found });
        }
        let mut publication = TablePublication::new(self.place.clone(), self.state.clone(), commit, planner)?;
        publication.plan().await?;
        if let Some(version) = known.filter(|_| publication.is_empty()) {
            return Ok(Outcome::Committed { version, attempts: 0, rows: 0, bytes: 0 });
        }
        let first = known.map_or(0, |version| version + 1);
        let txn_id = publication.txn_id().to_owned();
        if fail_point("commit:before_put") {
            return Err(Error::unavailable("the commit was not tried: a test asked for it"));
        }
        let log = Numbered { prefix: log_name::folder(&self.place.path), suffix: ".json".to_owned() };
        let published = store::publish(&*self.place.store, &log, first, &mut publication, timeout, &self.place.seam).await;
        match publication.ended() {
            Some(Ended::DoneBefore(found)) => return Ok(Outcome::DoneBefore { found }),
            Some(Ended::NothingLeft) => {
                let state = publication.into_known().ok_or_else(|| Error::internal("a new table was left out"))?;
                let version = state.version;
                self.state = Some(state);
                self.is_ours = false;
                return Ok(Outcome::Committed { version, attempts: 0, rows: 0, bytes: 0 });
            }
            None => {}
        }
        match published? {
            Published::At { number, attempts } => {
                if fail_point("commit:after_put") {
                    let error = Error::unavailable("a test asked for an unknown outcome");
                    return Ok(self.unknown(number, txn_id, error));
                }
                let (rows, bytes) = publication.figures();
                self.state = Some(publication.into_state(number)?);
                self.is_ours = true;
                Ok(Outcome::Committed { version: number, attempts, rows, bytes })
            }
            Published::Unknown { number, error } => Ok(self.unknown(number, txn_id, error)),
        }
    }

    fn unknown(&self, version: Version, txn_id: String, source: Error) -> Outcome {
        let error = Error::unavailable(format!(
            "whether version {version} of the table was written by this load is not known; it may exist, with txnId {txn_id}"
        ))
        .hint("when the store answers again, look whether that version holds this txnId; its data files stay where they are")
        .at_table(self.place.url())
        .at_version(version)
        .source(source)
        .repeat_may_double();
        Outcome::Unknown { version, txn_id, error }
    }

    /// Writes what makes the table faster to read, when it is due: a checkpoint every 10 commits (the property
    /// `delta.checkpointInterval` wins), the checksum of that version, the hint at it. Returns warnings; nothing fails.
    pub async fn after_commit(&mut self) -> Vec<String> {
        let Some(state) = self.state.as_ref().filter(|_| self.is_ours) else { return Vec::new() };
        let interval = property::checkpoint_interval(&state.metadata.properties);
        if state.version == 0 || !state.version.is_multiple_of(interval) {
            return Vec::new();
        }
        checkpoint::write(&self.place, state.version).await
    }
}

/// The error of a commit that takes rows out of a table that only grows.
pub(super) fn append_only() -> Error {
    Error::table("the table is append-only (`delta.appendOnly`), and the commit would change or remove rows")
        .hint("append to it, or set the property to false")
}
