//! Which column of a table belongs to which key.

use std::collections::HashMap;

use serde_json::Value;

use super::super::ColumnNames;
use super::super::declared::VARIANT;
use super::super::layout::MetadataColumn;
use super::super::names::{column_name, folded};
use super::super::types::Field;
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
    let adopted: HashMap<&str, &str> =
        adopted.iter().filter(|((at, _), _)| at == path).map(|((_, key), name)| (name.as_str(), key.as_str())).collect();
    let (mut by_source, mut by_adoption, mut by_name) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut by_folded: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, field) in fields.iter().enumerate().filter(|(at, _)| !claimed[*at]) {
        if let Some(source) = field.source_name() {
            if !field.metadata.contains_key(VARIANT) {
                by_source.entry(source).or_insert(at);
            }
        } else if let Some(key) = adopted.get(field.name.as_str()) {
            by_adoption.insert(*key, at);
        } else if !field.metadata.contains_key(METADATA_COLUMN) {
            by_name.insert(field.name.as_str(), at);
            by_folded.entry(folded(&field.name)).or_default().push(at);
        }
    }
    let mut found: Vec<Option<usize>> = vec![None; keys.len()];
    let mut look = |column: &dyn Fn(&str, &[bool]) -> Option<usize>| {
        for (key, found) in keys.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            if let Some(at) = column(key, claimed) {
                claimed[at] = true;
                *found = Some(at);
            }
        }
    };
    look(&|key, _| by_source.get(key).copied());
    look(&|key, _| by_adoption.get(key).copied());
    look(&|key, _| by_name.get(key).copied());
    look(&|key, claimed| {
        let named = by_folded.get(&folded(&column_name(key, style)))?;
        named.iter().copied().find(|at| !claimed[*at])
    });
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
