//! One Singer stream: its schema, its open batch, what it set aside, and where all that lies between the STATE messages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::committer::{StreamCut, TableState};
use super::encoder::{FilePlan, Marks, StateCount, Write};
use super::plan::{LoadMethod, StreamPlan};
use super::reject::Rejects;
use crate::batch::{BatchBuilder, Tally};
use crate::data_file;
use crate::delta::StatisticsColumns;
use crate::error::{Error, Result};
use crate::schema::{Fill, Growth, MetadataColumn, Missing, Replaced, StreamSchema, TableFacts, TableSchema};

/// A stream and everything about it that the router changes.
pub(super) struct Stream {
    /// Its place in the order of first appearance.
    pub index: usize,
    pub name: String,
    pub plan: StreamPlan,
    pub table_path: String,
    pub schema: StreamSchema,
    pub builder: BatchBuilder,
    pub tally: Tally,
    pub rejects: Rejects,
    pub has_version_column: bool,
    pub needs_meta: bool,
    /// Rows since the last cut.
    pub rows_since_cut: u64,
    /// Whether neither a STATE nor an ACTIVATE_VERSION followed its last message.
    pub is_unended: bool,
    /// Rows and bytes read and not reported yet.
    pub unreported: (u64, u64),
    /// Bytes of the records in the open batch, as they came, and of its columns.
    pub batch_weight: usize,
    /// Columns, nested ones not counted.
    pub width: usize,
    /// When the first row came into the open batch, in microseconds since 1970.
    pub batched_at_us: i64,
    validator: Option<jsonschema::Validator>,
    statistics: StatisticsColumns,
    options: data_file::Options,
    file_plan: Option<Arc<FilePlan>>,
    held: Arc<AtomicUsize>,
    changed: Arc<Mutex<Option<TableState>>>,
    /// Of the open batch.
    marks: Marks,
    /// The STATE messages before the last change of the schema, and the schema before the first change since then; `None` when there
    /// was no stream yet.
    schema_before: (StateCount, Option<Arc<TableSchema>>),
}

/// What a stream is made of.
pub(super) struct Start {
    pub index: usize,
    pub name: String,
    pub plan: StreamPlan,
    pub table_path: String,
    pub schema: StreamSchema,
    pub singer_schema: Value,
    pub statistics: StatisticsColumns,
    pub options: data_file::Options,
    pub changed: Arc<Mutex<Option<TableState>>>,
    pub states: StateCount,
}

/// What came before a change of the schema: rows under the old one, which go first.
pub(super) struct Before {
    pub rows: Option<Write>,
}

impl Stream {
    pub(super) fn new(start: Start) -> Result<Self> {
        let validator = validator(&start.plan, &start.singer_schema)?;
        let builder = BatchBuilder::new(start.schema.layout(), start.plan.batch.clone());
        let mut stream = Self {
            index: start.index,
            name: start.name,
            plan: start.plan,
            table_path: start.table_path,
            schema: start.schema,
            builder,
            tally: Tally::default(),
            rejects: Rejects::default(),
            has_version_column: false,
            needs_meta: false,
            rows_since_cut: 0,
            // A tap that stops right behind its SCHEMA messages shall empty no table.
            is_unended: true,
            unreported: (0, 0),
            batch_weight: 0,
            width: 0,
            batched_at_us: 0,
            validator,
            statistics: start.statistics,
            options: start.options,
            file_plan: None,
            held: Arc::default(),
            changed: start.changed,
            marks: Marks { first: 0, last: 0, rows_before_last: 0 },
            schema_before: (start.states, None),
        };
        stream.layout_changed();
        Ok(stream)
    }

    /// Whether its rows wait for the end of the load, and take the place of the table's.
    pub(super) fn is_overwrite(&self) -> bool {
        self.plan.load_method == LoadMethod::Overwrite
    }

    /// Bytes in memory for the stream: its open batch, its open files and what it set aside.
    pub(super) fn held_bytes(&self) -> usize {
        self.builder.bytes() + self.held.load(Ordering::Relaxed) + self.rejects.bytes()
    }

    /// Gives back the room of an open batch without rows.
    pub(super) fn release_idle(&mut self) {
        if self.builder.rows() == 0 {
            self.builder = BatchBuilder::new(self.builder.layout().clone(), self.plan.batch.clone());
        }
    }

    /// Takes note of the row that was just added to the open batch.
    pub(super) fn row_added(&mut self, states: StateCount) {
        let rows = self.builder.rows() as u64;
        if rows == 1 {
            self.marks = Marks { first: states, last: states, rows_before_last: 0 };
        } else if self.marks.last != states {
            self.marks.last = states;
            self.marks.rows_before_last = rows - 1;
        }
        self.rows_since_cut += 1;
        self.is_unended = true;
    }

    /// Returns the open batch for its encoder, unless it is empty.
    pub(super) fn take_batch(&mut self) -> Result<Option<Write>> {
        if self.builder.rows() == 0 {
            return Ok(None);
        }
        let bytes = self.builder.bytes();
        let plan = self.file_plan()?;
        if plan.file_schema.fields().is_empty() {
            // No field came so far: the rows stay until one does.
            return Ok(None);
        }
        self.batch_weight = 0;
        let batch = self.builder.finish().map_err(|error| error.in_stream(self.name.clone()))?;
        Ok(Some(Write { plan, batch, bytes, marks: self.marks }))
    }

    /// Follows a SCHEMA message that repeats; `None` when it changes nothing.
    pub(super) fn replace(&mut self, singer_schema: &Value, keys: &[String], states: StateCount) -> Result<Option<Before>> {
        let before = self.schema.layout().table_schema.clone();
        let replaced = self.schema.replace(singer_schema, keys)?;
        // Keywords that are no types still count where records are validated.
        self.validator = validator(&self.plan, singer_schema)?;
        if replaced == Replaced::Unchanged {
            return Ok(None);
        }
        let rows = self.take_batch()?;
        self.remember(before, states);
        self.builder = BatchBuilder::new(self.schema.layout(), self.plan.batch.clone());
        self.layout_changed();
        Ok(Some(Before { rows }))
    }

    /// Makes what a record lacks. Returns rows that have to go first.
    pub(super) fn grow(&mut self, missing: &[Missing], states: StateCount) -> Result<(Growth, Option<Write>)> {
        let before = self.schema.layout().table_schema.clone();
        let growth = self.schema.grow(missing)?;
        if growth == Growth::DiscardRow {
            return Ok((growth, None));
        }
        // A bad end takes the rows before the newest STATE with the schema of that moment: they stay as they are, in files of their own.
        let rows = if self.marks.first < states { self.take_batch()? } else { None };
        self.remember(before, states);
        self.builder.extend(self.schema.layout())?;
        self.layout_changed();
        Ok((growth, rows))
    }

    /// Follows another writer's change of the table, if the committer met one.
    pub(super) fn follow_table(&mut self, states: StateCount) -> Result<Option<Write>> {
        let Some(state) = self.changed.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(None) };
        let before = self.schema.layout().table_schema.clone();
        self.schema.rebase(TableFacts {
            schema: &state.schema,
            partition_columns: &state.partition_columns,
            is_type_widening_enabled: state.is_type_widening_enabled,
        })?;
        let write = self.take_batch()?;
        self.remember(before, states);
        self.builder = BatchBuilder::new(self.schema.layout(), self.plan.batch.clone());
        self.layout_changed();
        Ok(write)
    }

    /// Returns what a cut does to the stream; `None` when the stream came after it.
    pub(super) fn cut(&mut self, before: Option<StateCount>, run_id: &str) -> Result<Option<StreamCut>> {
        let table_schema = match before {
            Some(count) if self.schema_before.0 == count => self.schema_before.1.clone(),
            _ => Some(self.schema.layout().table_schema.clone()),
        };
        let Some(table_schema) = table_schema else { return Ok(None) };
        let rejects = self.rejects.take(&self.name, run_id, before)?.into_iter().collect();
        Ok(Some(StreamCut { stream: self.index, table_schema, rejects, is_overwrite: self.is_overwrite() }))
    }

    /// Checks a record against the whole JSON Schema, where that is asked for.
    pub(super) fn validate(&self, record: &[u8]) -> Result<()> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let strict = crate::batch::make_strict(record);
        let value: Value = serde_json::from_str(&strict.text).map_err(|error| Error::input("is not JSON").source(error))?;
        validator.validate(&value).map_err(|error| {
            let path = error.instance_path().to_string();
            let invalid = Error::input(format!("does not follow its JSON Schema: {error}"))
                .hint("correct the tap, set `on_bad_value = \"reject\"` to set such records aside, or set `validate_records = false`");
            match path.trim_start_matches('/').replace('/', ".") {
                path if path.is_empty() => Error::input(format!("the record does not follow the SCHEMA: {error}"))
                    .hint("correct the tap, set `on_bad_value = \"reject\"` to set such records aside, or set `validate_records = false`"),
                path => invalid.in_field(&path),
            }
        })
    }

    pub(super) fn validates(&self) -> bool {
        self.validator.is_some()
    }

    fn remember(&mut self, before: Arc<TableSchema>, states: StateCount) {
        if self.schema_before.0 != states {
            self.schema_before = (states, Some(before));
        }
    }

    fn layout_changed(&mut self) {
        self.file_plan = None;
        let layout = self.schema.layout();
        self.width = layout.layout.columns.len();
        let mut metadata = layout.layout.columns.iter().filter_map(|column| match column.fill {
            Fill::Metadata(kind) => Some(kind),
            Fill::Record => None,
        });
        self.has_version_column = metadata.clone().any(|kind| kind == MetadataColumn::TableVersion);
        self.needs_meta = metadata.any(|kind| kind != MetadataColumn::DeletedAt);
    }

    fn file_plan(&mut self) -> Result<Arc<FilePlan>> {
        if let Some(plan) = &self.file_plan {
            return Ok(plan.clone());
        }
        // Of the open batch: the stream's own schema may be a step ahead.
        let table_schema = self.builder.layout().table_schema.clone();
        let partition_columns = self.schema.partition_columns().to_vec();
        let all = table_schema.arrow_schema()?;
        let kept = all.fields().iter().filter(|field| !partition_columns.contains(field.name())).cloned().collect::<Vec<_>>();
        let plan = Arc::new(FilePlan {
            name: self.name.clone(),
            stream: self.index,
            table_path: self.table_path.clone(),
            table_schema,
            file_schema: Arc::new(arrow::datatypes::Schema::new(kept)),
            partition_columns,
            statistics: self.statistics.clone(),
            options: self.options.clone(),
            held: self.held.clone(),
        });
        self.file_plan = Some(plan.clone());
        Ok(plan)
    }
}

fn validator(plan: &StreamPlan, singer_schema: &Value) -> Result<Option<jsonschema::Validator>> {
    if !plan.validate_records {
        return Ok(None);
    }
    jsonschema::options().should_validate_formats(true).build(singer_schema).map(Some).map_err(|error| {
        Error::input(format!("the SCHEMA is not a valid JSON Schema: {error}"))
            .hint("correct the tap, or set `validate_records = false`")
    })
}
