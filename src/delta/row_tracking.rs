//! Row ids: each new file gets a range of ids that no row of the table has had.
//!
//! The highest id ever given is the domain `delta.rowTracking` of the log. Two commits that gave the same ids would make different rows
//! one to whoever follows them, so ids are given for each attempt, above the mark of the version before it.
//! Source: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#row-tracking>

use serde_json::{Value, json};

use crate::{Error, Result};

use super::action::{DomainMetadata, Metadata, Protocol};
use super::feature::ROW_TRACKING;
use super::{AddFile, Version};

/// The domain of the highest id.
pub(super) const DOMAIN: &str = "delta.rowTracking";
/// In `commitInfo.tags`: whether all rows that the commit moved kept their ids.
pub(super) const PRESERVED_TAG: &str = "delta.rowTracking.preserved";

/// The mark of a table that gave no id so far.
const NO_ID: i64 = -1;

/// Whether new files get row ids.
pub(super) fn is_tracked(protocol: &Protocol, metadata: &Metadata) -> bool {
    let is_suspended =
        metadata.properties.get("delta.rowTrackingSuspended").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    protocol.lists(ROW_TRACKING) && !is_suspended
}

/// Returns the mark that a domain's configuration holds.
///
/// # Errors
/// `Table`: it holds none.
pub(super) fn parse_mark(configuration: &str) -> Result<i64> {
    let value: Option<Value> = serde_json::from_str(configuration).ok();
    value.as_ref().and_then(|value| value.get("rowIdHighWaterMark")?.as_i64()).ok_or_else(|| {
        Error::table(format!("the domain `{DOMAIN}` of the table is `{configuration}`, which names no `rowIdHighWaterMark`"))
    })
}

/// The ids of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowIds {
    next: i64,
    pub version: Version,
}

impl RowIds {
    /// Returns the ids above `mark` for the files of `version`.
    pub(super) fn above(mark: Option<i64>, version: Version) -> Result<Self> {
        let next = mark.unwrap_or(NO_ID).checked_add(1).ok_or_else(exhausted)?;
        Ok(Self { next, version })
    }

    /// Takes the ids of a file; returns the first.
    pub(super) fn take(&mut self, file: &AddFile) -> Result<i64> {
        let first = self.next;
        let rows = i64::try_from(file.rows).ok();
        self.next = rows.and_then(|rows| first.checked_add(rows)).ok_or_else(exhausted)?;
        Ok(first)
    }

    /// Returns the highest id that is taken.
    pub(super) fn mark(self) -> i64 {
        self.next - 1
    }

    /// Returns the action that keeps it.
    pub(super) fn domain(self) -> DomainMetadata {
        let configuration = json!({ "rowIdHighWaterMark": self.mark() }).to_string();
        DomainMetadata { domain: DOMAIN.to_owned(), configuration, removed: false }
    }
}

fn exhausted() -> Error {
    Error::table("the row ids of the table are used up")
}
