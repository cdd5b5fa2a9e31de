//! SCHEMA messages: new streams with their tables, and schemas that change.

use std::sync::Arc;

use super::Router;
use crate::delta::{NewTable, StatisticsColumns, Table};
use crate::error::{Error, Result};
use crate::load::committer::{StreamTable, ToCommitter};
use crate::load::plan::{DeletionVectors, LoadMethod, StreamPlan};
use crate::load::stream::{Start, Stream};
use crate::load::table_path::table_path;
use crate::schema::{StreamSchema, TableFacts};
use crate::singer::SchemaMessage;

impl Router {
    pub(super) fn schema(&mut self, message: SchemaMessage) -> Result<()> {
        match self.by_name.get(&message.stream) {
            Some(index) => {
                let index = *index;
                let keys = keys(&self.streams[index].plan, &message);
                let states = self.states;
                let Some(before) = self.streams[index].replace(&message.singer_schema, &keys, states)? else { return Ok(()) };
                if let Some(write) = before.rows {
                    self.send(index, write)?;
                }
                self.tell_notices(index);
                self.note_change_of(index);
                Ok(())
            }
            None => self.new_stream(message),
        }
    }

    fn new_stream(&mut self, message: SchemaMessage) -> Result<()> {
        let name = message.stream.clone();
        let plan = self.plan.streams.resolve(&name);
        let keys = keys(&plan, &message);
        if keys.is_empty() && plan.primary_key_required {
            return Err(Error::input("has no key properties, and `primary_key_required` is set")
                .hint("set `key_properties` for the stream, or `primary_key_required = false`"));
        }
        let path = table_path(&plan.table_path, &name)?;
        let is_within =
            |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some((other_path, other)) =
            self.by_table.iter().find(|(other, _)| is_within(&path, other) || is_within(other, &path))
        {
            // A vacuum of the outer table would delete the files of the inner one.
            return Err(Error::config(format!(
                "streams `{other}` and `{name}` have the table paths `{other_path}` and `{path}`, one within the other"
            ))
            .hint("set `table_path` so that each stream has a path of its own"));
        }
        let table = self.stages.runtime.block_on(Table::open(self.stages.store.clone(), &path, self.stages.seam.clone()))?;
        let is_overwrite = plan.load_method == LoadMethod::Overwrite;
        if is_overwrite {
            table.check_may_remove()?;
        }
        // An overwrite replaces the schema too.
        let facts = table.schema().filter(|_| !is_overwrite).map(|schema| TableFacts {
            schema,
            partition_columns: table.partition_columns(),
            is_type_widening_enabled: table.is_type_widening_enabled(),
        });
        let mut partition_by = plan.partition_by.clone();
        if is_overwrite && partition_by.is_empty() {
            let is_sent = |column: &String| message.singer_schema["properties"].get(column).is_some();
            partition_by = table.partition_columns().iter().filter(|column| is_sent(column)).cloned().collect();
        }
        let schema = StreamSchema::new(&message.singer_schema, &keys, &partition_by, &plan.schema, facts)?;
        if table.version().is_none() && !self.is_probed {
            self.stages.runtime.block_on(self.stages.store.probe())?;
            self.is_probed = true;
        }
        if !is_overwrite
            && table.version().is_some()
            && !plan.partition_by.is_empty()
            && table.partition_columns() != schema.partition_columns()
        {
            return Err(Error::schema("the table's partition columns are not those of `partition_by`")
                .at_table(table.url())
                .hint("leave `partition_by` out for a table that exists, or load into another table"));
        }
        self.announce(&plan, &keys, &name, &table, message.has_bookmark);
        let mut properties = plan.table_properties.clone();
        match plan.deletion_vectors {
            DeletionVectors::On => {
                properties.insert("delta.enableDeletionVectors".into(), "true".into());
            }
            DeletionVectors::Auto | DeletionVectors::Off => {}
        }
        let is_new = table.version().is_none();
        if is_new {
            crate::delta::check_table_properties(&properties)?;
        }
        let in_force = if is_new { &properties } else { table.properties() };
        let statistics = StatisticsColumns::of(in_force);
        let mut options = plan.data_file.clone();
        if let Some(codec) = in_force.get("delta.parquet.compression.codec")
            && !plan.is_compression_set
        {
            options.compression = crate::data_file::Compression::parse(codec).map_err(|detail| {
                Error::table(format!("the table property `delta.parquet.compression.codec` is \"{codec}\", {detail}"))
                    .at_table(table.url())
                    .hint("set `compression`, which wins over the property")
            })?;
        }
        let index = self.streams.len();
        let changed = Arc::default();
        let new_table = NewTable { partition_columns: schema.partition_columns().to_vec(), properties, ..NewTable::default() };
        let stream = Stream::new(Start {
            index,
            name: name.clone(),
            plan,
            table_path: path.clone(),
            schema,
            singer_schema: message.singer_schema,
            statistics,
            options,
            changed: Arc::clone(&changed),
            states: self.states,
        })?;
        self.streams.push(stream);
        self.by_name.insert(name.clone(), index);
        self.by_table.insert(path, name.clone());
        self.stages.report.rows(&name, 0, 0);
        self.tell(ToCommitter::Stream(Box::new(StreamTable { name, table, new_table, changed })));
        self.tell_notices(index);
        self.note_change_of(index);
        Ok(())
    }

    fn announce(&self, plan: &StreamPlan, keys: &[String], name: &str, table: &Table, has_bookmark: bool) {
        let report = &self.stages.report;
        let is_overwrite = plan.load_method == LoadMethod::Overwrite;
        let standing = match table.version() {
            Some(version) if is_overwrite => {
                format!("overwriting {}, version {version}, when the input ends well; no STATE leaves before", table.url())
            }
            Some(version) => format!("appending to {}, version {version}", table.url()),
            None => format!("creating {}", table.url()),
        };
        report.notice(Some(name), &standing);
        if is_overwrite {
            if has_bookmark {
                let what =
                    "the tap names bookmark properties, so it may send only what is new: nothing else remains in the table";
                report.warn(Some(name), what);
            }
            return;
        }
        if !keys.is_empty() {
            let keys = keys.join(", ");
            report.notice(Some(name), &format!("append-only: earlier versions of a key ({keys}) stay in the table"));
        }
        if plan.hard_delete {
            report.warn(
                Some(name),
                "`hard_delete` does nothing in append-only mode: rows with `_sdc_deleted_at` are appended as they are",
            );
        }
    }

    pub(super) fn tell_notices(&self, index: usize) {
        let stream = &self.streams[index];
        for notice in stream.schema.notices() {
            self.stages.report.notice(Some(&stream.name), notice);
        }
    }
}

fn keys(plan: &StreamPlan, message: &SchemaMessage) -> Vec<String> {
    plan.key_properties.clone().unwrap_or_else(|| message.key_properties.clone())
}
