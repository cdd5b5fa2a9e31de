//! Log stores behind the trait of the library deltalake: its own operations then commit through [`store::publish`], as ours do.
//!
//! The guarantee: a commit of such an operation is told to have landed when it has, to have lost when another writer has its version,
//! and to have failed, with what is known, when neither can be found out. The library itself turns a lost answer into a second commit
//! of the same actions, or into an error although the commit landed.
//!
//! The library hands over the bytes of a commit only to log stores that have the name of its own; for any other it puts a temporary file
//! first. Ours have that name.

mod opened;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deltalake::kernel::transaction::TransactionError;
use deltalake::logstore::{
    self, CommitOrBytes, LogStore, LogStoreConfig, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig,
};
use deltalake::{DeltaResult, DeltaTableError};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::log_name;
use crate::seam::Seam;
use crate::store::{self, Entry, Numbered, Publication, Published, Step, Store};
use crate::{Error, Result};
use opened::Opened;

/// The schemes that log stores are registered for. Those that this build has no store for are refused when a table is opened. `https` is
/// none of them: the library looks a scheme up as a URL without a host, which `https://` is not, and so never finds one.
pub const LOG_STORE_SCHEMES: [&str; 9] = ["s3", "s3a", "abfs", "abfss", "az", "adl", "gs", "file", "memory"];

/// The name by which the library knows a log store that takes bytes.
const NAME: &str = "DefaultLogStore";

/// The library and we are built on one kernel: with two of them this does not compile.
const _: fn(&dyn LogStore) -> Arc<dyn delta_kernel::Engine> = |log_store| log_store.engine(None);

/// Registers log stores and data access for all of [`LOG_STORE_SCHEMES`], in this process, in the place of what is registered there.
///
/// Tables that are opened by their URL (`deltalake::open_table`, `DeltaTableBuilder::from_url`) then commit by put-if-absent with
/// read-back, and read and write with the credentials that `storage_options` or the cloud's own chain give. A commit is tried for
/// `commit_timeout` until it is known what became of it. A store that is handed over (`with_storage_backend`) is refused: there is no
/// telling how it answers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// delta_load::delta::register_log_stores(std::time::Duration::from_secs(900), delta_load::seam::real())?;
/// # Ok(())
/// # }
/// ```
///
/// **Errors:** none that a caller can cause.
pub fn register_log_stores(commit_timeout: Duration, seam: Seam) -> Result<()> {
    let factory = Arc::new(Factory { commit_timeout, seam });
    for scheme in LOG_STORE_SCHEMES {
        let key = Url::parse(&format!("{scheme}://")).map_err(|error| Error::internal("a scheme is not one").source(error))?;
        logstore::object_store_factories().insert(key.clone(), Arc::clone(&factory) as _);
        logstore::logstore_factories().insert(key, Arc::clone(&factory) as _);
    }
    Ok(())
}

/// Opens stores for the library.
#[derive(Debug)]
struct Factory {
    commit_timeout: Duration,
    seam: Seam,
}

impl ObjectStoreFactory for Factory {
    fn parse_url_opts(&self, url: &Url, config: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        let opened = Opened::open(url, config).map_err(|error| table_error(&error))?;
        let wrong = |error| table_error(&Error::config(format!("the path of `{url}` is not one of a table")).source(error));
        let path = Path::from_url_path(url.path()).map_err(wrong)?;
        Ok((opened.remember(), path))
    }
}

impl LogStoreFactory for Factory {
    fn with_options(
        &self,
        prefixed_store: ObjectStoreRef,
        root_store: ObjectStoreRef,
        location: &Url,
        options: &StorageConfig,
    ) -> DeltaResult<Arc<dyn LogStore>> {
        let opened = opened::find(&root_store).ok_or_else(|| {
            let error =
                Error::config(format!("the store of `{location}` was handed over, and not opened by delta-load's log stores"))
                    .hint("open the table by its URL, with `storage_options`");
            table_error(&error)
        })?;
        let (store, table) = opened.at(location, options).map_err(|error| table_error(&error))?;
        Ok(Arc::new(PutIfAbsentLogStore {
            table_objects: prefixed_store,
            root_objects: root_store,
            config: LogStoreConfig::new(location, options.clone()),
            store,
            table,
            commit_timeout: self.commit_timeout,
            seam: self.seam.clone(),
        }))
    }
}

/// The log of one table.
struct PutIfAbsentLogStore {
    table_objects: ObjectStoreRef,
    root_objects: ObjectStoreRef,
    config: LogStoreConfig,
    store: Arc<dyn Store>,
    /// The table's path below the root of `store`.
    table: String,
    commit_timeout: Duration,
    seam: Seam,
}

impl PutIfAbsentLogStore {
    async fn commit(&self, version: u64, bytes: Bytes, operation_id: Uuid) -> Result<(), TransactionError> {
        let failed = |error: &Error| TransactionError::LogStoreError { msg: shown(error), source: shown(error).into() };
        let bytes = with_id(&bytes, operation_id).map_err(|error| failed(&error))?;
        if version == 0 {
            // As before the first commit of a load: a store that ignores the condition is refused. Asked once per bucket.
            self.store.probe().await.map_err(|error| failed(&error))?;
        }
        let log = Numbered { prefix: log_name::folder(&self.table), suffix: ".json".to_owned() };
        let mut commit = Commit { bytes, has_lost: false };
        let published = store::publish(&*self.store, &log, version, &mut commit, self.commit_timeout, &self.seam).await;
        match published {
            Ok(Published::At { .. }) => Ok(()),
            Ok(Published::Unknown { error, .. }) => {
                let unknown = Error::unavailable(format!(
                    "whether version {version} of `{}` was written is not known; it may exist, with txnId {operation_id}",
                    self.config.location()
                ));
                Err(failed(&unknown.source(error)))
            }
            Err(_) if commit.has_lost => Err(TransactionError::VersionAlreadyExists(version)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Returns the bytes of a commit, whichever way they come. A temporary file is gone afterwards.
    async fn take(&self, commit: CommitOrBytes) -> Result<Bytes, TransactionError> {
        match commit {
            CommitOrBytes::LogBytes(bytes) => Ok(bytes),
            CommitOrBytes::TmpCommit(path) => {
                let bytes = self.table_objects.get(&path).await?.bytes().await?;
                self.remove(&path).await;
                Ok(bytes)
            }
        }
    }

    async fn remove(&self, temporary: &Path) {
        if let Err(error) = self.table_objects.delete(temporary).await {
            tracing::warn!("the temporary file `{temporary}` is left behind in `{}`: {error}", self.config.location());
        }
    }
}

#[async_trait]
impl LogStore for PutIfAbsentLogStore {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    async fn read_commit_entry(&self, version: u64) -> DeltaResult<Option<Bytes>> {
        self.store.get(&log_name::commit(&self.table, version)).await.map_err(|error| table_error(&error))
    }

    async fn write_commit_entry(&self, version: u64, commit: CommitOrBytes, operation_id: Uuid) -> Result<(), TransactionError> {
        let bytes = self.take(commit).await?;
        self.commit(version, bytes, operation_id).await
    }

    async fn abort_commit_entry(
        &self,
        _version: u64,
        commit: CommitOrBytes,
        _operation_id: Uuid,
    ) -> Result<(), TransactionError> {
        if let CommitOrBytes::TmpCommit(path) = commit {
            self.remove(&path).await;
        }
        Ok(())
    }

    async fn get_latest_version(&self, start_version: u64) -> DeltaResult<u64> {
        logstore::get_latest_version(self, start_version).await
    }

    fn object_store(&self, _operation_id: Option<Uuid>) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.table_objects)
    }

    fn root_object_store(&self, _operation_id: Option<Uuid>) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.root_objects)
    }

    fn config(&self) -> &LogStoreConfig {
        &self.config
    }
}

/// One version's commit: what to do after a loss is the library's to decide, so that the first one ends the loop.
struct Commit {
    bytes: Bytes,
    has_lost: bool,
}

#[async_trait]
impl Publication for Commit {
    async fn bytes(&mut self, _number: u64) -> Result<Bytes> {
        Ok(self.bytes.clone())
    }

    async fn lost(&mut self, number: u64, _winner: Bytes) -> Result<Step> {
        self.has_lost = true;
        Err(Error::conflict(format!("another writer has version {number}")))
    }

    async fn replaced(&mut self, number: u64) -> Result<u64> {
        Err(Error::conflict(format!(
            "version {number} has no version before it: the table was dropped, made again or cleaned meanwhile"
        ))
        .hint("open the table again"))
    }

    fn is_built_on(&self, _number: u64, _predecessor: &Entry) -> bool {
        // The library does not say what it has read; that a version is there before ours is what can be known.
        true
    }
}

/// Returns the bytes of a commit with the id of its operation in `commitInfo.txnId`, unless there is one: two writers who do the same in
/// the same millisecond send equal bytes, and each would take the other's for its own.
fn with_id(bytes: &Bytes, operation_id: Uuid) -> Result<Bytes> {
    let mut commit: Vec<u8> = Vec::with_capacity(bytes.len() + 64);
    let mut has_id = false;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // The key that is looked for is the line's only one, so that data files need not be parsed.
        match line.starts_with(b"{\"commitInfo\"") && !has_id {
            true => {
                let unreadable = |error| Error::internal("the commitInfo of a commit is not JSON").source(error);
                let mut action: Value = serde_json::from_slice(line).map_err(unreadable)?;
                if let Some(info) = action["commitInfo"].as_object_mut() {
                    info.entry("txnId").or_insert_with(|| operation_id.to_string().into());
                    has_id = true;
                }
                commit.extend_from_slice(action.to_string().as_bytes());
            }
            false => commit.extend_from_slice(line),
        }
        commit.push(b'\n');
    }
    if !has_id {
        commit.extend_from_slice(format!("{}\n", json!({"commitInfo": {"txnId": operation_id.to_string()}})).as_bytes());
    }
    Ok(commit.into())
}

/// Returns an error of ours as the library's, with all that a user is to see.
fn table_error(error: &Error) -> DeltaTableError {
    DeltaTableError::generic(shown(error))
}

fn shown(error: &Error) -> String {
    error.render().trim_start_matches("error: ").to_owned()
}
