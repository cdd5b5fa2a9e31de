//! What a commit does to the files of a table, planned anew whenever another writer came first.
//!
//! The loop that commits knows the rules of the table; a [`Planner`] knows which files come and go. An append is the same on every
//! version; what removes or replaces files has been matched against one version, and has to look at each commit that came after it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::Result;
use crate::schema::TableSchema;

use super::action::{Action, Add, Remove, parse_commit};
use super::{AddFile, Version};

/// Plans a commit on top of a version, and again on top of those that others commit in the meantime.
#[async_trait]
pub trait Planner: Send + Sync {
    /// Takes notice of another writer's commit: every one since the version of the first plan, in turn and without a gap.
    ///
    /// # Errors
    /// Whatever makes the commit impossible beside that one; nothing of it is in the log then.
    async fn winner(&mut self, winner: &Winner<'_>) -> Result<Verdict>;

    /// Takes notice that the commits up to `version` are not known one by one: the log was cleaned past the version of the last plan.
    /// What was matched against older versions is worth nothing; [`Planner::plan`] is called next.
    ///
    /// # Errors
    /// As for [`Planner::winner`].
    async fn restart(&mut self, version: Version) -> Result<()>;

    /// Returns what the commit does on top of `base`.
    ///
    /// # Errors
    /// Whatever makes the commit impossible on that version.
    async fn plan(&mut self, base: &Base<'_>) -> Result<Planned>;
}

/// Whether a plan still holds after a winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does. A changed protocol or metaData makes a new plan all the same.
    Keep,
    /// [`Planner::plan`] has to be asked again.
    PlanAgain,
}

/// Another writer's commit.
#[derive(Debug, Clone, Copy)]
pub struct Winner<'a> {
    /// Its version.
    pub version: Version,
    bytes: &'a Bytes,
}

impl<'a> Winner<'a> {
    pub(super) fn new(version: Version, bytes: &'a Bytes) -> Self {
        Self { version, bytes }
    }

    /// Returns the actions that are known, in order.
    ///
    /// # Errors
    /// `Table`: the commit is not readable.
    pub fn actions(&self) -> Result<Vec<Action>> {
        parse_commit(self.bytes).map_err(|error| error.at_version(self.version))
    }
}

/// The version that a commit follows, with the metaData as the commit leaves it.
#[derive(Debug)]
pub struct Base<'a> {
    /// The version that is followed; `None` for a new table.
    pub version: Option<Version>,
    /// The schema after the commit.
    pub schema: &'a Arc<TableSchema>,
    /// The partition columns.
    pub partition_columns: &'a [String],
    /// The properties.
    pub properties: &'a std::collections::BTreeMap<String, String>,
}

/// The files of a commit.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// What `commitInfo` calls it.
    pub operation: Operation,
    /// New files: they get row ids where the table tracks rows.
    pub files: Arc<Vec<AddFile>>,
    /// Files that go. Time and `dataChange` are filled in.
    pub removes: Vec<Remove>,
    /// Files that stay under another deletion vector or other statistics, each with a remove of the same path. All their fields are
    /// written as they are, but for `dataChange`.
    pub re_adds: Vec<Add>,
    /// Whether the same rows stand in other files afterwards: no row comes or goes (`dataChange` is false).
    pub is_rearrangement: bool,
    /// Whether the plan rests on rows or files of the table.
    pub has_read: bool,
    /// Whether rows that were moved lost their stable row ids.
    pub loses_row_ids: bool,
}

impl Planned {
    /// Whether there is no file action.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.removes.is_empty() && self.re_adds.is_empty()
    }

    /// Whether the commit only adds files, and would have added the same ones to any version.
    pub fn is_blind_append(&self) -> bool {
        self.removes.is_empty() && self.re_adds.is_empty() && !self.has_read
    }
}

/// The operation of a commit, by the names of Delta for Spark: readers and the kernel's `.crc` go by them.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// `WRITE`, `MERGE`, `DELETE`, `OPTIMIZE` …
    pub name: &'static str,
    /// Parameters, each a text. `partitionBy` is filled in for `WRITE`.
    pub parameters: Map<String, Value>,
    /// Metrics, each a text; `None`: those of the new files.
    pub metrics: Option<Map<String, Value>>,
}

impl Default for Operation {
    /// An append.
    fn default() -> Self {
        let parameters = Map::from_iter([("mode".to_owned(), json!("Append"))]);
        Self { name: "WRITE", parameters, metrics: None }
    }
}

/// New files, whatever is in the table.
#[derive(Debug)]
pub(super) struct AppendPlanner {
    files: Arc<Vec<AddFile>>,
}

impl AppendPlanner {
    pub(super) fn new(files: Vec<AddFile>) -> Self {
        Self { files: Arc::new(files) }
    }
}

#[async_trait]
impl Planner for AppendPlanner {
    async fn winner(&mut self, _winner: &Winner<'_>) -> Result<Verdict> {
        Ok(Verdict::Keep)
    }

    async fn restart(&mut self, _version: Version) -> Result<()> {
        Ok(())
    }

    async fn plan(&mut self, _base: &Base<'_>) -> Result<Planned> {
        Ok(Planned { files: Arc::clone(&self.files), ..Planned::default() })
    }
}
