//! Delta tables: actions, snapshot, log names, commit bytes, conflict check, checkpoint. Any Delta library stays inside.
//!
//! The guarantee: a table is opened only when all that its protocol asks of a writer is followed, and [`Table::commit`] commits its
//! files exactly once, in one version, under the schema and rules of the version before it; or it says that it did not, or that it
//! is not known. Nothing after the commit fails.
//!
//! Were that lost, rows would be there twice or under a schema that they do not follow, or a table that asks for more than we do
//! would be damaged without anybody noticing.

mod action;
mod checkpoint;
mod commit;
mod conflict;
mod feature;
mod held_store;
mod live_files;
mod log_name;
mod log_store;
mod misfit;
mod open;
mod overwrite;
mod plan;
mod property;
mod row_tracking;
mod statistics_columns;
mod table;
#[cfg(test)]
mod tests;

pub use action::{Action, Add, DomainMetadata, Protocol, Remove, Txn, parse_commit};
pub use log_store::{LOG_STORE_SCHEMES, register_log_stores};
pub use plan::{Base, Operation, Planned, Planner, Verdict, Winner};
pub use property::check_table_properties;
pub use statistics_columns::StatisticsColumns;
pub use table::{AddFile, Append, Commit, NewTable, Outcome, Provenance, Table};

/// A version of a table, counted from 0.
pub type Version = u64;
