//! A store in memory, with the rules of the others: for tests and dry runs.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use url::Url;

use super::{Description, Entry, Greeting, PutTry, Source, Store, Upload, check_path};
use crate::{Error, Result};

/// Objects in memory. Clones share them.
#[derive(Clone)]
pub struct Memory {
    url: Url,
    objects: Arc<InMemory>,
}

impl Memory {
    /// Returns an empty store that calls itself `url`.
    pub fn new(url: Url) -> Self {
        Self { url, objects: Arc::default() }
    }

    async fn put_with(&self, path: &str, bytes: Bytes, mode: PutMode) -> Result<(), object_store::Error> {
        self.objects.put_opts(&Path::parse(path)?, bytes.into(), mode.into()).await.map(drop)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.url)
    }
}

#[async_trait]
impl Store for Memory {
    fn url(&self) -> &Url {
        &self.url
    }

    async fn describe(&self) -> Description {
        Description { place: vec![("memory", "of this process".to_owned())], credentials: Ok(None), part_bytes: None }
    }

    async fn greet(&self) -> Result<Greeting> {
        Ok(Greeting { text: "objects are held in memory, and gone when the process ends".to_owned(), clock: None })
    }

    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry {
        if let Err(error) = check_path(path) {
            return PutTry::Refused(error);
        }
        match self.put_with(path, bytes, PutMode::Create).await {
            Ok(()) => PutTry::Created,
            Err(object_store::Error::AlreadyExists { .. }) => PutTry::Exists,
            Err(error) => PutTry::Refused(wrong(path, error)),
        }
    }

    async fn make_durable(&self, _path: &str) -> Result<()> {
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        check_path(path)?;
        let get = async { self.objects.get(&Path::parse(path)?).await?.bytes().await };
        match get.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(wrong(path, error)),
        }
    }

    async fn head(&self, path: &str) -> Result<Option<Entry>> {
        check_path(path)?;
        let head = async { self.objects.head(&Path::parse(path)?).await };
        match head.await {
            Ok(meta) => Ok(Some(entry(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(wrong(path, error)),
        }
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        check_path(path)?;
        self.put_with(path, bytes, PutMode::Overwrite).await.map_err(|error| wrong(path, error))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        let mut all = self.objects.list(None);
        let mut found = Vec::new();
        while let Some(meta) = all.next().await {
            let entry = entry(&meta.map_err(|error| wrong(prefix, error))?);
            if entry.path.starts_with(prefix) && after.is_none_or(|after| entry.path.as_str() > after) {
                found.push(entry);
            }
        }
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        check_path(path)?;
        let delete = async { self.objects.delete(&Path::parse(path)?).await };
        match delete.await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(wrong(path, error)),
        }
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>> {
        match now(self.head(path))? {
            Some(_) => Err(exists(path)),
            None => Ok(Box::new(MemoryUpload { store: self.clone(), path: path.to_owned(), bytes: Vec::new() })),
        }
    }

    fn open_file(&self, path: &str) -> Result<Source> {
        now(self.get(path))?.map(Source::Bytes).ok_or_else(|| Error::unavailable(format!("there is no `{path}`")))
    }

    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn ObjectStore>, Url)> {
        // The engine encodes special characters of a table's path twice (all schemes but `file`), so that the table is made the root.
        let url = Url::parse("memory:///").map_err(|error| Error::internal("the memory URL does not parse").source(error))?;
        let prefix = Path::parse(table).map_err(|error| wrong(table, error.into()))?;
        Ok((Arc::new(PrefixStore::new(Arc::clone(&self.objects), prefix)), url))
    }

    fn bucket_access(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects) as _
    }
}

struct MemoryUpload {
    store: Memory,
    path: String,
    bytes: Vec<u8>,
}

impl Write for MemoryUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for MemoryUpload {
    fn finish(self: Box<Self>) -> Result<()> {
        let Self { store, path, bytes } = *self;
        now(async {
            match store.put_once(&path, bytes.into()).await {
                PutTry::Created => Ok(()),
                PutTry::Exists => Err(exists(&path)),
                PutTry::Refused(error) | PutTry::Unclear(error) => Err(error),
            }
        })
    }

    fn abort(self: Box<Self>) {}
}

/// Returns what a future of the memory store gives: none of them ever waits.
fn now<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    work.now_or_never().unwrap_or_else(|| Err(Error::internal("a store in memory waited")))
}

fn exists(path: &str) -> Error {
    Error::conflict(format!("`{path}` exists already"))
}

fn wrong(path: &str, error: object_store::Error) -> Error {
    Error::internal(format!("a store in memory refused `{path}`")).source(error)
}

fn entry(meta: &object_store::ObjectMeta) -> Entry {
    Entry { path: meta.location.to_string(), size: meta.size, modified_ms: meta.last_modified.timestamp_millis() }
}
