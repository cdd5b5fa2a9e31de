//! Our additions to a schema, put onto what another writer made of it meanwhile.

use super::fit::is_widening;
use super::names::folded;
use super::types::{DataType, Field, TableSchema};
use crate::{Error, Result};

/// Returns `theirs` with what `ours` adds to `base`: columns, fields at any depth, wider types.
///
/// `base` is the schema that `ours` came from, `theirs` the newest of the table. Data files that were written under `ours` are files of
/// the merged schema.
///
/// **Errors** `Schema` when both added or changed a column differently, or a column of ours is gone; it names both types.
pub fn merge(ours: &TableSchema, base: &TableSchema, theirs: &TableSchema) -> Result<TableSchema> {
    Ok(TableSchema { fields: merge_fields(&ours.fields, &base.fields, &theirs.fields)? })
}

fn merge_fields(ours: &[Field], base: &[Field], theirs: &[Field]) -> Result<Vec<Field>> {
    let mut merged = theirs.to_vec();
    for field in ours {
        let name = folded(&field.name);
        let same = |other: &&Field| folded(&other.name) == name;
        let base = base.iter().find(same);
        match (base, merged.iter_mut().find(|other| folded(&other.name) == name)) {
            (_, Some(theirs)) => merge_field(field, base, theirs).map_err(|error| error.in_field(&field.name))?,
            (None, None) => merged.push(field.clone()),
            (Some(_), None) => {
                return Err(conflict("was dropped from the table by another writer").in_field(&field.name));
            }
        }
    }
    Ok(merged)
}

fn merge_field(ours: &Field, base: Option<&Field>, theirs: &mut Field) -> Result<()> {
    if !theirs.nullable && ours.nullable {
        return Err(conflict("was made NOT NULL by another writer"));
    }
    let is_new = base.is_none();
    let merged = merge_types(&ours.data_type, base.map(|base| &base.data_type), &theirs.data_type)?;
    if is_new && ours.source_name() != theirs.source_name() && theirs.source_name().is_some() {
        return Err(conflict(format!(
            "was added by another writer for the field `{}`, here for `{}`",
            theirs.source_name().unwrap_or_default(),
            ours.source_name().unwrap_or_default()
        )));
    }
    let changed = merged != theirs.data_type;
    theirs.data_type = merged;
    if changed && let Some(changes) = ours.metadata.get("delta.typeChanges") {
        theirs.metadata.insert("delta.typeChanges".to_owned(), changes.clone());
    }
    if is_new {
        for (key, value) in &ours.metadata {
            theirs.metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(())
}

fn merge_types(ours: &DataType, base: Option<&DataType>, theirs: &DataType) -> Result<DataType> {
    match (ours, theirs) {
        (DataType::Struct(our_fields), DataType::Struct(their_fields)) => {
            let base = match base {
                Some(DataType::Struct(fields)) => fields.as_slice(),
                _ => &[],
            };
            Ok(DataType::Struct(merge_fields(our_fields, base, their_fields)?))
        }
        (DataType::Array { element: our_element, .. }, DataType::Array { element, contains_null }) => {
            let base = match base {
                Some(DataType::Array { element, .. }) => Some(&**element),
                _ => None,
            };
            let element = Box::new(merge_types(our_element, base, element)?);
            Ok(DataType::Array { element, contains_null: *contains_null })
        }
        (DataType::Map { value: our_value, key: our_key, .. }, DataType::Map { key, value, value_contains_null })
            if our_key == key =>
        {
            let base = match base {
                Some(DataType::Map { value, .. }) => Some(&**value),
                _ => None,
            };
            let value = Box::new(merge_types(our_value, base, value)?);
            Ok(DataType::Map { key: key.clone(), value, value_contains_null: *value_contains_null })
        }
        _ if ours == theirs => Ok(theirs.clone()),
        // We widened it: files of theirs stay readable.
        _ if base == Some(theirs) && is_widening(theirs, ours) => Ok(ours.clone()),
        // They widened it: our files stay readable.
        _ if base == Some(ours) && is_widening(ours, theirs) => Ok(theirs.clone()),
        _ => Err(conflict(format!("was made {theirs} by another writer, and is {ours} here"))),
    }
}

fn conflict(message: impl Into<String>) -> Error {
    Error::schema(message).hint("run the command again: it will start from the table as it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> TableSchema {
        TableSchema { fields: fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone())).collect() }
    }

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(schema(fields).fields)
    }

    #[test]
    fn additions_of_both_sides_stand() {
        use DataType::{Long, String as Text};
        let list = |inner| DataType::Array { element: Box::new(inner), contains_null: true };
        let base = schema(&[("a", Long), ("s", structure(&[("x", Long)])), ("l", list(structure(&[("x", Long)])))]);
        let ours = schema(&[
            ("a", Long),
            ("s", structure(&[("x", Long), ("ours", Text)])),
            ("l", list(structure(&[("x", Long), ("ours", Text)]))),
            ("n", Text),
            ("both", Long),
        ]);
        let theirs = schema(&[
            ("a", Long),
            ("s", structure(&[("x", Long), ("theirs", Long)])),
            ("l", list(structure(&[("x", Long)]))),
            ("Both", Long),
        ]);
        let merged = merge(&ours, &base, &theirs).unwrap();
        assert_eq!(
            merged,
            schema(&[
                ("a", Long),
                ("s", structure(&[("x", Long), ("theirs", Long), ("ours", Text)])),
                ("l", list(structure(&[("x", Long), ("ours", Text)]))),
                ("Both", Long),
                ("n", Text),
            ])
        );
        assert_eq!(merge(&merged, &base, &theirs).unwrap(), merged);
        assert_eq!(merge(&base, &base, &theirs).unwrap(), theirs);
    }

    #[test]
    fn conflicting_types_name_both() {
        use DataType::{Long, String as Text};
        let base = schema(&[("a", Long)]);
        let error = merge(&schema(&[("a", Long), ("n", Long)]), &base, &schema(&[("a", Long), ("n", Text)])).unwrap_err();
        assert_eq!(error.to_string(), "field `n` was made string by another writer, and is long here");
        assert_eq!(error.kind(), crate::ErrorKind::Schema);
        assert!(merge(&base, &base, &schema(&[("a", Text)])).is_err());
        assert!(merge(&base, &base, &schema(&[])).is_err());
        let mut strict = base.clone();
        strict.fields[0].nullable = false;
        assert!(merge(&base, &base, &strict).is_err());
        assert!(merge(&strict, &strict, &strict).is_ok());
    }

    #[test]
    fn wider_types_of_either_side_stand() {
        use DataType::{Integer, Long};
        let (narrow, wide) = (schema(&[("a", Integer)]), schema(&[("a", Long)]));
        assert_eq!(merge(&wide, &narrow, &narrow).unwrap(), wide);
        assert_eq!(merge(&narrow, &narrow, &wide).unwrap(), wide);
        assert!(merge(&wide, &wide, &narrow).is_err());
    }
}
