//! What a load is to do: checked settings, defaults filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{batch, data_file, schema, store};

/// A whole load. Made by `config`, which has checked every value.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The root of all tables, with a trailing slash in its path.
    pub destination: url::Url,
    /// How the store is opened.
    pub store: store::Options,
    /// When commits happen and STATE leaves.
    pub cuts: Cuts,
    /// In-memory bytes of all streams.
    pub memory_limit_bytes: u64,
    /// What a line that is not JSON does.
    pub on_bad_line: OnBadLine,
    /// The settings of every stream, resolved by name.
    pub streams: StreamPlans,
    /// Shown in commits: `{environment}:{extractor}-to-{loader}` from the orchestrator's variables, or the setting `pipeline`.
    pub pipeline: Option<String>,
    /// Where a BATCH file with a relative path, and nothing else, is looked up: the working directory at the start.
    pub working_directory: std::path::PathBuf,
    /// Notices that `config` wants to be shown at the start (ignored aliases and the like).
    pub notices: Vec<String>,
}

/// Resolves the settings of a stream: an exact name beats globs, of globs the later wins per setting. All entries were checked
/// when the plan was made, so that resolving cannot fail.
#[derive(Debug, Clone)]
pub struct StreamPlans {
    /// For a stream that no entry names.
    pub base: StreamPlan,
    /// For streams that an entry names exactly; what globs add is already in it.
    pub exact: BTreeMap<String, StreamPlan>,
    /// The globs, in the order of the config, each with what it sets.
    pub globs: Vec<(globset::GlobMatcher, String, StreamPatch)>,
}

/// What one entry of `streams` sets, applied to a plan.
#[derive(Clone)]
pub struct StreamPatch(pub std::sync::Arc<dyn Fn(&mut StreamPlan) + Send + Sync>);

impl std::fmt::Debug for StreamPatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamPatch")
    }
}

impl StreamPlans {
    /// Returns the settings of `stream`.
    pub fn resolve(&self, stream: &str) -> StreamPlan {
        if let Some(plan) = self.exact.get(stream) {
            return plan.clone();
        }
        let mut plan = self.base.clone();
        for (glob, _, patch) in &self.globs {
            if glob.is_match(stream) {
                (patch.0)(&mut plan);
            }
        }
        plan
    }

    /// Returns the entries (as the user wrote them) that match none of `streams`.
    pub fn unmatched<'a>(&'a self, streams: &[&str]) -> Vec<&'a str> {
        let exact = self.exact.keys().map(String::as_str).filter(|name| !streams.contains(name));
        let globs = self.globs.iter().filter(|(glob, ..)| !streams.iter().any(|stream| glob.is_match(stream)));
        exact.chain(globs.map(|(_, pattern, _)| pattern.as_str())).collect()
    }
}

/// The settings of one stream.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// How records get there.
    pub load_method: LoadMethod,
    /// Whether a good end of the input ends an overwritten stream.
    pub overwrite_at_end: bool,
    /// Where the table is below the root.
    pub table_path: TablePath,
    /// Schemas and names.
    pub schema: schema::Options,
    /// Values.
    pub batch: batch::Options,
    /// Files.
    pub data_file: data_file::Options,
    /// Whether the user chose the compression; else a table's own property wins.
    pub is_compression_set: bool,
    /// Keys that win over the SCHEMA's `key_properties`.
    pub key_properties: Option<Vec<String>>,
    /// Source names of the partition columns of a new table.
    pub partition_by: Vec<String>,
    /// `delta.*` and other properties of a new table.
    pub table_properties: BTreeMap<String, String>,
    /// Deletion vectors of a new table.
    pub deletion_vectors: DeletionVectors,
    /// Full JSON Schema validation.
    pub validate_records: bool,
    /// A stream without keys is refused.
    pub primary_key_required: bool,
    /// Rejected records after which the load fails.
    pub max_rejects: u64,
    /// Commit at the first STATE after so many rows of the stream.
    pub batch_size_rows: Option<u64>,
    /// Whether ACTIVATE_VERSION does anything.
    pub process_activate_version_messages: bool,
    /// Whether deletes remove rows instead of marking them.
    pub hard_delete: bool,
    /// Delete BATCH files after their commit.
    pub clean_up_batch_files: bool,
}

/// When a cut is made. A zero wait or interval holds nothing back; the time-out is above zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Cuts {
    /// Commit at the first STATE after so long.
    pub batch_wait: Duration,
    /// Commit without a STATE after so long; `None`: never.
    pub without_state: Option<Duration>,
    /// How long a commit may be tried.
    pub commit_timeout: Duration,
    /// The shortest time between two STATE lines on stdout.
    pub state_interval: Duration,
    /// One commit per table, at a good end of the input.
    pub at_end: bool,
}

/// Where a table lies below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePath {
    /// Made of `{stream}`, `{schema}`, `{table}` and text.
    pub template: String,
    /// What `{schema}` is, whatever the stream's name says.
    pub default_target_schema: Option<String>,
}

/// `load_method`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMethod {
    /// Every record is a row.
    Append,
    /// The rows of the whole load take the place of all that the table held, in one commit at a good end of the input.
    Overwrite,
}

/// `deletion_vectors`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionVectors {
    /// As the table has it; off for a new one.
    Auto,
    /// On for a new table.
    On,
    /// Off for a new table.
    Off,
}

/// `on_bad_line`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadLine {
    /// The load fails.
    Fail,
    /// The line is skipped and counted.
    Skip,
}
