//! Object stores: open by URL, put-if-absent with read-back, and `publish`, the loop over numbered objects.

use std::collections::BTreeMap;

/// What the user set about the store.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// `storage_options`, names in lower case. Values may be secrets: never shown.
    pub storage_options: BTreeMap<String, String>,
    /// Takes the risk of a store without put-if-absent.
    pub single_writer: bool,
}
