//! The files that BATCH messages name: on local disk, or in a bucket, from where they are copied to a temporary file first.
//!
//! Memory holds a piece of an object, never the whole; credentials are those of the destination's `storage_options`.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};
use crate::source::{self, BatchObject, BatchPlace, Records};
use crate::store::{self, Store};

/// A BATCH file that was read.
#[derive(Debug, Clone)]
pub(super) enum BatchFile {
    Local(PathBuf),
    Object { store: Arc<dyn Store>, path: String, shown: String },
}

impl fmt::Display for BatchFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Object { shown, .. } => f.write_str(shown),
        }
    }
}

impl BatchFile {
    /// Deletes the file.
    pub(super) async fn delete(&self) -> Result<()> {
        match self {
            Self::Local(path) => {
                let denied = |error| Error::denied("the file cannot be deleted").source(error);
                tokio::fs::remove_file(path).await.map_err(denied)
            }
            Self::Object { store, path, .. } => store.delete(path).await,
        }
    }
}

/// Opens BATCH files, each store once.
pub(super) struct BatchFiles {
    working_directory: PathBuf,
    options: store::Options,
    runtime: Handle,
    stores: HashMap<String, Arc<dyn Store>>,
}

/// Names of the option that says the destination's bucket again: BATCH files may be in another one.
const BUCKET_OPTIONS: [&str; 4] = ["bucket", "bucket_name", "aws_bucket", "aws_bucket_name"];

impl BatchFiles {
    pub(super) fn new(working_directory: PathBuf, options: &store::Options, runtime: Handle) -> Self {
        let mut options = options.clone();
        options.storage_options.retain(|name, _| !BUCKET_OPTIONS.contains(&name.as_str()));
        Self { working_directory, options, runtime, stores: HashMap::new() }
    }

    /// Opens the file that an entry of a manifest names.
    ///
    /// **Errors**: `Input`, naming the file, when it is missing or not one of records; `Denied` and `Unavailable` of its store.
    pub(super) fn open(&mut self, entry: &str, line_limit: usize) -> Result<(Records, BatchFile)> {
        match source::resolve_batch_path(entry, &self.working_directory)? {
            BatchPlace::Local(path) => Ok((source::open(&path, line_limit)?, BatchFile::Local(path))),
            BatchPlace::Object(object) => self.open_object(object, line_limit),
        }
    }

    fn open_object(&mut self, object: BatchObject, line_limit: usize) -> Result<(Records, BatchFile)> {
        let BatchObject { root, paths, shown } = object;
        let store = self.store(root, &shown)?;
        for path in paths {
            let spooled = self.runtime.block_on(store::spool(&*store, &path)).map_err(|error| at(&shown, error))?;
            if let Some(file) = spooled {
                let records = source::open_file(file, Path::new(&shown), line_limit)?;
                return Ok((records, BatchFile::Object { store, path, shown }));
            }
        }
        Err(Error::input(format!("the BATCH file `{shown}` does not exist")))
    }

    fn store(&mut self, root: String, shown: &str) -> Result<Arc<dyn Store>> {
        if let Some(store) = self.stores.get(&root) {
            return Ok(store.clone());
        }
        let opened = store::normalise_destination(&root).and_then(|url| store::open(&url, &self.options));
        let store = opened.map_err(|error| at(shown, error))?;
        self.stores.insert(root, store.clone());
        Ok(store)
    }
}

/// Names the BATCH file that an error of its store is about.
fn at(shown: &str, error: Error) -> Error {
    let hint = error.hint_text().map(str::to_owned);
    // What is wrong with the place was written by the tap.
    let kind = if error.kind() == ErrorKind::Config { ErrorKind::Input } else { error.kind() };
    let named = Error::new(kind, format!("the BATCH file `{shown}` cannot be read")).source(error);
    match hint {
        Some(hint) => named.hint(hint),
        None => named,
    }
}
