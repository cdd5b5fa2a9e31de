//! Stores that were opened for the library: it asks for the data first and for the log later, and both must be one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use deltalake::logstore::{ObjectStoreRef, StorageConfig};
use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use url::Url;

use crate::store::{self, Options, Store};
use crate::{Error, Result};

/// What was opened for one table.
#[derive(Debug, Clone)]
pub(super) struct Opened(Arc<dyn Store>);

/// What is opened at this time, by the data that the library holds. A weak reference keeps its address from being taken by another.
static OPENED: Mutex<Vec<(Weak<dyn ObjectStore>, Opened)>> = Mutex::new(Vec::new());

impl Opened {
    /// Opens the store of the table at `url`.
    pub(super) fn open(url: &Url, config: &StorageConfig) -> Result<Self> {
        let (root, _) = root_of(url)?;
        Ok(Self(store::open(&root, &options(config))?))
    }

    /// Returns the data, from the root of the bucket or file system on; as long as it is held, [`find`] gives what it came from.
    pub(super) fn remember(self) -> ObjectStoreRef {
        // A value of its own for each opening, so that its address tells it.
        let data: ObjectStoreRef = Arc::new(PrefixStore::new(self.0.bucket_access(), Path::default()));
        let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| known.strong_count() > 0);
        all.push((Arc::downgrade(&data), self));
        data
    }

    /// Returns the store of the table at `location`, and the table's path in it.
    pub(super) fn at(&self, location: &Url, config: &StorageConfig) -> Result<(Arc<dyn Store>, String)> {
        let (root, path) = root_of(location)?;
        if *self.0.url() == root {
            return Ok((Arc::clone(&self.0), path));
        }
        // Another table on the same data.
        Ok((store::open(&root, &options(config))?, path))
    }
}

/// Returns what was opened with this data.
pub(super) fn find(data: &ObjectStoreRef) -> Option<Opened> {
    let all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(data))).map(|(_, opened)| opened.clone())
}

/// Returns the root at which a table's store is opened, and the table's path below it: the table itself, so that rights to its folder
/// are enough. What is in memory is one store from its root on, whatever is opened in it.
fn root_of(url: &Url) -> Result<(Url, String)> {
    let unreadable = |error| Error::config(format!("the path of `{url}` is not UTF-8")).source(error);
    if url.scheme() != "memory" {
        return Ok((store::normalise_destination(url.as_str())?, String::new()));
    }
    let path = percent_encoding::percent_decode_str(url.path()).decode_utf8().map_err(unreadable)?;
    Ok((store::normalise_destination("memory:///")?, path.trim_matches('/').to_owned()))
}

/// Returns the options that the library was given, under the names that the stores know.
fn options(config: &StorageConfig) -> Options {
    let storage_options: BTreeMap<String, String> =
        config.raw.iter().map(|(name, value)| (name.trim().to_ascii_lowercase(), value.clone())).collect();
    Options { storage_options, single_writer: false }
}
