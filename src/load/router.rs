//! Lines → streams: one [`Stream`] per Singer stream, arrival order kept within a stream.
//!
//! The router owns all that depends on the order of the input. It never waits for the store, except when two cuts are on their way already
//! or a table is looked up for the first time.

mod cuts;
mod figures;
mod streams;

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::ack::State;
use super::batch_file::{BatchFile, BatchFiles};
use super::committer::ToCommitter;
use super::encoder::{StateCount, ToEncoder};
use super::gauge::Gauge;
use super::plan::{OnBadLine, Plan};
use super::stream::Stream;
use crate::batch::{Fault, OnBadValue, RowMeta};
use crate::error::{Error, InputLine, Result};
use crate::report::Reporter;
use crate::schema::{Growth, MetadataColumn, Missing};
use crate::seam::Seam;
use crate::singer::{self, BatchMessage, Message, MessageFault};
use crate::source;
use crate::store::Store;

/// What the router works with.
pub(super) struct Stages {
    pub store: Arc<dyn Store>,
    pub gauge: Arc<Gauge>,
    pub report: Arc<Reporter>,
    pub seam: Seam,
    pub runtime: tokio::runtime::Handle,
    pub encoders: Vec<SyncSender<ToEncoder>>,
    pub committer: UnboundedSender<ToCommitter>,
    pub cuts_allowed: Arc<tokio::sync::Semaphore>,
    pub run_id: String,
}

pub(super) struct Router {
    plan: Plan,
    stages: Stages,
    streams: Vec<Stream>,
    by_name: HashMap<String, usize>,
    by_table: HashMap<String, String>,
    /// The stream of the last record: mostly that of the next.
    last_stream: usize,
    states: StateCount,
    /// The newest STATE; taken when a cut covers it.
    newest_state: Option<State>,
    /// The line of the newest STATE.
    newest_state_line: u64,
    /// When the first change came that no cut covers.
    dirty_since: Option<Duration>,
    /// Whether such a change came before the newest STATE.
    is_dirty_before_state: bool,
    /// When the first change came after the newest STATE.
    dirty_after_state_since: Option<Duration>,
    /// The last line that a cut covers.
    cut_line: u64,
    line: InputLine,
    received_at_us: i64,
    sync_started_at_ms: i64,
    /// BATCH files that no cut covers yet, each with its stream, to be deleted after theirs.
    batch_files: Vec<(StateCount, usize, BatchFile)>,
    batches: BatchFiles,
    is_last_line_open: bool,
    is_probed: bool,
    /// The last STATE that was told without a cut, while nothing came after it: a newer one takes its place.
    told_state: Option<Arc<Mutex<Option<State>>>>,
    /// Input since the memory of all streams was last added up.
    unweighed_bytes: usize,
}

/// A batch goes to its encoder at so many bytes, of its input and for its columns: enough for the encoder's fixed costs to vanish, and the queue stays small.
const BATCH_BYTES: usize = 4 << 20;
/// And at so many rows, for very narrow records.
const BATCH_ROWS: usize = 64 << 10;
/// The memory of all streams is added up whenever so much input has come: adding up a thousand streams costs less than reading it.
const WEIGHING_BYTES: usize = 1 << 20;
/// Bytes that a value takes in the columns at the most often.
const COLUMN_BYTES: usize = 8;
/// Rejects of all streams are written ahead of their cut when they hold so much.
const REJECT_BYTES: usize = 8 << 20;

impl Router {
    pub(super) fn new(plan: Plan, stages: Stages) -> Self {
        let sync_started_at_ms = stages.seam.now_us() / 1000;
        let batches = BatchFiles::new(plan.working_directory.clone(), &plan.store, stages.runtime.clone());
        Self {
            plan,
            stages,
            streams: Vec::new(),
            by_name: HashMap::new(),
            by_table: HashMap::new(),
            last_stream: 0,
            states: 0,
            newest_state: None,
            newest_state_line: 0,
            dirty_since: None,
            is_dirty_before_state: false,
            dirty_after_state_since: None,
            cut_line: 0,
            line: InputLine(0),
            received_at_us: sync_started_at_ms * 1000,
            sync_started_at_ms,
            batch_files: Vec::new(),
            batches,
            is_last_line_open: false,
            is_probed: false,
            told_state: None,
            unweighed_bytes: 0,
        }
    }

    /// Takes the time for the rows of a chunk that was just received.
    pub(super) fn chunk_received(&mut self) {
        self.received_at_us = self.stages.seam.now_us();
    }

    /// Does nothing for a while.
    pub(super) fn pause(&self, time: Duration) {
        self.stages.runtime.block_on(self.stages.seam.sleep(time));
    }

    /// Says that the next line is the last one and has no line end: it may have been cut off.
    pub(super) fn last_line_is_open(&mut self) {
        self.is_last_line_open = true;
    }

    /// Takes one line of the input.
    ///
    /// **Errors**: whatever makes the line a failing input, with its number and stream.
    pub(super) fn line(&mut self, line: InputLine, text: &[u8], is_utf8: bool) -> Result<()> {
        self.line = line;
        if is_utf8 && self.fast_record(text).map_err(|error| error.at_line(line))? {
            return Ok(());
        }
        let message = match singer::parse(text) {
            Ok(message) => message,
            Err(fault) => return self.bad_line(text, fault),
        };
        let result = match message {
            Message::Record(record) => match self.by_name.get(record.stream.as_ref()) {
                Some(index) => {
                    let time_extracted = record.time_extracted.as_deref().map(str::as_bytes);
                    self.record(*index, record.record, Origin::Message, time_extracted, record.version)
                }
                None => Err(before_schema("RECORD", &record.stream)),
            },
            Message::State(state) => self.state(&state),
            Message::Schema(schema) => {
                let stream = schema.stream.clone();
                self.schema(schema).map_err(|error| error.in_stream(stream))
            }
            Message::Batch(batch) => match self.by_name.get(batch.stream.as_str()) {
                Some(index) => self.batch(*index, &batch).map_err(|error| error.in_stream(batch.stream)),
                None => Err(before_schema("BATCH", &batch.stream)),
            },
            Message::ActivateVersion(activate) => match self.by_name.get(activate.stream.as_str()) {
                Some(index) => self.activate_version(*index),
                None => Err(before_schema("ACTIVATE_VERSION", &activate.stream)),
            },
        };
        result.map_err(|error| error.at_line(line))
    }

    /// Takes a RECORD line of the usual form on the direct path; false leaves everything as it was.
    fn fast_record(&mut self, text: &[u8]) -> Result<bool> {
        let Some(head) = singer::record_head(text) else { return Ok(false) };
        let index = match self.streams.get(self.last_stream) {
            Some(stream) if stream.name.as_bytes() == head.stream => self.last_stream,
            _ => match std::str::from_utf8(head.stream).ok().and_then(|name| self.by_name.get(name)) {
                Some(index) => *index,
                None => return Ok(false),
            },
        };
        let stream = &mut self.streams[index];
        if stream.validates() {
            return Ok(false);
        }
        let Some(consumed) = stream.builder.push_fast(&text[head.record_at..]) else { return Ok(false) };
        let tail = singer::record_tail(&text[head.record_at + consumed..], &head.tail);
        let Some(tail) = tail
            .filter(|tail| tail.version.is_none() || stream.has_version_column || !stream.plan.process_activate_version_messages)
        else {
            stream.builder.undo_row();
            return Ok(false);
        };
        self.last_stream = index;
        if stream.needs_meta {
            let meta = self.meta(index, tail.time_extracted, tail.version)?;
            self.streams[index].builder.end_row(&meta);
        } else {
            stream.builder.end_row(&RowMeta::default());
        }
        self.added(index, consumed)?;
        Ok(true)
    }

    /// Adds a record of any form.
    fn record(
        &mut self,
        index: usize,
        record: &[u8],
        origin: Origin,
        time_extracted: Option<&[u8]>,
        version: Option<i64>,
    ) -> Result<()> {
        let stream = &mut self.streams[index];
        if version.is_some() && stream.plan.process_activate_version_messages && !stream.has_version_column {
            self.grow(index, &[Missing::Metadata(MetadataColumn::TableVersion)])
                .map_err(|error| self.name_stream(index, error))?;
        }
        let stream = &self.streams[index];
        if stream.validates()
            && let Err(error) = stream.validate(record)
        {
            return self.bad_record(index, record, origin, error);
        }
        let meta = self.meta(index, time_extracted, version)?;
        loop {
            let stream = &mut self.streams[index];
            match stream.builder.push(record, self.line, &meta, &mut stream.tally) {
                Ok(()) => return self.added(index, record.len()),
                Err(Fault::Missing(missing)) => {
                    let growth = self.grow(index, &missing).map_err(|error| self.name_stream(index, error))?;
                    if growth == Growth::DiscardRow {
                        self.stages.report.discarded(&self.streams[index].name, 1);
                        return self.changed(index);
                    }
                }
                Err(Fault::MissingKey { key }) => {
                    return Err(self.name_stream(
                        index,
                        Error::input(format!("a record lacks the key property `{key}`"))
                            .hint("correct the tap, or set `key_properties` for the stream"),
                    ));
                }
                Err(Fault::BadValue(error)) => return self.bad_record(index, record, origin, error),
                Err(Fault::NotAnObject) => {
                    return Err(self.name_stream(index, Error::input("`record` is not an object")));
                }
                Err(Fault::Malformed { detail, offset }) => {
                    if let Origin::File(records) = origin
                        && self.plan.on_bad_line == OnBadLine::Skip
                        && !records.is_open()
                    {
                        let what =
                            format!("{} is not JSON ({detail}, at byte {}): {}", records.place(), offset + 1, excerpt(record));
                        self.stages.report.skipped_line(self.line, &what);
                        return Ok(());
                    }
                    let error = Error::input(format!("the record is not JSON: {detail}, at byte {}", offset + 1));
                    return Err(self.name_stream(index, error));
                }
            }
        }
    }

    fn name_stream(&self, index: usize, error: Error) -> Error {
        error.in_stream(self.streams[index].name.clone())
    }

    fn meta(&self, index: usize, time_extracted: Option<&[u8]>, version: Option<i64>) -> Result<RowMeta> {
        let stream = &self.streams[index];
        if !stream.needs_meta {
            return Ok(RowMeta::default());
        }
        let extracted_at_us = match time_extracted {
            None => None,
            Some(text) => Some(extracted_at(text).ok_or_else(|| {
                let shown = String::from_utf8_lossy(text).into_owned();
                self.name_stream(index, Error::input(format!("`time_extracted` is \"{shown}\", which is not a date-time")))
            })?),
        };
        let batched_at_us = if stream.builder.rows() == 0 { self.received_at_us } else { stream.batched_at_us };
        Ok(RowMeta {
            extracted_at_us: Some(extracted_at_us.unwrap_or(self.received_at_us)),
            received_at_us: self.received_at_us,
            batched_at_us,
            sequence: self.received_at_us / 1000,
            table_version: version.filter(|_| stream.plan.process_activate_version_messages),
            sync_started_at: Some(self.sync_started_at_ms),
        })
    }

    /// Books the row that was just added and passes the batch on if it is full.
    fn added(&mut self, index: usize, bytes: usize) -> Result<()> {
        let stream = &mut self.streams[index];
        stream.row_added(self.states);
        if stream.builder.rows() == 1 {
            stream.batched_at_us = self.received_at_us;
        }
        stream.unreported.0 += 1;
        stream.unreported.1 += bytes as u64;
        // A short record of a wide stream costs its columns, not its text.
        let weight = bytes + stream.width * COLUMN_BYTES;
        stream.batch_weight += weight;
        let is_full = stream.builder.rows() >= BATCH_ROWS || stream.batch_weight >= BATCH_BYTES || stream.builder.is_full();
        let is_overwrite = stream.is_overwrite();
        if !is_overwrite && self.dirty_after_state_since.is_none() {
            self.note_change();
        }
        if is_full {
            self.flush(index)?;
        }
        self.unweighed_bytes += weight;
        if self.unweighed_bytes >= WEIGHING_BYTES {
            self.unweighed_bytes = 0;
            self.relieve_memory()?;
        }
        Ok(())
    }

    /// Books a change of a stream that is no row (a schema, a reject).
    fn changed(&mut self, index: usize) -> Result<()> {
        self.note_change_of(index);
        let stream = &mut self.streams[index];
        stream.unreported.0 += 1;
        if self.streams.iter().map(|stream| stream.rejects.bytes()).sum::<usize>() >= REJECT_BYTES {
            self.write_rejects_ahead()?;
        }
        Ok(())
    }

    /// Writes what all streams set aside before its cut. What a bad end leaves out comes again, and is then set aside again.
    fn write_rejects_ahead(&mut self) -> Result<()> {
        for index in 0..self.streams.len() {
            let stream = &mut self.streams[index];
            if let Some((path, bytes)) = stream.rejects.take(&stream.name, &self.stages.run_id, None)? {
                // They are in nobody's hands any more: no STATE may leave after a failure.
                let put = self.stages.runtime.block_on(self.stages.store.put(&path, bytes));
                put.map_err(|error| self.stages.gauge.broken(error))?;
            }
        }
        Ok(())
    }

    /// Notes a change of a stream, unless it waits for the end anyway.
    fn note_change_of(&mut self, index: usize) {
        if !self.streams[index].is_overwrite() {
            self.note_change();
        }
    }

    fn note_change(&mut self) {
        let now = self.stages.seam.elapsed();
        self.dirty_since.get_or_insert(now);
        self.dirty_after_state_since.get_or_insert(now);
    }

    fn grow(&mut self, index: usize, missing: &[Missing]) -> Result<Growth> {
        let states = self.states;
        let (growth, rows) = self.streams[index].grow(missing, states)?;
        if let Some(rows) = rows {
            self.send(index, rows)?;
        }
        self.tell_notices(index);
        Ok(growth)
    }

    /// Follows `on_bad_value`, as far as it is not done where the value was read.
    fn bad_record(&mut self, index: usize, record: &[u8], origin: Origin, error: Error) -> Result<()> {
        let (states, line) = (self.states, self.line);
        let stream = &mut self.streams[index];
        if stream.plan.batch.on_bad_value != OnBadValue::Reject {
            return Err(error.in_stream(stream.name.clone()));
        }
        let limit = stream.plan.max_rejects;
        if stream.rejects.count >= limit {
            let hint = "look at what was set aside under `_rejects`, correct the tap, or raise `max_rejects`";
            return Err(Error::input(format!(
                "more than {limit} records of the stream cannot be stored, the last because: {error}"
            ))
            .in_stream(stream.name.clone())
            .hint(hint));
        }
        let place = match origin {
            Origin::Message => None,
            Origin::File(records) => Some(records.place()),
        };
        stream.rejects.add(&stream.name, (line, place.as_deref()), &error, record, states)?;
        self.stages.report.rejected(&stream.name, 1);
        self.changed(index)
    }

    fn bad_line(&mut self, text: &[u8], fault: MessageFault) -> Result<()> {
        let excerpt = excerpt(text);
        let error = match fault {
            MessageFault::NotJson(fault) => {
                let detail = format!("{}, at byte {}", fault.what, fault.offset + 1);
                if self.plan.on_bad_line == OnBadLine::Skip && !self.is_last_line_open {
                    self.stages.report.skipped_line(self.line, &format!("it is not JSON ({detail}): {excerpt}"));
                    return Ok(());
                }
                let what =
                    if self.is_last_line_open { "the input ends within a line that is not JSON" } else { "the line is not JSON" };
                Error::input(format!("{what} ({detail}): {excerpt}")).hint(
                    "let nothing but Singer messages into the input, or set `on_bad_line = \"skip\"` to leave such lines out",
                )
            }
            MessageFault::Invalid(what) => Error::input(format!("{what}: {excerpt}")).hint("correct the tap"),
        };
        Err(error.at_line(self.line))
    }

    fn batch(&mut self, index: usize, message: &BatchMessage) -> Result<()> {
        let mut record = Vec::new();
        for entry in &message.manifest {
            let (mut records, file) = self.batches.open(entry, self.line_limit())?;
            while records.next_into(&mut record)? {
                let time_extracted = message.time_extracted.as_deref().map(str::as_bytes);
                let taken = self.record(index, &record, Origin::File(&records), time_extracted, message.version);
                taken.map_err(|error| error.in_place(records.place()))?;
                self.stages.gauge.go_on()?;
            }
            if self.streams[index].plan.clean_up_batch_files {
                self.batch_files.push((self.states, index, file));
            }
        }
        self.note_change_of(index);
        Ok(())
    }

    /// The longest line that is taken, in bytes.
    pub(super) fn line_limit(&self) -> usize {
        usize::try_from(self.plan.memory_limit_bytes / 5).unwrap_or(usize::MAX)
    }

    fn activate_version(&mut self, index: usize) -> Result<()> {
        let stream = &mut self.streams[index];
        stream.is_unended = false;
        // In overwrite mode the earlier versions go with the commit.
        if stream.is_overwrite() || !stream.plan.process_activate_version_messages {
            return Ok(());
        }
        Err(Error::input("ACTIVATE_VERSION removes rows of earlier versions, which this version of delta-load cannot do")
            .in_stream(stream.name.clone())
            .hint("set `process_activate_version_messages = false` to keep the rows of all versions"))
    }

    /// Returns the line of the newest STATE, 0 before the first.
    pub(super) fn newest_state_line(&self) -> u64 {
        self.newest_state_line
    }

    fn tell(&self, message: ToCommitter) {
        // The committer is gone only after a failure that it has noted.
        drop(self.stages.committer.send(message));
    }
}

/// Where a record stands.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// In a RECORD message.
    Message,
    /// The last one of a BATCH file.
    File(&'a source::Records),
}

/// The beginning of what a message quotes.
fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(200).collect()
}

/// Microseconds since 1970 of a `time_extracted`; one without an offset is UTC.
fn extracted_at(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim().replacen(' ', "T", 1);
    match chrono::DateTime::parse_from_rfc3339(&text) {
        Ok(time) => Some(time.timestamp_micros()),
        Err(_) => Some(text.parse::<chrono::NaiveDateTime>().ok()?.and_utc().timestamp_micros()),
    }
}

fn before_schema(kind: &str, stream: &str) -> Error {
    Error::input(format!("a {kind} came before any SCHEMA of the stream"))
        .in_stream(stream)
        .hint("correct the tap: a SCHEMA message comes first")
}
