//! The files that a version of a table consists of, as a remove or a re-add needs them.

use std::sync::Arc;

use arrow::array::{Array, AsArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use delta_kernel::Snapshot;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::scan::StatsOptions;
use object_store::ObjectStore;
use serde_json::{Map, Value, json};

use super::action::Add;
use super::table::Place;
use super::{Version, open};
use crate::{Error, Result};

/// Returns the files of `version`, in no order, without their statistics. One entry per file is in memory.
///
/// # Errors
/// `Unavailable`: the log cannot be read (any more).
pub(super) async fn live_files(place: &Place, version: Version) -> Result<Vec<Add>> {
    let (store, url) = place.store.kernel_access(&place.path)?;
    let found = open::blocking(move || scan(store, url.as_str(), version)).await?;
    found.map_err(|error| {
        Error::unavailable("the files of the table could not be read from its log")
            .source(open::first_line(&error))
            .at_version(version)
    })
}

fn scan(store: Arc<dyn ObjectStore>, url: &str, version: Version) -> Result<Vec<Add>, delta_kernel::Error> {
    let engine = open::engine(store);
    let snapshot = Snapshot::builder_for(url).at_version(version).build(&*engine)?;
    let scan = snapshot.scan_builder().without_row_transforms().with_stats(StatsOptions::none()).build()?;
    let mut files = Vec::new();
    for metadata in scan.scan_metadata(&*engine)? {
        let (data, selected) = metadata?.scan_files.into_parts();
        let data = ArrowEngineData::try_from_engine_data(data)?;
        let batch = data.record_batch();
        let columns = Columns::of(batch).ok_or_else(|| delta_kernel::Error::generic("the scan lacks a column"))?;
        // The selection may be shorter than the batch: what it does not cover is selected.
        files.extend((0..batch.num_rows()).filter(|row| selected.get(*row) != Some(&false)).map(|row| columns.add(row)));
    }
    Ok(files)
}

/// The columns of one batch of a scan.
struct Columns<'a> {
    batch: &'a RecordBatch,
    vectors: &'a StructArray,
    constants: &'a StructArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let structure = |name: &str| batch.column_by_name(name)?.as_struct_opt();
        let (vectors, constants) = (structure("deletionVector")?, structure("fileConstantValues")?);
        let is_whole = ["path", "size", "modificationTime"].iter().all(|name| batch.column_by_name(name).is_some());
        is_whole.then_some(Self { batch, vectors, constants })
    }

    fn add(&self, row: usize) -> Add {
        let mut rest = Map::new();
        for key in ["baseRowId", "defaultRowCommitVersion"] {
            if let Some(value) = long(self.constants.column_by_name(key), row) {
                rest.insert(key.to_owned(), json!(value));
            }
        }
        if let Some(tags) = texts(self.constants.column_by_name("tags"), row) {
            rest.insert("tags".to_owned(), Value::Object(tags));
        }
        if let Some(provider) = text(self.constants.column_by_name("clusteringProvider"), row) {
            rest.insert("clusteringProvider".to_owned(), Value::String(provider));
        }
        Add {
            path: text(self.batch.column_by_name("path"), row).unwrap_or_default(),
            partition_values: texts(self.constants.column_by_name("partitionValues"), row).unwrap_or_default(),
            size: long(self.batch.column_by_name("size"), row).and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
            modification_time: long(self.batch.column_by_name("modificationTime"), row).unwrap_or_default(),
            data_change: true,
            stats: None,
            deletion_vector: self.deletion_vector(row),
            rest,
        }
    }

    fn deletion_vector(&self, row: usize) -> Option<Value> {
        let storage = text(self.vectors.column_by_name("storageType"), row).filter(|_| self.vectors.is_valid(row))?;
        let mut vector = Map::from_iter([("storageType".to_owned(), Value::String(storage))]);
        if let Some(path) = text(self.vectors.column_by_name("pathOrInlineDv"), row) {
            vector.insert("pathOrInlineDv".to_owned(), Value::String(path));
        }
        for key in ["offset", "sizeInBytes", "cardinality"] {
            if let Some(value) = long(self.vectors.column_by_name(key), row) {
                vector.insert(key.to_owned(), json!(value));
            }
        }
        Some(Value::Object(vector))
    }
}

fn text(column: Option<&Arc<dyn Array>>, row: usize) -> Option<String> {
    let column = column?.as_string_opt::<i32>()?;
    column.is_valid(row).then(|| column.value(row).to_owned())
}

fn long(column: Option<&Arc<dyn Array>>, row: usize) -> Option<i64> {
    let column = column.filter(|column| column.is_valid(row))?;
    match column.as_primitive_opt::<Int64Type>() {
        Some(column) => Some(column.value(row)),
        None => column.as_primitive_opt::<Int32Type>().map(|column| column.value(row).into()),
    }
}

/// Returns a map of texts; null is null.
fn texts(column: Option<&Arc<dyn Array>>, row: usize) -> Option<Map<String, Value>> {
    let column: &MapArray = column?.as_map_opt()?;
    if column.is_null(row) {
        return None;
    }
    let entries = column.value(row);
    let (keys, values) = (entries.column(0).as_string_opt::<i32>()?, entries.column(1).as_string_opt::<i32>()?);
    let value = |at: usize| if values.is_valid(at) { Value::String(values.value(at).to_owned()) } else { Value::Null };
    Some((0..entries.len()).map(|at| (keys.value(at).to_owned(), value(at))).collect())
}
