//! Parquet files: row groups bounded in rows and bytes, encodings chosen from the first rows, huge values without extra copies.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::arrow::ArrowSchemaConverter;
use ::parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use ::parquet::basic::{Compression as Codec, Encoding, GzipLevel, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::SchemaDescriptor;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::RecordBatch;

use super::encoding::{self, Choice, DICTIONARY_BYTES, SAMPLE_ROWS};
use super::statistics::Collector;
use super::{Compression, Options};
use crate::delta::StatisticsColumns;
use crate::{Error, Result};

/// Rows of a row group.
const ROW_GROUP_ROWS: usize = 131_072;
/// Encoded bytes of a row group, after which it is written out: this much waits in memory for each open file.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// In-memory bytes that are encoded before the size of the row group is looked at.
const SLICE_BYTES: usize = 16 << 20;
/// In-memory bytes of the batches that are held until the encodings are chosen.
const SAMPLE_BYTES: usize = 4 << 20;
/// A value above this has no bounds in any statistics, and its column no dictionary from there on: each would keep copies of it.
pub(super) const LARGE_VALUE_BYTES: usize = 1 << 20;
/// Bytes of a bound in Parquet's own statistics.
const BOUND_BYTES: usize = 64;
/// Memory of a closed row group's footer entry, per column: counted, since a long file has many.
const FOOTER_BYTES: usize = 1_024;

/// A data file that is being written.
///
/// The first rows are held back until the encodings can be chosen; then a row group at a time is in memory, encoded.
#[derive(Debug)]
pub struct FileBuilder<W: Write + Send> {
    schema: SchemaRef,
    codec: Codec,
    sample_limit_bytes: usize,
    stage: Stage<W>,
    statistics: Collector,
    rows: u64,
}

#[derive(Debug)]
enum Stage<W: Write + Send> {
    Sampling {
        sink: W,
        held: Vec<RecordBatch>,
        held_bytes: usize,
    },
    Encoding(Box<Encoder<W>>),
    /// Encoding failed; the sink is gone.
    Broken,
}

/// What a closed data file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its rows.
    pub rows: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The JSON text of `add.stats`.
    pub statistics: String,
}

impl<W: Write + Send> FileBuilder<W> {
    /// Returns an empty file that goes to `sink`. `schema` is without the partition columns.
    ///
    /// # Errors
    /// `Schema` when no column is left; `Config` when the codec has no such level; `Internal` for a type that tables do not have.
    pub fn new(sink: W, schema: SchemaRef, options: &Options, statistics: &StatisticsColumns) -> Result<Self> {
        if schema.fields().is_empty() {
            return Err(Error::schema("has no column beside its partition columns, and a data file needs one")
                .hint("leave one column out of `partition_by`"));
        }
        for field in schema.fields() {
            check_type(field.data_type()).map_err(|error| error.in_field(field.name()))?;
        }
        let sample_limit_bytes = usize::try_from(options.target_file_bytes).unwrap_or(usize::MAX).min(SAMPLE_BYTES);
        Ok(Self {
            codec: codec(options.compression)?,
            sample_limit_bytes,
            stage: Stage::Sampling { sink, held: Vec::new(), held_bytes: 0 },
            statistics: Collector::new(&schema, statistics),
            rows: 0,
            schema,
        })
    }

    /// Returns the schema of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the rows of `batch`, whose columns are those of the schema, in order.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` when the sink refuses; `Internal` when the batch is not of the schema. The file is lost then.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_batch(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.statistics.add(batch);
        self.rows += batch.num_rows() as u64;
        match &mut self.stage {
            Stage::Sampling { held, held_bytes, .. } => {
                *held_bytes += batch.get_array_memory_size();
                held.push(batch.clone());
                if *held_bytes >= self.sample_limit_bytes || self.rows >= SAMPLE_ROWS as u64 {
                    self.begin()?;
                }
                Ok(())
            }
            Stage::Encoding(encoder) => {
                let outcome = encoder.write(batch);
                if outcome.is_err() {
                    self.stage = Stage::Broken;
                }
                outcome.map_err(write_error)
            }
            Stage::Broken => Err(broken()),
        }
    }

    /// Returns the bytes written and those that the open row group will take, about. Rows that are held as the sample do not
    /// count: they are fewer than `target_file_bytes` in memory.
    pub fn encoded_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Encoding(encoder) => encoder.encoded_bytes() as u64,
            Stage::Sampling { .. } | Stage::Broken => 0,
        }
    }

    /// Returns the memory that the file holds: its sample or its open row group, and its footer.
    pub fn memory_bytes(&self) -> usize {
        match &self.stage {
            Stage::Encoding(encoder) => encoder.memory_bytes(),
            Stage::Sampling { held_bytes, .. } => *held_bytes,
            Stage::Broken => 0,
        }
    }

    /// Returns the rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file and returns its sink, with all bytes handed to it, and what it holds.
    ///
    /// # Errors
    /// As [`FileBuilder::write`].
    pub fn close(mut self) -> Result<(W, Written)> {
        if matches!(self.stage, Stage::Sampling { .. }) {
            self.begin()?;
        }
        let Stage::Encoding(encoder) = self.stage else { return Err(broken()) };
        let (sink, bytes) = encoder.close()?;
        Ok((sink, Written { rows: self.rows, bytes, statistics: self.statistics.to_json() }))
    }

    /// Chooses the encodings from the rows held, and writes them.
    fn begin(&mut self) -> Result<()> {
        let Stage::Sampling { sink, held, .. } = std::mem::replace(&mut self.stage, Stage::Broken) else {
            return Err(broken());
        };
        let mut encoder = Encoder::new(sink, self.schema.clone(), self.codec, encoding::choose(&held)).map_err(write_error)?;
        for batch in held {
            encoder.write(&batch).map_err(write_error)?;
        }
        self.stage = Stage::Encoding(Box::new(encoder));
        Ok(())
    }

    fn check_batch(&self, batch: &RecordBatch) -> Result<()> {
        let batch_schema = batch.schema_ref();
        if batch_schema.fields().len() != self.schema.fields().len() {
            let (given, wanted) = (batch_schema.fields().len(), self.schema.fields().len());
            return Err(Error::internal(format!("a batch of {given} columns was given to a file of {wanted}")));
        }
        for (given, wanted) in batch_schema.fields().iter().zip(self.schema.fields()) {
            if given.name() != wanted.name() || given.data_type() != wanted.data_type() {
                let message = format!("was given as `{}` of type {}", given.name(), given.data_type());
                return Err(Error::internal(message).in_field(wanted.name()));
            }
        }
        Ok(())
    }
}

/// Encodes batches into row groups. Row groups are put together here rather than by the library's `ArrowWriter`, because a column's
/// statistics and dictionary can be turned off from one row group to the next only so.
struct Encoder<W: Write + Send> {
    file: SerializedFileWriter<Counted<W>>,
    schema: SchemaRef,
    descriptor: SchemaDescriptor,
    codec: Codec,
    choices: Vec<Choice>,
    /// Per leaf: whether it held a value above [`LARGE_VALUE_BYTES`].
    is_large: Vec<bool>,
    factory: ArrowRowGroupWriterFactory,
    /// The columns of the open row group; none when no row group is open.
    columns: Vec<ArrowColumnWriter>,
    group_rows: usize,
}

impl<W: Write + Send> std::fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("choices", &self.choices).field("group_rows", &self.group_rows).finish_non_exhaustive()
    }
}

impl<W: Write + Send> Encoder<W> {
    fn new(sink: W, schema: SchemaRef, codec: Codec, mut choices: Vec<Choice>) -> Result<Self, ParquetError> {
        let descriptor = ArrowSchemaConverter::new().schema_root("schema").convert(&schema)?;
        choices.resize(descriptor.num_columns(), Choice::Plain);
        let is_large = vec![false; descriptor.num_columns()];
        let file_properties = WriterProperties::builder().set_created_by(created_by()).build();
        let sink = Counted { sink: Some(sink), bytes: 0 };
        let file = SerializedFileWriter::new(sink, descriptor.root_schema_ptr(), Arc::new(file_properties))?;
        let factory = factory(&schema, &descriptor, codec, &choices, &is_large)?;
        Ok(Self { file, schema, descriptor, codec, choices, is_large, factory, columns: Vec::new(), group_rows: 0 })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let rows = batch.num_rows();
        let room = ROW_GROUP_ROWS - self.group_rows;
        let first = if rows > 1 && encoding::batch_bytes(batch) > SLICE_BYTES { rows / 2 } else { rows };
        let first = first.min(room);
        if first < rows {
            self.write(&batch.slice(0, first))?;
            return self.write(&batch.slice(first, rows - first));
        }
        self.note_large_values(batch)?;
        if self.columns.is_empty() {
            self.columns = self.factory.create_column_writers(self.file.flushed_row_groups().len())?;
        }
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array)? {
                if let Some(column) = columns.next() {
                    column.write(&leaf)?;
                }
            }
        }
        self.group_rows += rows;
        if self.group_rows >= ROW_GROUP_ROWS || self.open_bytes() >= ROW_GROUP_BYTES {
            self.end_row_group()?;
        }
        Ok(())
    }

    /// Ends the row group before the first large value of a column, so that the next one leaves out what would copy it.
    fn note_large_values(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut is_new = false;
        for (is_large, leaf) in self.is_large.iter_mut().zip(encoding::leaves(batch)) {
            if !*is_large && encoding::has_value_over(&leaf.array, LARGE_VALUE_BYTES) {
                *is_large = true;
                is_new = true;
            }
        }
        if is_new {
            self.end_row_group()?;
            self.factory = factory(&self.schema, &self.descriptor, self.codec, &self.choices, &self.is_large)?;
        }
        Ok(())
    }

    /// Writes the open row group out, column by column, so that each frees its memory before the next is closed.
    fn end_row_group(&mut self) -> Result<(), ParquetError> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in std::mem::take(&mut self.columns) {
            column.close()?.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.group_rows = 0;
        Ok(())
    }

    fn open_bytes(&self) -> usize {
        self.columns.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    fn encoded_bytes(&self) -> usize {
        self.file.bytes_written() + self.open_bytes()
    }

    fn memory_bytes(&self) -> usize {
        let open: usize = self.columns.iter().map(ArrowColumnWriter::memory_size).sum();
        open + self.file.flushed_row_groups().len() * self.descriptor.num_columns() * FOOTER_BYTES
    }

    /// Returns the sink and the bytes that it took. The library's own `into_inner` hides what the sink says about the last bytes.
    fn close(mut self) -> Result<(W, u64)> {
        self.end_row_group().map_err(write_error)?;
        self.file.finish().map_err(write_error)?;
        let counted = self.file.inner_mut();
        counted.sink.take().map(|sink| (sink, counted.bytes)).ok_or_else(broken)
    }
}

/// Returns the maker of column writers for row groups that are written so. The library ties it to a file's properties, of which a
/// file has but one set; a file that goes nowhere carries ours.
fn factory(
    schema: &SchemaRef,
    descriptor: &SchemaDescriptor,
    codec: Codec,
    choices: &[Choice],
    is_large: &[bool],
) -> Result<ArrowRowGroupWriterFactory, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(codec)
        .set_dictionary_enabled(false)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(Some(BOUND_BYTES))
        .set_column_index_truncate_length(Some(BOUND_BYTES));
    if is_large.contains(&true) {
        // A page of version 1 is copied once more, together with its levels, before it is compressed.
        properties = properties.set_writer_version(WriterVersion::PARQUET_2_0);
    }
    for ((column, choice), is_large) in descriptor.columns().iter().zip(choices).zip(is_large) {
        let path = column.path().clone();
        let encoding = if *choice == Choice::Delta { Encoding::DELTA_BINARY_PACKED } else { Encoding::PLAIN };
        properties = properties.set_column_encoding(path.clone(), encoding);
        if *is_large {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        } else if *choice == Choice::Dictionary {
            properties = properties.set_column_dictionary_enabled(path, true);
        }
    }
    let nowhere = SerializedFileWriter::new(io::sink(), descriptor.root_schema_ptr(), Arc::new(properties.build()))?;
    Ok(ArrowRowGroupWriterFactory::new(&nowhere, schema.clone()))
}

/// In the form that parquet-mr parses; it distrusts statistics of writers that it cannot name.
fn created_by() -> String {
    format!("delta-load version {} (build parquet-rs)", env!("CARGO_PKG_VERSION"))
}

fn codec(compression: Compression) -> Result<Codec> {
    let unknown = |error: ParquetError| Error::config("`compression` has a level that its codec does not know").source(error);
    Ok(match compression {
        Compression::None => Codec::UNCOMPRESSED,
        Compression::Snappy => Codec::SNAPPY,
        Compression::Lz4 => Codec::LZ4_RAW,
        Compression::Gzip(level) => Codec::GZIP(GzipLevel::try_new(level).map_err(unknown)?),
        Compression::Zstd(level) => Codec::ZSTD(ZstdLevel::try_new(level).map_err(unknown)?),
    })
}

/// Refuses what would make a file that some reader takes for something else: nanoseconds, views, dictionaries, other list names.
fn check_type(data_type: &DataType) -> Result<()> {
    use arrow::datatypes::TimeUnit::Microsecond;
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Date32
        | DataType::Timestamp(Microsecond, None) => Ok(()),
        DataType::Timestamp(Microsecond, Some(zone)) if matches!(&**zone, "UTC" | "+00:00") => Ok(()),
        DataType::Decimal128(precision, scale) if (1..=38).contains(precision) && (0..=*precision as i8).contains(scale) => {
            Ok(())
        }
        DataType::Struct(fields) if !fields.is_empty() => fields.iter().try_for_each(|field| check_field(field)),
        DataType::List(element) if element.name() == "element" => check_field(element),
        DataType::Map(entries, _) if entries.name() == "key_value" => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 && fields[0].name() == "key" && fields[1].name() == "value" => {
                fields.iter().try_for_each(|field| check_field(field))
            }
            other => Err(Error::internal(format!("has map entries of type {other}"))),
        },
        other => Err(Error::internal(format!("has type {other}, which data files do not hold"))),
    }
}

fn check_field(field: &Field) -> Result<()> {
    check_type(field.data_type()).map_err(|error| error.in_field(field.name()))
}

/// A sink and the bytes that it took; the sink leaves when the file is closed.
#[derive(Debug)]
struct Counted<W> {
    sink: Option<W>,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sink = self.sink.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let taken = sink.write(bytes)?;
        self.bytes += taken as u64;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), W::flush)
    }
}

fn broken() -> Error {
    Error::internal("a data file was written to after an error")
}

fn write_error(error: ParquetError) -> Error {
    from_parquet(error, "the data file cannot be written", "the rows cannot be encoded as Parquet")
}

/// Returns the error of reading one of our own files back.
pub(super) fn read_error(error: ParquetError) -> Error {
    from_parquet(error, "the data file cannot be read back", "the data file is not what was written")
}

fn from_parquet(error: ParquetError, refused: &str, wrong: &str) -> Error {
    let error = match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => return from_io(*cause, refused),
            Err(cause) => ParquetError::External(cause),
        },
        other => other,
    };
    Error::internal(wrong).source(error)
}

/// Passes an error of ours through that travelled inside an `io::Error`, and sorts the others by what has to be done.
fn from_io(error: io::Error, refused: &str) -> Error {
    let kind = error.kind();
    let error = match error.downcast::<Error>() {
        Ok(ours) => return ours,
        Err(error) => error,
    };
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::denied(refused).source(error).hint("free some space and run the load again")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::denied(refused).source(error),
        _ => Error::unavailable(refused).source(error),
    }
}
