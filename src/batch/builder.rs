//! The builder of one stream's batches: rows in, record batches out.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::arrays::array_of;
use super::column::{Column, Values};
use super::direct::{self, Dates};
use super::exact::{Exact, Stop};
use super::fields::Fields;
use super::json::{end_of_value, skip_white};
use super::moment;
use super::tally::Tally;
use super::{OnBadValue, Options};
use crate::schema::{Fill, MetadataColumn, Missing, StreamLayout};
use crate::{Error, InputLine, Result};

/// What a row gets besides its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowMeta {
    /// `time_extracted`, microseconds since 1970.
    pub extracted_at_us: Option<i64>,
    /// When the line came, microseconds since 1970.
    pub received_at_us: i64,
    /// When the batch was begun, microseconds since 1970.
    pub batched_at_us: i64,
    /// Milliseconds of receipt.
    pub sequence: i64,
    /// The message's `version`. A version needs its column: without one the record gets [`Fault::Missing`], so a caller that does not
    /// want it passes `None`.
    pub table_version: Option<i64>,
    /// When the run began, milliseconds since 1970.
    pub sync_started_at: Option<i64>,
}

/// Why a record was not taken. Nothing of it is left in the builder.
#[derive(Debug)]
pub enum Fault {
    /// The layout lacks all this, and every value that has a column fits: grow the schema, [`BatchBuilder::extend`], push again.
    Missing(Vec<Missing>),
    /// A key property is not in the record.
    MissingKey {
        /// Its name.
        key: String,
    },
    /// A value does not fit its column; the error says what does not fit where, but neither stream nor line.
    BadValue(Error),
    /// The record is JSON, but no object.
    NotAnObject,
    /// The record is not JSON.
    Malformed {
        /// What is wrong.
        detail: String,
        /// Where, in bytes from the record's begin.
        offset: usize,
    },
}

/// In-memory bytes past which a batch is to be closed.
const FULL_BYTES: usize = 64 << 20;
/// Bytes or elements of one column past which a batch is to be closed: offsets have 31 bits, and one more record must fit.
const FULL_COLUMN: usize = 1 << 30;
/// Pushed bytes after which the memory is measured again.
const MEASURE_BYTES: usize = 256 << 10;
/// Refusals in a row after which the fast path rests, and for how many records: a stream that needs the exact path for every record
/// shall not pay for both.
const REFUSALS: u32 = 8;
const REST: u32 = 64;

/// Builds the record batches of one stream.
#[derive(Debug)]
pub struct BatchBuilder {
    layout: Arc<StreamLayout>,
    options: Options,
    fields: Fields,
    metadata: Vec<(usize, MetadataColumn)>,
    arrow_schema: Option<SchemaRef>,
    rows: usize,
    is_row_open: bool,
    dates: Dates,
    refusals: u32,
    rest: u32,
    /// Nothing in the offset buffers can be beyond this.
    offset_bound: usize,
    unmeasured_bytes: usize,
    open_bytes: usize,
    is_full: bool,
}

impl BatchBuilder {
    /// Returns an empty builder for `layout`.
    pub fn new(layout: Arc<StreamLayout>, options: Options) -> Self {
        let fields = Fields::new(&layout.layout, &layout.table_schema.fields, 0);
        Self {
            metadata: metadata_of(&fields),
            layout,
            options,
            fields,
            arrow_schema: None,
            rows: 0,
            is_row_open: false,
            dates: Dates::default(),
            refusals: 0,
            rest: 0,
            offset_bound: 0,
            unmeasured_bytes: 0,
            open_bytes: 0,
            is_full: false,
        }
    }

    /// Returns the layout that rows are built by.
    pub fn layout(&self) -> &Arc<StreamLayout> {
        &self.layout
    }

    /// Takes a record the exact way; the row is complete. `record` is the JSON text of the record object and may hold invalid UTF-8,
    /// lone surrogates and bare NaN.
    ///
    /// Errors: see [`Fault`]; the builder is then as it was before.
    pub fn push(&mut self, record: &[u8], line: InputLine, meta: &RowMeta, tally: &mut Tally) -> Result<(), Fault> {
        self.undo_row();
        let begin = skip_white(record, 0);
        let malformed = |detail: &str, offset| Fault::Malformed { detail: detail.to_owned(), offset };
        let end = end_of_value(record, begin).map_err(|wrong| malformed(wrong.detail, wrong.offset))?;
        if skip_white(record, end) != record.len() {
            return Err(malformed("the record goes on after its end", end));
        }
        if record.get(begin) != Some(&b'{') {
            return Err(Fault::NotAnObject);
        }
        if meta.table_version.is_some() && self.fields.metadata_column(MetadataColumn::TableVersion).is_none() {
            return Err(Fault::Missing(vec![Missing::Metadata(MetadataColumn::TableVersion)]));
        }
        if !self.has_room(record.len()) {
            let error = Error::input(format!("a record of {} bytes does not fit into a batch", record.len()));
            return Err(Fault::BadValue(error));
        }
        let mut exact = Exact::new(&self.options);
        let object = record.get(begin..end).unwrap_or_default();
        let pushed = exact.record(object, &mut self.fields, self.rows);
        let missing = exact.take_missing();
        match pushed {
            Ok(()) if !missing.is_empty() => {
                self.fields.truncate(self.rows);
                Err(Fault::Missing(missing))
            }
            Ok(()) => {
                exact.into_tally(tally, line);
                self.open_bytes = record.len();
                self.complete_row(meta);
                Ok(())
            }
            Err(stop) => {
                self.fields.truncate(self.rows);
                Err(match stop {
                    Stop::MissingKey(key) => Fault::MissingKey { key },
                    Stop::Bad(error) => Fault::BadValue(self.advise(error, exact.is_fatal())),
                })
            }
        }
    }

    /// Tries the fast path on text that is valid UTF-8 and begins at the record's `{`. Returns the bytes of the record; the row
    /// counts from [`BatchBuilder::end_row`] on. `None`: nothing is changed, [`BatchBuilder::push`] decides.
    pub fn push_fast(&mut self, text: &[u8]) -> Option<usize> {
        self.undo_row();
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let read = direct::record(text, &mut self.fields, self.rows, &mut self.dates, &self.options);
        // Fewer bytes were added than read, so that room is asked for after the fact.
        match read.filter(|consumed| self.has_room(*consumed)) {
            Some(consumed) => {
                self.refusals = 0;
                self.is_row_open = true;
                self.open_bytes = consumed;
                Some(consumed)
            }
            None => {
                self.fields.truncate(self.rows);
                self.refusals += 1;
                if self.refusals >= REFUSALS {
                    self.refusals = 0;
                    self.rest = REST;
                }
                None
            }
        }
    }

    /// Completes the row that [`BatchBuilder::push_fast`] opened.
    pub fn end_row(&mut self, meta: &RowMeta) {
        if self.is_row_open {
            self.complete_row(meta);
        }
    }

    /// Takes back the row that [`BatchBuilder::push_fast`] opened.
    pub fn undo_row(&mut self) {
        if self.is_row_open {
            self.fields.truncate(self.rows);
            self.is_row_open = false;
        }
    }

    /// Goes over to a layout that has all columns of this one, at any depth; new ones are null in the rows so far.
    ///
    /// Errors: `Internal` when a column is gone or has another type; finish the batch and make a new builder then.
    pub fn extend(&mut self, layout: Arc<StreamLayout>) -> Result<()> {
        self.undo_row();
        self.fields.extend(&layout.layout, &layout.table_schema.fields, self.rows)?;
        self.metadata = metadata_of(&self.fields);
        self.layout = layout;
        self.arrow_schema = None;
        self.measure();
        Ok(())
    }

    /// Returns the complete rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the memory that the rows so far hold, in bytes.
    pub fn bytes(&self) -> usize {
        self.fields.columns.iter().map(Column::memory_bytes).sum()
    }

    /// Tells whether the batch should be finished before the next row: 64 MiB in all, or a column on its way to 2 GiB.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the rows so far as one record batch of [`crate::schema::TableSchema::arrow_schema`]; the builder is empty afterwards.
    ///
    /// Errors: `Internal` when the schema is not the layout's.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        self.undo_row();
        let schema = match &self.arrow_schema {
            Some(schema) => schema.clone(),
            None => self.arrow_schema.insert(self.layout.table_schema.arrow_schema()?).clone(),
        };
        let rows = std::mem::take(&mut self.rows);
        let columns = self.fields.take().columns;
        self.offset_bound = 0;
        self.unmeasured_bytes = 0;
        self.is_full = false;
        let arrays = columns.into_iter().zip(schema.fields()).map(|(column, field)| array_of(column, field));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        arrays
            .collect::<Result<Vec<_>, _>>()
            .and_then(|arrays| RecordBatch::try_new_with_options(schema.clone(), arrays, &options))
            .map_err(|error| Error::internal("the rows do not make a batch of the table's schema").source(error))
    }

    #[cfg(test)]
    pub(super) fn content(&self) -> &Fields {
        &self.fields
    }

    /// Fills the metadata columns and counts the row.
    fn complete_row(&mut self, meta: &RowMeta) {
        for (index, metadata) in &self.metadata {
            let Some(column) = self.fields.columns.get_mut(*index) else { continue };
            if column.len() > self.rows {
                continue;
            }
            match metadata {
                MetadataColumn::ExtractedAt => push_time(column, meta.extracted_at_us),
                MetadataColumn::ReceivedAt => push_time(column, Some(meta.received_at_us)),
                MetadataColumn::BatchedAt => push_time(column, Some(meta.batched_at_us)),
                MetadataColumn::DeletedAt => push_time(column, None),
                MetadataColumn::Sequence => push_long(column, Some(meta.sequence)),
                MetadataColumn::TableVersion => push_long(column, meta.table_version),
                MetadataColumn::SyncStartedAt => push_long(column, meta.sync_started_at),
            }
        }
        debug_assert!(
            self.fields.columns.iter().all(|column| column.len() == self.rows + 1),
            "a column without this row would shift all rows after it"
        );
        self.rows += 1;
        self.is_row_open = false;
        // Absent values take room too.
        self.unmeasured_bytes += self.open_bytes + 16 * self.fields.columns.len();
        if self.unmeasured_bytes >= MEASURE_BYTES {
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.unmeasured_bytes = 0;
        self.is_full = self.bytes() >= FULL_BYTES || self.widest_offset() >= FULL_COLUMN;
    }

    fn widest_offset(&self) -> usize {
        self.fields.columns.iter().map(Column::widest_offset).max().unwrap_or_default()
    }

    /// Tells whether a record of so many bytes surely fits under the 31 bits of an offset. Text grows at most threefold: an invalid
    /// byte becomes U+FFFD.
    fn has_room(&mut self, record_bytes: usize) -> bool {
        const LIMIT: usize = i32::MAX as usize;
        let needed = record_bytes.saturating_mul(3);
        if self.offset_bound.saturating_add(needed) > LIMIT {
            self.offset_bound = self.widest_offset();
        }
        self.offset_bound = self.offset_bound.saturating_add(needed);
        self.offset_bound <= LIMIT
    }

    fn advise(&self, error: Error, is_fatal: bool) -> Error {
        match self.options.on_bad_value {
            OnBadValue::Fail | OnBadValue::SetNull if is_fatal => {
                error.hint("correct the tap, or set `on_bad_value = \"reject\"` to set such records aside")
            }
            OnBadValue::Fail => error.hint("correct the tap, or set `on_bad_value = \"set_null\"` to store null and count it"),
            OnBadValue::SetNull | OnBadValue::Reject => error.hint("correct the tap"),
        }
    }
}

fn metadata_of(fields: &Fields) -> Vec<(usize, MetadataColumn)> {
    let metadata = |(index, fill): (usize, &Fill)| match fill {
        Fill::Metadata(metadata) => Some((index, *metadata)),
        Fill::Record => None,
    };
    fields.fills.iter().enumerate().filter_map(metadata).collect()
}

/// Pushes microseconds since 1970, in the form that an existing column has.
fn push_time(column: &mut Column, micros: Option<i64>) {
    match (micros, &mut column.values) {
        (Some(micros), Values::Text { text, .. }) => text.push(moment::to_text(micros).as_bytes()),
        (Some(micros), Values::Date(values)) => values.push(micros.div_euclid(moment::DAY_MICROS) as i32),
        (micros, _) => return push_long(column, micros),
    }
    column.close();
}

fn push_long(column: &mut Column, value: Option<i64>) {
    match (value, &mut column.values) {
        (Some(value), Values::Long(values) | Values::Timestamp(values) | Values::TimestampNtz(values)) => values.push(value),
        (Some(value), Values::Double(values)) => values.push(value as f64),
        (Some(value), Values::Text { text, .. }) => text.push(value.to_string().as_bytes()),
        (Some(value), Values::Integer(values)) if i32::try_from(value).is_ok() => values.push(value as i32),
        _ => return column.push_null(),
    }
    column.close();
}
