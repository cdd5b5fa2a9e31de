//! A data file on its way: small ones in one PUT, larger ones in parts, several at a time.
//!
//! Parts of a file that is given up are removed. What a killed process leaves is not visible in the bucket but is paid for, until a rule
//! of the bucket removes it (`docs/stores.md`).

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::answer::Answer;
use super::{Remote, runtime};
use crate::store::io_error::as_remote_failure;
use crate::store::{PutAnswer, Store, Upload, put_if_absent};
use crate::{Error, Result};

/// Bytes of a part: the least that S3 takes, since every open file holds up to one, and all parts but the last of one size, as some
/// stores want it. With 10,000 parts a file has 50 GB.
pub(in crate::store) const PART_BYTES: usize = 5 << 20;
const MAX_PARTS: usize = 10_000;

/// Parts on their way at a time, of all files of the process: 80 MB of memory at most.
static ON_THEIR_WAY: Semaphore = Semaphore::const_new(16);

/// How long the one PUT of a small file may be tried.
const SMALL_LIMIT: Duration = Duration::from_secs(300);

/// How long tidying up may hold up the load.
const TIDY_LIMIT: Duration = Duration::from_secs(10);

/// How long parts on their way are waited for before the others are removed: one that arrives later stays.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// Begins the object `path`. Asks nothing of the store: whether there is such an object already is found out by the condition of the one
/// PUT, or before the first part.
pub(super) fn create(store: &Remote, path: &str) -> Result<Box<dyn Upload>> {
    store.object_path(path)?;
    Ok(Box::new(RemoteUpload { store: store.clone(), path: path.to_owned(), buffer: Vec::new(), bytes: 0, parts: None }))
}

struct RemoteUpload {
    store: Remote,
    path: String,
    /// Less than a part.
    buffer: Vec<u8>,
    /// All of the object so far.
    bytes: u64,
    parts: Option<Parts>,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    tasks: Vec<JoinHandle<()>>,
    /// The first part that failed.
    failure: Arc<Mutex<Option<object_store::Error>>>,
}

impl RemoteUpload {
    fn wrong(&self, error: &object_store::Error) -> Error {
        self.store.error(error, &Answer::of_client(error), "write", &self.path)
    }

    /// Sends what is in the buffer as the next part; waits while too many are on their way.
    fn send_part(&mut self) -> Result<()> {
        let payload = Bytes::from(std::mem::take(&mut self.buffer));
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => {
                // Not every store honours the condition where an upload is completed.
                let (this, path) = (self.store.clone(), self.path.clone());
                if runtime::wait(async move { this.head(&path).await })??.is_some() {
                    return Err(Error::conflict(format!("`{}` exists already", self.path)));
                }
                let (client, at) = (self.store.cloud().objects(), self.store.object_path(&self.path)?);
                let upload =
                    runtime::wait(async move { client.put_multipart(&at).await })?.map_err(|error| self.wrong(&error))?;
                Parts { upload, tasks: Vec::new(), failure: Arc::default() }
            }
        };
        if parts.tasks.len() == MAX_PARTS {
            self.parts = Some(parts);
            return Err(Error::denied(format!(
                "`{}` would be longer than an object written in {MAX_PARTS} parts can be",
                self.path
            ))
            .hint("lower `target_file_bytes`"));
        }
        let permit =
            runtime::wait(ON_THEIR_WAY.acquire())?.map_err(|error| Error::internal("no part may be sent").source(error))?;
        let (part, failure) = (parts.upload.put_part(payload.into()), Arc::clone(&parts.failure));
        parts.tasks.push(runtime::handle()?.spawn(async move {
            let _permit = permit;
            if let Err(error) = part.await {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }));
        let failure = parts.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.parts = Some(parts);
        failure.map_or(Ok(()), |error| Err(self.wrong(&error)))
    }

    fn finish_small(&mut self) -> Result<()> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let put = async move {
            let deadline = store.seam().elapsed() + SMALL_LIMIT;
            match put_if_absent(&store, &path, bytes, deadline, store.seam()).await? {
                PutAnswer::Mine => Ok(()),
                PutAnswer::Theirs(_) => Err(Error::conflict(format!("`{path}` exists already"))),
                PutAnswer::Unknown(error) => Err(error),
            }
        };
        runtime::wait(put)?
    }

    fn finish_parts(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        let work = async move {
            for task in parts.tasks.drain(..) {
                // A task that panicked has left its part unsent, which the completion notices.
                drop(task.await);
            }
            let failure = parts.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            let completed = match failure {
                Some(error) => Err(error),
                None => parts.upload.complete().await.map(drop),
            };
            (parts, completed)
        };
        let (parts, completed) = runtime::wait(work)?;
        let Err(error) = completed else { return Ok(()) };
        // A completion whose answer was lost and that is repeated is told that there is no such upload.
        let (store, path, bytes) = (self.store.clone(), self.path.clone(), self.bytes);
        let found = runtime::wait(async move { store.head(&path).await })?;
        if matches!(found, Ok(Some(entry)) if entry.size == bytes) {
            return Ok(());
        }
        self.parts = Some(parts);
        Err(self.wrong(&error))
    }

    fn give_up(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        let (path, cloud, seam) = (self.path.clone(), Arc::clone(self.store.cloud()), Arc::clone(self.store.seam()));
        let at = self.store.object_path(&path);
        let done = runtime::wait_at_most(TIDY_LIMIT, async move {
            let Ok(at) = at else { return false };
            let aborts: Vec<_> = parts.tasks.iter().map(JoinHandle::abort_handle).collect();
            let mut sent = futures::future::join_all(parts.tasks.drain(..));
            tokio::select! {
                biased;
                _ = &mut sent => {}
                () = seam.sleep(SETTLE_LIMIT) => {
                    aborts.iter().for_each(tokio::task::AbortHandle::abort);
                    drop(sent.await);
                }
            }
            cloud.drop_parts(&at, parts.upload.as_mut()).await.is_ok()
        });
        if done != Some(true) {
            tracing::warn!("parts of `{path}`, which is given up, could not be removed: they are not visible, but take up space");
        }
    }
}

impl Write for RemoteUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        self.bytes += taken as u64;
        if self.buffer.len() == PART_BYTES {
            self.send_part().map_err(as_remote_failure)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for RemoteUpload {
    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.parts.is_none() { self.finish_small() } else { self.finish_parts() }
    }

    fn abort(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for RemoteUpload {
    fn drop(&mut self) {
        self.give_up();
    }
}
