//! Cuts → commits of all tables → the STATE that may leave.
//!
//! Cuts are done one after another, in input order. A STATE is handed to `ack` only when each table's commit of its cut, and of all
//! cuts before, has landed; after a failure nothing more is committed and nothing more leaves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;

use super::ack::{Ack, State};
use super::batch_file::BatchFile;
use super::encoder::{DataFile, StateCount};
use super::gauge::Gauge;
use super::sequencer::{Position, Sequencer, Taken};
use crate::delta::{AddFile, Append, NewTable, Outcome, Provenance, Table};
use crate::error::{Error, ErrorKind, InputLine, Result};
use crate::report::{Committed, Reporter};
use crate::schema::TableSchema;
use crate::seam::{Seam, fail_point};
use crate::store::Store;

/// What the router and the encoders tell the committer.
pub(super) enum ToCommitter {
    /// A stream has a table; its index is one more than the last one's.
    Stream(Box<StreamTable>),
    /// A data file is finished.
    File(DataFile),
    /// The encoder of this index has closed all files of its next cut.
    Barrier(usize),
    /// Commit, once every encoder has passed its barrier.
    Cut(Cut),
    /// A STATE before which everything is committed already.
    State(Arc<Mutex<Option<State>>>),
}

/// A stream's table, and the way back to the router.
pub(super) struct StreamTable {
    pub name: String,
    pub table: Table,
    pub new_table: NewTable,
    /// Told when a commit changed the table's schema, or somebody else did.
    pub changed: Arc<Mutex<Option<TableState>>>,
}

/// What the router needs to know about a table that changed.
#[derive(Debug, Clone)]
pub(super) struct TableState {
    pub schema: Arc<TableSchema>,
    pub partition_columns: Vec<String>,
    pub is_type_widening_enabled: bool,
}

/// One input position for all tables.
#[derive(Default)]
pub(super) struct Cut {
    /// Take only rows before this STATE; `None`: all rows so far.
    pub before: Option<StateCount>,
    /// The streams that may have something to commit.
    pub streams: Vec<StreamCut>,
    /// The STATE at the position, or the newest one before it.
    pub state: Option<State>,
    /// The input lines that it covers.
    pub lines: (u64, u64),
    /// Whether rows after the newest STATE are in it.
    pub is_without_state: bool,
    /// BATCH files to delete once it is committed.
    pub batch_files: Vec<BatchFile>,
}

/// What a cut does to one stream.
pub(super) struct StreamCut {
    pub stream: usize,
    /// The table's schema at the position.
    pub table_schema: Arc<TableSchema>,
    /// Records set aside since the last cut: path below the root, bytes.
    pub rejects: Vec<(String, Bytes)>,
    /// Whether its rows take the place of all that the table holds.
    pub is_overwrite: bool,
}

/// How the committer ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The line of the newest STATE before which all is committed.
    pub covered_line: Option<u64>,
    /// Whether rows are committed that the tap sends again, since no STATE stands for them.
    pub has_rows_behind_state: bool,
    pub tables: Vec<EndedTable>,
}

/// How a table ended.
#[derive(Debug)]
pub(super) struct EndedTable {
    pub stream: String,
    pub url: String,
    /// The version last known.
    pub version: Option<u64>,
    /// Whether this load committed to it.
    pub has_committed: bool,
}

struct Entry {
    name: String,
    table: Table,
    new_table: NewTable,
    changed: Arc<Mutex<Option<TableState>>>,
    files: Sequencer,
    has_committed: bool,
}

pub(super) struct Committer {
    pub store: Arc<dyn Store>,
    pub gauge: Arc<Gauge>,
    pub report: Arc<Reporter>,
    pub seam: Seam,
    pub encoders: usize,
    pub commit_timeout: Duration,
    pub run_id: String,
    pub pipeline: Option<String>,
    /// Held while a file is split: one at a time, since each decodes and encodes beside the running load.
    pub splitting: tokio::sync::Mutex<()>,
    /// One permit per cut that may wait here.
    pub cuts_allowed: Arc<tokio::sync::Semaphore>,
}

/// Tables whose commits are on their way at once: enough to hide latency, few enough for any store's connection limit.
const COMMITS_AT_ONCE: usize = 16;

impl Committer {
    /// Works until the router and the encoders have hung up. The first failure is noted in the gauge; after it nothing is committed.
    pub(super) async fn run(self, mut messages: UnboundedReceiver<ToCommitter>, mut ack: Ack) -> Ended {
        // However this task ends, the router must not wait for it.
        let _closing = CloseOnDrop(self.cuts_allowed.clone());
        let mut entries: Vec<Entry> = Vec::new();
        // Per encoder; an encoder with little to do may be a cut ahead of another one.
        let mut barriers: Vec<u64> = vec![0; self.encoders];
        let mut waiting: VecDeque<Cut> = VecDeque::new();
        let mut done = 0;
        let mut has_rows_behind_state = false;
        loop {
            let received = if ack.is_pending() {
                // A STATE waits for its interval; look after it also while nothing comes.
                tokio::select! {
                    received = messages.recv() => received,
                    () = self.seam.sleep(Duration::from_millis(200)) => {
                        self.note(self.report_states(&mut ack, Ack::print_due));
                        continue;
                    }
                }
            } else {
                messages.recv().await
            };
            match received {
                None => break,
                Some(ToCommitter::Stream(stream)) => {
                    let StreamTable { name, table, new_table, changed } = *stream;
                    let files = Sequencer::default();
                    entries.push(Entry { name, table, new_table, changed, files, has_committed: false });
                }
                Some(ToCommitter::File(file)) => entries[file.plan.stream].files.add(file),
                Some(ToCommitter::Barrier(encoder)) => barriers[encoder] += 1,
                Some(ToCommitter::Cut(cut)) => waiting.push_back(cut),
                Some(ToCommitter::State(told)) => {
                    let state = told.lock().unwrap_or_else(PoisonError::into_inner).take();
                    match (state, waiting.back_mut()) {
                        // Nothing lies between that cut and this STATE: it leaves with the cut, and no sooner.
                        (Some(state), Some(cut)) => cut.state = Some(state.after(cut.state.take())),
                        (Some(state), None) if !self.gauge.has_failed() => {
                            self.note(self.report_states(&mut ack, |ack, now| ack.covered(state, now)));
                        }
                        _ => {}
                    }
                }
            }
            while barriers.iter().all(|passed| *passed > done)
                && let Some(cut) = waiting.pop_front()
            {
                if !self.gauge.has_failed() {
                    // A commit may take long: what waits for its interval does not wait for that too.
                    self.note(self.report_states(&mut ack, Ack::print_due));
                    let is_without_state = cut.is_without_state;
                    let has_state = cut.state.is_some();
                    let result = self.cut(cut, done, &mut entries, &mut ack).await;
                    has_rows_behind_state = match &result {
                        Ok(()) => is_without_state || (has_rows_behind_state && !has_state),
                        // The cut may have landed in part.
                        Err(_) => has_rows_behind_state || is_without_state,
                    };
                    self.note(result);
                }
                done += 1;
                self.cuts_allowed.add_permits(1);
            }
        }
        for entry in &mut entries {
            let paths = entry.files.discard().await;
            self.delete(&entry.name, paths).await;
        }
        // Also after a failure: what a covered STATE stands for is committed, and would come again without it.
        self.note(self.report_states(&mut ack, Ack::print));
        let ended = |entry: &Entry| EndedTable {
            stream: entry.name.clone(),
            url: entry.table.url(),
            version: entry.table.version(),
            has_committed: entry.has_committed,
        };
        let tables = entries.iter().map(ended).collect();
        Ended { covered_line: ack.covered_line(), has_rows_behind_state, tables }
    }

    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.gauge.fail(error);
        }
    }

    /// Does something that may print a STATE, and reports it if it did.
    fn report_states(&self, ack: &mut Ack, act: impl FnOnce(&mut Ack, Duration) -> Result<()>) -> Result<()> {
        let printed = ack.printed();
        act(ack, self.seam.elapsed())?;
        if ack.printed() > printed
            && let Some(line) = ack.covered_line()
        {
            self.report.state_out(InputLine(line));
        }
        Ok(())
    }

    async fn cut(&self, cut: Cut, number: u64, entries: &mut [Entry], ack: &mut Ack) -> Result<()> {
        for (path, bytes) in cut.streams.iter().flat_map(|stream| &stream.rejects) {
            self.store.put(path, bytes.clone()).await?;
        }
        let provenance = Provenance {
            run_id: self.run_id.clone(),
            pipeline: self.pipeline.clone(),
            first_line: cut.lines.0,
            last_line: cut.lines.1,
            is_without_state: cut.is_without_state,
        };
        let mut asked: Vec<Option<StreamCut>> = entries.iter().map(|_| None).collect();
        for stream in cut.streams {
            let index = stream.stream;
            asked[index] = Some(stream);
        }
        let mut touched = Vec::new();
        let mut work: Vec<futures::future::BoxFuture<'_, Result<Option<String>>>> = Vec::new();
        for (entry, stream) in entries.iter_mut().zip(asked) {
            if let Some(stream) = stream {
                work.push(Box::pin(self.commit(entry, stream, Position { cut: number, before: cut.before }, provenance.clone())));
            }
        }
        let mut commits = futures::stream::iter(work).buffer_unordered(COMMITS_AT_ONCE);
        let mut failure: Option<Error> = None;
        let mut landed = 0;
        while let Some(result) = commits.next().await {
            match result {
                Ok(Some(index)) => {
                    landed += 1;
                    touched.push(index);
                }
                Ok(None) => {}
                Err(error) => failure = Some(failure.unwrap_or(error)),
            }
        }
        drop(commits);
        if let Some(error) = failure {
            // In append mode, what other tables committed comes again with the next run.
            return Err(if landed > 0 { error.repeat_may_double() } else { error });
        }
        if let Some(state) = cut.state {
            self.report_states(ack, |ack, now| ack.covered(state, now))?;
        }
        // The cut stands: from here on everything warns and nothing fails.
        for file in cut.batch_files {
            if let Err(error) = file.delete().await {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                self.report.warn(None, &format!("the BATCH file {file} is left behind: {error}{cause}"));
            }
        }
        for entry in entries.iter_mut().filter(|entry| touched.contains(&entry.name)) {
            for warning in entry.table.after_commit().await {
                self.report.warn(Some(&entry.name), &warning);
            }
        }
        Ok(())
    }

    /// Commits what the cut takes from one stream; returns the stream's name if there was anything.
    async fn commit(
        &self,
        entry: &mut Entry,
        stream: StreamCut,
        position: Position,
        provenance: Provenance,
    ) -> Result<Option<String>> {
        let at = |error: Error| error.in_stream(entry.name.clone());
        let Taken { files, left_over } =
            entry.files.take(position, &self.store, &self.seam, &self.splitting).await.map_err(at)?;
        let is_overwrite = stream.is_overwrite && entry.table.version().is_some();
        let is_changed = entry.table.schema() != Some(&stream.table_schema);
        let is_without_columns = stream.table_schema.fields.is_empty();
        if files.is_empty() && !is_overwrite && (!is_changed || is_without_columns) {
            return Ok(None);
        }
        if files.is_empty() && is_overwrite {
            self.report.notice(Some(&entry.name), "no rows came: the table is emptied");
        }
        let (rows, bytes) =
            files.iter().fold((0, 0), |(rows, bytes), file| (rows + file.written.rows, bytes + file.written.bytes));
        let file_count = files.len() as u64;
        let append = Append {
            files: files.into_iter().map(add_file).collect(),
            schema: ((is_changed || stream.is_overwrite) && !is_without_columns).then(|| stream.table_schema.clone()),
            new_table: entry.new_table.clone(),
            provenance,
            txn: None,
        };
        if fail_point("commit:before") {
            return Err(at(Error::unavailable("the commit was not tried (fail point)")));
        }
        let table = entry.table.url();
        let begun = self.seam.elapsed();
        let outcome = match stream.is_overwrite {
            true => entry.table.overwrite(append, self.commit_timeout).await,
            false => entry.table.append(append, self.commit_timeout).await,
        };
        let is_good = matches!(outcome, Ok(Outcome::Committed { .. }));
        self.report.batch_time(&entry.name, self.seam.elapsed().saturating_sub(begun), is_good);
        match outcome {
            Ok(Outcome::Committed { version, attempts, .. }) => {
                entry.has_committed = true;
                let commit = Committed { table, version: Some(version), rows, files: file_count, bytes, attempts };
                self.report.committed(&entry.name, &commit);
            }
            // Only a commit that carries a `txn` can have been made before.
            Ok(Outcome::DoneBefore { .. }) => return Err(at(Error::internal("a commit of this load was found in the log"))),
            Ok(Outcome::Unknown { version, txn_id, error }) => {
                let (what, may_double) = if stream.is_overwrite {
                    ("once the store answers, run the load again: it overwrites the table once more", false)
                } else {
                    (
                        "once the store answers, run the load again: the tap sends this stretch again, so if the version exists its rows are in the table already and come a second time; compare the txnId first",
                        true,
                    )
                };
                let unknown = Error::new(
                    ErrorKind::Unavailable,
                    format!("it is not known whether version {version} was committed: the store gave no clear answer"),
                )
                .in_stream(entry.name.clone())
                .at_table(table)
                .standing(format!(
                    "version {version} may exist; if it does, its commitInfo has the txnId {txn_id}; the data files are kept"
                ))
                .hint(what)
                .source(error);
                return Err(if may_double { unknown.repeat_may_double() } else { unknown });
            }
            Err(error) => return Err(at(error.at_table(table))),
        }
        if (is_changed || entry.table.schema() != Some(&stream.table_schema))
            && let Some(schema) = entry.table.schema()
        {
            let state = TableState {
                schema: schema.clone(),
                partition_columns: entry.table.partition_columns().to_vec(),
                is_type_widening_enabled: entry.table.is_type_widening_enabled(),
            };
            *entry.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        }
        self.delete(&entry.name, left_over).await;
        Ok(Some(entry.name.clone()))
    }

    /// Deletes files of ours that no commit names.
    async fn delete(&self, stream: &str, paths: Vec<String>) {
        for path in paths {
            if let Err(error) = self.store.delete(&path).await {
                self.report
                    .warn(Some(stream), &format!("the data file {path}, which no commit names, cannot be deleted: {error}"));
            }
        }
    }
}

struct CloseOnDrop(Arc<tokio::sync::Semaphore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn add_file(file: DataFile) -> AddFile {
    AddFile {
        path: file.path,
        partition_values: file.partition_values,
        size: file.written.bytes,
        modified_ms: file.modified_ms,
        statistics: file.written.statistics,
        rows: file.written.rows,
        schema: file.plan.table_schema.clone(),
    }
}
