//! Record batches → data files, on threads of their own.
//!
//! A stream belongs to one encoder, so that its rows keep their order; several encoders work side by side. A file knows how many of
//! its rows came before the newest STATE of its stretch of the input: a load that ends badly commits just those.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tokio::sync::mpsc::UnboundedSender;

use super::committer::ToCommitter;
use super::gauge::Gauge;
use crate::data_file::{self, FileBuilder};
use crate::delta::StatisticsColumns;
use crate::error::{Error, Result};
use crate::report::Reporter;
use crate::schema::TableSchema;
use crate::seam::{Seam, fail_point};
use crate::store::{Store, Upload};

/// How many STATE messages came before.
pub(super) type StateCount = u64;

/// Text of a partition column's value; `None` for null.
pub(super) type PartitionValues = Vec<(String, Option<String>)>;

/// What the files of one stream have in common until its schema changes.
#[derive(Debug)]
pub(super) struct FilePlan {
    /// Name of the stream.
    pub name: String,
    /// Index of the stream.
    pub stream: usize,
    /// The table below the store's root.
    pub table_path: String,
    /// The schema of the table that the files are made for.
    pub table_schema: Arc<TableSchema>,
    /// The columns within the files.
    pub file_schema: SchemaRef,
    /// Names of the partition columns.
    pub partition_columns: Vec<String>,
    /// Which columns have statistics.
    pub statistics: StatisticsColumns,
    /// Codec and size.
    pub options: data_file::Options,
    /// Bytes that the stream's open files hold, for the router's choice of whom to flush.
    pub held: Arc<AtomicUsize>,
}

/// What the router asks of an encoder.
pub(super) enum ToEncoder {
    /// Write this batch.
    Write(Write),
    /// Close the open files of the stream.
    Close(usize),
    /// Close all open files: a cut.
    Barrier,
}

/// Rows of one stream, all under one plan.
pub(super) struct Write {
    pub plan: Arc<FilePlan>,
    pub batch: RecordBatch,
    /// Bytes to take off the gauge when it is written.
    pub bytes: usize,
    pub marks: Marks,
}

/// Where rows lie between the STATE messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// STATE messages before the first row.
    pub first: StateCount,
    /// STATE messages before the last row.
    pub last: StateCount,
    /// Rows before the newest of these STATE messages: the rows from this one on have seen `last` of them.
    pub rows_before_last: u64,
}

impl Marks {
    /// Returns how many of `rows` rows came before STATE number `count`, which is the newest one or older than all of them.
    pub(super) fn rows_before(&self, count: StateCount, rows: u64) -> u64 {
        if self.last < count {
            rows
        } else if self.first >= count {
            0
        } else {
            self.rows_before_last
        }
    }
}

/// A finished data file, uploaded or on its way.
pub(super) struct DataFile {
    pub plan: Arc<FilePlan>,
    /// The number of the cut that it was closed for, from 0.
    pub cut: u64,
    /// Below the table, raw.
    pub path: String,
    pub partition_values: PartitionValues,
    pub written: data_file::Written,
    pub modified_ms: i64,
    pub marks: Marks,
    /// Ends when the file is durable.
    pub durable: tokio::task::JoinHandle<Result<()>>,
}

struct OpenFile {
    builder: FileBuilder<Box<dyn Upload>>,
    path: String,
    partition_values: PartitionValues,
    marks: Marks,
    rows: u64,
    held: usize,
}

/// An encoder; see [`Encoder::run`].
pub(super) struct Encoder {
    pub index: usize,
    pub store: Arc<dyn Store>,
    pub gauge: Arc<Gauge>,
    pub committer: UnboundedSender<ToCommitter>,
    pub runtime: tokio::runtime::Handle,
    pub seam: Seam,
    pub report: Arc<Reporter>,
    /// Files of all streams that may be open here at once.
    pub open_files_limit: usize,
    /// One permit per file that is being made durable.
    pub finishing: Arc<tokio::sync::Semaphore>,
    /// Barriers passed.
    pub cut: u64,
}

/// Tells the router that an encoder which panicked will take nothing more.
struct PanicGuard(Arc<Gauge>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Error::internal("an encoder broke down"));
        }
    }
}

/// The files of one stream that are open, under one plan: one per partition, in the order of their opening.
struct OpenStream {
    plan: Arc<FilePlan>,
    files: Vec<OpenFile>,
    by_values: HashMap<PartitionValues, usize>,
}

impl Encoder {
    /// Works until the router hangs up. After a failure it goes on receiving, so that the router never waits for it, and writes nothing.
    pub(super) fn run(mut self, messages: Receiver<ToEncoder>) {
        let _guard = PanicGuard(self.gauge.clone());
        let mut streams: HashMap<usize, OpenStream> = HashMap::new();
        for message in messages {
            match message {
                ToEncoder::Write(write) => {
                    let bytes = write.bytes;
                    if !self.gauge.has_failed() {
                        self.note(self.write(&mut streams, write));
                    }
                    self.gauge.dequeue(bytes);
                }
                ToEncoder::Close(stream) => {
                    self.note(streams.remove(&stream).map_or(Ok(()), |open| self.close_all(open)));
                }
                ToEncoder::Barrier => {
                    // Noted before the barrier is told: behind it the committer takes every file for finished, and lets the STATE out.
                    self.note(streams.drain().try_for_each(|(_, open)| self.close_all(open)));
                    // Also after a failure: the committer counts.
                    drop(self.committer.send(ToCommitter::Barrier(self.index)));
                    self.cut += 1;
                }
            }
        }
    }

    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.gauge.fail(error);
        }
    }

    fn write(&self, streams: &mut HashMap<usize, OpenStream>, write: Write) -> Result<()> {
        let Write { plan, batch, marks, .. } = write;
        let is_other = |open: &OpenStream| !Arc::ptr_eq(&open.plan, &plan);
        if let Some(old) = streams.remove(&plan.stream) {
            if is_other(&old) {
                self.close_all(old)?;
            } else {
                streams.insert(plan.stream, old);
            }
        }
        for partition in data_file::split_partitions(&batch, &plan.partition_columns)? {
            if partition.empty_texts > 0 {
                let what = "an empty text in a partition column cannot be told from null there: it is stored as null";
                self.report.warn(Some(&plan.name), what);
            }
            let is_open = streams.get(&plan.stream).is_some_and(|open| open.by_values.contains_key(&partition.values));
            if !is_open && streams.values().map(|open| open.files.len()).sum::<usize>() >= self.open_files_limit {
                self.close_fullest(streams)?;
            }
            let open = streams.entry(plan.stream).or_insert_with(|| OpenStream {
                plan: plan.clone(),
                files: Vec::new(),
                by_values: HashMap::new(),
            });
            let rows_before_last = match &partition.rows {
                None => marks.rows_before_last,
                Some(rows) => rows.partition_point(|row| u64::from(*row) < marks.rows_before_last) as u64,
            };
            let part = Marks { rows_before_last, ..marks };
            let index = match open.by_values.get(&partition.values) {
                Some(index) => *index,
                None => {
                    open.files.push(self.open(&plan, partition.values.clone(), part)?);
                    open.by_values.insert(partition.values.clone(), open.files.len() - 1);
                    open.files.len() - 1
                }
            };
            let file = &mut open.files[index];
            file.write(&partition.batch, part).map_err(|error| error.at_table(self.table(&plan)))?;
            let held = file.builder.memory_bytes();
            self.gauge.encoder_changed(file.held, held);
            plan.held.fetch_add(held, Ordering::Relaxed);
            plan.held.fetch_sub(file.held, Ordering::Relaxed);
            file.held = held;
            if file.builder.encoded_bytes() >= plan.options.target_file_bytes {
                self.close_one(open, index)?;
            }
        }
        Ok(())
    }

    /// Closes the open file that holds most, of all streams.
    fn close_fullest(&self, streams: &mut HashMap<usize, OpenStream>) -> Result<()> {
        let files = streams
            .iter()
            .flat_map(|(stream, open)| open.files.iter().enumerate().map(move |(index, file)| (file.held, *stream, index)));
        match files.max() {
            Some((_, stream, index)) => streams.get_mut(&stream).map_or(Ok(()), |open| self.close_one(open, index)),
            None => Ok(()),
        }
    }

    fn table(&self, plan: &FilePlan) -> String {
        format!("{}{}", self.store.url(), plan.table_path)
    }

    fn open(&self, plan: &FilePlan, partition_values: PartitionValues, marks: Marks) -> Result<OpenFile> {
        let (path, builder) = new_file(&*self.store, plan, &partition_values, &self.seam)?;
        let marks = Marks { rows_before_last: 0, last: marks.first, ..marks };
        Ok(OpenFile { builder, path, partition_values, marks, rows: 0, held: 0 })
    }

    fn close_one(&self, open: &mut OpenStream, index: usize) -> Result<()> {
        let file = open.files.remove(index);
        open.by_values.remove(&file.partition_values);
        for at in open.by_values.values_mut() {
            if *at > index {
                *at -= 1;
            }
        }
        self.close(&open.plan, file)
    }

    fn close_all(&self, open: OpenStream) -> Result<()> {
        open.files.into_iter().try_for_each(|file| self.close(&open.plan, file))
    }

    fn close(&self, plan: &Arc<FilePlan>, file: OpenFile) -> Result<()> {
        self.gauge.encoder_changed(file.held, 0);
        plan.held.fetch_sub(file.held, Ordering::Relaxed);
        if self.gauge.has_failed() {
            // Dropped unfinished, the upload removes itself.
            return Ok(());
        }
        let (written, durable) = finish(file.builder, &self.runtime, self.finishing.clone())?;
        let data_file = DataFile {
            plan: plan.clone(),
            cut: self.cut,
            path: file.path,
            partition_values: file.partition_values,
            written,
            modified_ms: self.seam.now_us() / 1000,
            marks: file.marks,
            durable,
        };
        // The committer is gone only after a failure, which it has noted.
        drop(self.committer.send(ToCommitter::File(data_file)));
        Ok(())
    }
}

impl OpenFile {
    fn write(&mut self, batch: &RecordBatch, marks: Marks) -> Result<()> {
        if marks.last > self.marks.last || self.rows == 0 {
            self.marks.rows_before_last = self.rows + marks.rows_before_last;
            self.marks.last = marks.last;
        }
        self.rows += batch.num_rows() as u64;
        self.builder.write(batch)
    }
}

/// Begins a data file of a fresh name. Blocks.
pub(super) fn new_file(
    store: &dyn Store,
    plan: &FilePlan,
    partition_values: &PartitionValues,
    seam: &Seam,
) -> Result<(String, FileBuilder<Box<dyn Upload>>)> {
    let name = format!("part-{}.{}.parquet", seam.uuid(), plan.options.compression.extension());
    let directory = data_file::directory(partition_values);
    let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
    let upload = store.create_file(&format!("{}/{path}", plan.table_path))?;
    let builder = FileBuilder::new(upload, plan.file_schema.clone(), &plan.options, &plan.statistics)?;
    Ok((path, builder))
}

/// Ends a data file and makes it durable in the background, with at most as many others as `finishing` has permits. Blocks.
pub(super) fn finish(
    builder: FileBuilder<Box<dyn Upload>>,
    runtime: &tokio::runtime::Handle,
    finishing: Arc<tokio::sync::Semaphore>,
) -> Result<(data_file::Written, tokio::task::JoinHandle<Result<()>>)> {
    if fail_point("file:before_close") {
        return Err(Error::unavailable("a data file cannot be closed (fail point)"));
    }
    let (upload, written) = builder.close()?;
    let permit = runtime.block_on(finishing.acquire_owned());
    let permit = permit.map_err(|error| Error::internal("no file can be finished any more").source(error))?;
    let durable = runtime.spawn_blocking(move || {
        let _permit = permit;
        upload.finish()?;
        if fail_point("file:after_put") {
            return Err(Error::unavailable("a data file cannot be made durable (fail point)"));
        }
        Ok(())
    });
    Ok((written, durable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_knows_its_rows_before_a_state() {
        let marks = Marks { first: 2, last: 4, rows_before_last: 30 };
        assert_eq!(marks.rows_before(5, 50), 50);
        assert_eq!(marks.rows_before(4, 50), 30);
        assert_eq!(marks.rows_before(2, 50), 0);
        assert_eq!(Marks { first: 4, last: 4, rows_before_last: 0 }.rows_before(4, 50), 0);
    }
}
