//! Per table: the finished files back in input order, and what of them a cut takes.
//!
//! Encoders finish files in any order and cut them where they are full, not where a STATE stands. A [`Cut`] is one input position for
//! all tables; what lies before it is taken, what lies behind it stays for a later cut, and a file that it runs through is rewritten into
//! two. Were that lost, rows that the tap sends again would be committed twice.

use std::sync::Arc;

use super::encoder::{DataFile, FilePlan, Marks, StateCount, finish, new_file};
use crate::data_file;
use crate::error::{Error, Result};
use crate::seam::Seam;
use crate::store::{Source, Store};

/// The uncommitted files of one stream.
#[derive(Default)]
pub(super) struct Sequencer {
    files: Vec<DataFile>,
}

/// Where a cut is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of the cut, from 0: files that were closed for a later one are not its own.
    pub cut: u64,
    /// Of the others, only rows before this STATE; `None`: all rows.
    pub before: Option<StateCount>,
}

/// What a cut takes from a stream.
#[derive(Default)]
pub(super) struct Taken {
    /// Durable files, in the order in which they were begun.
    pub files: Vec<DataFile>,
    /// Files that were rewritten or are not wanted, to be deleted.
    pub left_over: Vec<String>,
}

impl Sequencer {
    pub(super) fn add(&mut self, file: DataFile) {
        self.files.push(file);
    }

    /// Takes all rows before the position, in durable files. What comes after stays here.
    ///
    /// **Errors**: `Denied` or `Unavailable` when a file could not be made durable or rewritten.
    pub(super) async fn take(
        &mut self,
        position: Position,
        store: &Arc<dyn Store>,
        seam: &Seam,
        splitting: &tokio::sync::Mutex<()>,
    ) -> Result<Taken> {
        let mut taken = Taken::default();
        for mut file in std::mem::take(&mut self.files) {
            let rows = file.written.rows;
            let wanted = match position.before {
                _ if file.cut > position.cut => 0,
                Some(count) => file.marks.rows_before(count, rows),
                None => rows,
            };
            if wanted == 0 {
                self.files.push(file);
                continue;
            }
            (&mut file.durable).await.map_err(|error| Error::internal("a data file was not finished").source(error))??;
            if wanted == rows {
                taken.files.push(file);
                continue;
            }
            let count = position.before.unwrap_or(StateCount::MAX);
            let (store, seam) = (store.clone(), seam.clone());
            let _one_at_a_time = splitting.lock().await;
            taken.left_over.push(format!("{}/{}", file.plan.table_path, file.path));
            let (head, tail) = tokio::task::spawn_blocking(move || split(&file, wanted, count, &*store, &seam))
                .await
                .map_err(|error| Error::internal("a data file was not split").source(error))??;
            let mut head = head;
            (&mut head.durable).await.map_err(|error| Error::internal("a data file was not finished").source(error))??;
            taken.files.push(head);
            self.files.push(tail);
        }
        Ok(taken)
    }

    /// Gives up all files: their rows come again.
    pub(super) async fn discard(&mut self) -> Vec<String> {
        let mut paths = Vec::new();
        for file in std::mem::take(&mut self.files) {
            // Whether it became durable does not matter any more, only that nobody writes to it when it is deleted.
            drop(file.durable.await);
            paths.push(format!("{}/{}", file.plan.table_path, file.path));
        }
        paths
    }
}

/// Rewrites `file` into its first `wanted` rows and the others. Blocks.
fn split(file: &DataFile, wanted: u64, count: StateCount, store: &dyn Store, seam: &Seam) -> Result<(DataFile, DataFile)> {
    let part = |range: std::ops::Range<u64>, marks: Marks| -> Result<DataFile> {
        let (path, mut builder) = new_file(store, &file.plan, &file.partition_values, seam)?;
        match store.open_file(&format!("{}/{}", file.plan.table_path, file.path))? {
            Source::File(source) => data_file::copy_rows(source, range, &mut builder)?,
            Source::Bytes(source) => data_file::copy_rows(source, range, &mut builder)?,
        }
        let (written, durable) = finish(builder, &tokio::runtime::Handle::current(), Arc::new(tokio::sync::Semaphore::new(1)))?;
        Ok(DataFile {
            plan: Arc::<FilePlan>::clone(&file.plan),
            cut: file.cut,
            path,
            partition_values: file.partition_values.clone(),
            written,
            modified_ms: seam.now_us() / 1000,
            marks,
            durable,
        })
    };
    let head = part(0..wanted, Marks { first: file.marks.first, last: count - 1, rows_before_last: 0 })?;
    let tail = part(wanted..file.written.rows, Marks { first: count, last: count, rows_before_last: 0 })?;
    Ok((head, tail))
}
