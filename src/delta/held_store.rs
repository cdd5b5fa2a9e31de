//! The store that the kernel's writers see: their small files are held back, so that we write them under our own rules, and a
//! checkpoint goes to another name first.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result,
};

/// A file that the kernel wanted to write.
#[derive(Debug)]
pub(super) struct Held {
    /// The name, without folders.
    pub name: String,
    pub bytes: Bytes,
}

/// Passes everything through but: `_last_checkpoint` and `.crc` are held, and a checkpoint is written and read under the name
/// `staged` while there is one.
#[derive(Debug)]
pub(super) struct HeldStore {
    inner: Arc<dyn ObjectStore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    staged_name: Option<String>,
    /// The staged path and the one that it stands for.
    staged: Option<(Path, Path)>,
}

impl HeldStore {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, staged_name: Option<String>) -> Self {
        Self { inner, state: Mutex::new(State { staged_name, ..State::default() }) }
    }

    pub(super) fn inner(&self) -> &Arc<dyn ObjectStore> {
        &self.inner
    }

    /// Returns what was held since the last call.
    pub(super) fn take_held(&self) -> Vec<Held> {
        std::mem::take(&mut self.state().held)
    }

    /// Returns the path that a checkpoint was written to, and the one that it is to have.
    pub(super) fn staged(&self) -> Option<(Path, Path)> {
        self.state().staged.clone()
    }

    /// From here on the checkpoint is found under its own name.
    pub(super) fn end_staging(&self) {
        let mut state = self.state();
        (state.staged, state.staged_name) = (None, None);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while holding the lock leaves no half-made state: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where `location` is to be written.
    fn written(&self, location: &Path) -> Path {
        let mut state = self.state();
        let is_checkpoint = location.filename().is_some_and(|name| name.ends_with(".checkpoint.parquet"));
        let Some(name) = state.staged_name.clone().filter(|_| is_checkpoint) else { return location.clone() };
        let Some((folder, _)) = location.as_ref().rsplit_once('/') else { return location.clone() };
        let Ok(staged) = Path::parse(format!("{folder}/{name}")) else { return location.clone() };
        state.staged = Some((staged.clone(), location.clone()));
        staged
    }

    /// Returns where `location` is to be read.
    fn read(&self, location: &Path) -> Path {
        match &self.state().staged {
            Some((staged, path)) if path == location => staged.clone(),
            _ => location.clone(),
        }
    }
}

impl fmt::Display for HeldStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for HeldStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if let Some(name) = location.filename().filter(|name| *name == "_last_checkpoint" || name.ends_with(".crc")) {
            self.state().held.push(Held { name: name.to_owned(), bytes: payload.into() });
            return Ok(PutResult { e_tag: None, version: None });
        }
        self.inner.put_opts(&self.written(location), payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(&self.written(location), options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(&self.read(location), options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(&self.read(location), ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
