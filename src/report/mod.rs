//! What a user sees on stderr while a load runs and when it ends: log lines, on a terminal a live line below them, Singer metrics, the
//! closing table.
//!
//! Guarantee: nothing here writes to stdout, nothing here fails a load, a notice or warning is shown once, and a counter of a metric
//! starts again after each line. Were the first lost, Meltano would store log text as a STATE.

mod live;
mod log;
mod reporter;
mod summary;

pub use log::{LogFormat, LogSettings, init, show_error};
pub use reporter::{Committed, METRICS_INTERVAL, Reporter};
pub use summary::{Coercion, StreamSummary, Summary, grouped};

#[cfg(test)]
mod tests;
