//! Record bytes → typed column builders → record batches.
//!
//! Guarantee: a record becomes exactly the row that the tables of the documentation say, or a [`Fault`] and no trace of it. The exact path
//! ([`BatchBuilder::push`]) decides what a record means; the fast path ([`BatchBuilder::push_fast`]) takes only records that the exact path
//! would take without counting anything, and makes the same row. Were that broken, a table's content would hang on what the records
//! before looked like.
//!
//! No clock, no disk, no runtime: plain functions over bytes.

mod arrays;
mod builder;
mod column;
mod direct;
mod exact;
mod fields;
mod json;
#[cfg(test)]
mod laws;
mod moment;
mod number;
mod strict;
mod tally;
#[cfg(test)]
mod tests;

pub use builder::{BatchBuilder, Fault, RowMeta};
pub use strict::{Strict, make_strict};
pub use tally::{Coercion, Count, Tally};

/// What the user set about values, for one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What a value that its column cannot hold does.
    pub on_bad_value: OnBadValue,
    /// Whether NaN and infinities stay what they are in double columns; otherwise they become null, counted.
    pub keep_nan: bool,
    /// What a date-time without offset means.
    pub naive_timestamps: crate::schema::NaiveTimestamps,
}

/// `on_bad_value`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadValue {
    /// The load fails.
    Fail,
    /// Null, counted; never for keys and partition columns.
    SetNull,
    /// The record is set aside.
    Reject,
}

impl Default for Options {
    fn default() -> Self {
        Self { on_bad_value: OnBadValue::Fail, keep_nan: false, naive_timestamps: crate::schema::NaiveTimestamps::Utc }
    }
}
