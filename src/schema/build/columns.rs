//! Which column of a table belongs to which key.

use serde_json::Value;

use super::super::declared::VARIANT;
use super::super::layout::MetadataColumn;
use super::super::names::{column_name, folded};
use super::super::types::Field;
use super::super::{ColumnNames, types};
use super::Adopted;

/// The key under which the metadata of a metadata column with another name keeps its own.
pub(super) const METADATA_COLUMN: &str = "delta-load.metadata_column";

/// Returns, per key, the column that belongs to it, and claims it.
///
/// First by the source's name in the field's metadata, then, among columns that have none, as matched before, by the same name, and
/// by the name that the key would get, without regard to case. All keys have a look at one way before any has at the next, so that the
/// order of the keys does not matter.
pub(in super::super) fn match_columns(
    fields: &[Field],
    keys: &[&str],
    path: &[String],
    style: ColumnNames,
    claimed: &mut [bool],
    adopted: &Adopted,
) -> Vec<Option<usize>> {
    let mut found = vec![None; keys.len()];
    let mut look = |is_match: &dyn Fn(&str, &Field) -> bool| {
        for (key, found) in keys.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let column = (0..fields.len()).find(|&at| !claimed[at] && is_match(key, &fields[at]));
            if let Some(at) = column {
                claimed[at] = true;
                *found = Some(at);
            }
        }
    };
    let is_free =
        |field: &Field| !field.metadata.contains_key(types::SOURCE_NAME) && !field.metadata.contains_key(METADATA_COLUMN);
    look(&|key, field| field.source_name() == Some(key) && !field.metadata.contains_key(VARIANT));
    look(&|key, field| is_free(field) && adopted.get(&(path.to_vec(), key.to_owned())) == Some(&field.name));
    look(&|key, field| is_free(field) && field.name == key);
    look(&|key, field| is_free(field) && folded(&field.name) == folded(&column_name(key, style)));
    found
}

/// Returns the column of the table that is a metadata column. One that the tap made counts only with `takes_over`.
pub(in super::super) fn metadata_column(fields: &[Field], column: MetadataColumn, takes_over: bool) -> Option<usize> {
    let is_marked = |field: &Field| field.metadata.get(METADATA_COLUMN).and_then(Value::as_str) == Some(column.name());
    let is_named = |field: &Field| folded(&field.name) == column.name() && !field.metadata.contains_key(METADATA_COLUMN);
    let is_free = |field: &Field| field.source_name().is_none();
    fields
        .iter()
        .position(is_marked)
        .or_else(|| fields.iter().position(|field| is_named(field) && is_free(field)))
        .or_else(|| fields.iter().position(|field| takes_over && is_named(field)))
}
