//! Delta tables: actions, snapshot, log names, commit bytes, conflict check, checkpoint. Any Delta library stays inside.

mod statistics_columns;

pub use statistics_columns::StatisticsColumns;
