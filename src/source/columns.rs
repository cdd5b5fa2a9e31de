//! Parquet and Arrow IPC files: batches of columns, turned into JSON texts a part at a time.

use std::fs::File;
use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::reader::FileReader;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::arrow_size::TooLarge;
use super::arrow_stream::{self, Stream};
use super::json;
use crate::{Error, Result};

/// In-memory bytes of a batch that is read from Parquet, about.
const BATCH_BYTES: i64 = 4 << 20;
/// Rows of such a batch at most.
const BATCH_ROWS: i64 = 8_192;
/// JSON text that is made ahead, beyond which no further row is added.
const TEXT_BYTES: usize = 1 << 20;
/// Rows that are made ahead at most, so that what is prepared per part stays small.
const TEXT_ROWS: usize = 4_096;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The rows of a columnar file.
pub(super) struct Rows {
    format: &'static str,
    batches: Batches,
    batch: Option<RecordBatch>,
    /// The first row of `batch` that is not in `text`.
    next_row: usize,
    text: Vec<u8>,
    /// Where each record in `text` ends; those before `given` are out.
    ends: Vec<usize>,
    given: usize,
    number: u64,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("format", &self.format).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Rows {
    fn new(format: &'static str, schema: &Schema, batches: Batches, path: &Path) -> Result<Self> {
        for field in schema.fields() {
            json::check_type(field.data_type()).map_err(|error| error.in_field(field.name()).in_file(path))?;
        }
        let (text, ends) = (Vec::new(), Vec::new());
        Ok(Self { format, batches, batch: None, next_row: 0, text, ends, given: 0, number: 0 })
    }

    /// Returns the number of the last row, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn next_into(&mut self, record: &mut Vec<u8>, path: &Path) -> Result<bool> {
        record.clear();
        while self.given == self.ends.len() {
            if !self.fill(path)? {
                return Ok(false);
            }
        }
        let start = if self.given == 0 { 0 } else { self.ends[self.given - 1] };
        record.extend_from_slice(&self.text[start..self.ends[self.given]]);
        self.given += 1;
        self.number += 1;
        Ok(true)
    }

    /// Makes the texts of the next rows; false at the end.
    fn fill(&mut self, path: &Path) -> Result<bool> {
        self.text.clear();
        self.text.shrink_to(2 * TEXT_BYTES);
        self.ends.clear();
        self.given = 0;
        let batch = match &self.batch {
            Some(batch) if self.next_row < batch.num_rows() => batch,
            _ => {
                // The old batch goes before the next one is read.
                self.batch = None;
                self.next_row = 0;
                match guarded(self.format, path, || self.batches.next().transpose())? {
                    None => return Ok(false),
                    Some(batch) => self.batch.insert(batch),
                }
            }
        };
        let part = batch.slice(self.next_row, TEXT_ROWS.min(batch.num_rows() - self.next_row));
        json::write_rows(&part, TEXT_BYTES, &mut self.text, &mut self.ends).map_err(|error| error.in_file(path))?;
        self.next_row += self.ends.len();
        Ok(true)
    }
}

/// Adds the file to an error about one of its columns.
trait InFile {
    fn in_file(self, path: &Path) -> Error;
}

impl InFile for Error {
    fn in_file(self, path: &Path) -> Error {
        let message = format!("the column `{}` of the file `{}` {}", self.field().unwrap_or("?"), path.display(), self.message());
        Error::new(self.kind(), message)
    }
}

/// Returns the rows of a Parquet file.
pub(super) fn parquet(file: File, path: &Path) -> Result<Rows> {
    let (schema, reader) = guarded("Parquet", path, || {
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
        let metadata = match int96_as_microseconds(&metadata) {
            // Nanoseconds, the library's choice for INT96, end in 2262 and wrap around silently.
            Some(schema) => {
                let options = ArrowReaderOptions::new().with_schema(schema);
                ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?
            }
            None => metadata,
        };
        let schema = metadata.schema().clone();
        let batch_rows = rows_per_batch(metadata.metadata().row_groups());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_batch_size(batch_rows);
        Ok((schema, builder.build()?))
    })?;
    Rows::new("Parquet", &schema, Box::new(reader), path)
}

/// Returns so many rows that the largest rows of the groups make a batch of some [`BATCH_BYTES`] in memory.
pub fn rows_per_batch<'a>(groups: impl IntoIterator<Item = &'a RowGroupMetaData>) -> usize {
    let mut rows = BATCH_ROWS;
    for group in groups {
        let row_bytes = (decoded_bytes(group) / group.num_rows().max(1)).max(1);
        rows = rows.min((BATCH_BYTES / row_bytes).max(1));
    }
    usize::try_from(rows).unwrap_or(1)
}

/// Bytes of a row group's values in memory, as far as the file tells: a text that a dictionary holds once counts for every row.
fn decoded_bytes(group: &RowGroupMetaData) -> i64 {
    let column =
        |column: &ColumnChunkMetaData| column.unencoded_byte_array_data_bytes().unwrap_or(0).max(column.uncompressed_size());
    group.columns().iter().map(column).sum()
}

/// Returns the schema with INT96 columns as UTC microseconds; `None` when there are none.
fn int96_as_microseconds(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let leaves: Vec<bool> =
        metadata.parquet_schema().columns().iter().map(|column| column.physical_type() == PhysicalType::INT96).collect();
    if !leaves.contains(&true) {
        return None;
    }
    let mut leaves = leaves.into_iter();
    let fields: Vec<FieldRef> = metadata.schema().fields().iter().map(|field| replaced(field, &mut leaves)).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, metadata.schema().metadata().clone())))
}

fn replaced(field: &FieldRef, is_int96: &mut impl Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| replaced(field, is_int96)).collect()),
        DataType::List(element) => DataType::List(replaced(element, is_int96)),
        DataType::LargeList(element) => DataType::LargeList(replaced(element, is_int96)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(replaced(element, is_int96), *size),
        DataType::ListView(element) => DataType::ListView(replaced(element, is_int96)),
        DataType::LargeListView(element) => DataType::LargeListView(replaced(element, is_int96)),
        DataType::Map(entries, is_sorted) => DataType::Map(replaced(entries, is_int96), *is_sorted),
        other => match is_int96.next() {
            Some(true) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => other.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Returns the rows of an Arrow IPC file, each of whose batches may take `limit_bytes` of memory.
pub(super) fn arrow_file(mut file: File, path: &Path, limit_bytes: u64) -> Result<Rows> {
    let format = "an Arrow file";
    let reader = guarded(format, path, || {
        arrow_stream::check_file(&mut file, limit_bytes)?;
        FileReader::try_new_buffered(file, None)
    })?;
    Rows::new(format, &reader.schema(), Box::new(reader), path)
}

/// Returns the rows of an Arrow IPC stream, each of whose batches may take `limit_bytes` of memory.
pub(super) fn arrow_stream(reader: Box<dyn BufRead + Send>, path: &Path, limit_bytes: u64) -> Result<Rows> {
    let format = "an Arrow stream";
    let (schema, stream) = guarded(format, path, || Stream::open(reader, limit_bytes))?;
    Rows::new(format, &schema, Box::new(stream), path)
}

/// Runs a step of a reader library. Some of them panic over a damaged file rather than saying so.
fn guarded<T>(format: &str, path: &Path, step: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(outcome) => outcome.map_err(|error| unreadable(format, path, error)),
        Err(_) => Err(unreadable(format, path, ArrowError::ParseError("its parts contradict each other".to_owned()))),
    }
}

fn unreadable(format: &str, path: &Path, error: ArrowError) -> Error {
    if let ArrowError::ExternalError(source) = &error
        && let Some(too_large) = source.downcast_ref::<TooLarge>()
    {
        return Error::input(format!("the file `{}` holds {too_large}", path.display())).hint(
            "write the file in smaller batches, of some thousand rows each; or raise `memory_limit_bytes`, of which a batch may take a fifth",
        );
    }
    Error::input(format!(
        "the file `{}` is {format} that cannot be read: it is damaged, cut off or of a kind not known here",
        path.display()
    ))
    .source(error)
}
