//! Which columns of a table have statistics.

/// The columns for which data files carry statistics, as the table's properties say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatisticsColumns {
    /// `delta.dataSkippingNumIndexedCols`: so many leaf columns from the first; `None`: all (`-1`).
    pub first_leaves: Option<usize>,
    /// `delta.dataSkippingStatsColumns`: the dotted paths of columns; with it, `first_leaves` does not count.
    pub named: Option<Vec<String>>,
}

impl Default for StatisticsColumns {
    fn default() -> Self {
        Self { first_leaves: Some(32), named: None }
    }
}
