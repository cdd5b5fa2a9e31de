//! Record bytes → typed column builders → record batches.

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
