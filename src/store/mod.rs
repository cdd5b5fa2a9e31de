//! Object stores: open by URL, put-if-absent with read-back, and [`publish`], the loop over numbered objects.
//!
//! The guarantee: an object written by [`put_if_absent`] or [`publish`] is written once or not at all, and the caller learns which,
//! or learns that it is not known. "Already exists", a time-out and a reset connection are all *not known* until the object has been
//! read back and compared with what was sent. Losing to another writer is a value, never an error.
//!
//! Were that lost, an unclear answer would become a second commit of the same rows, or an error for rows that are in the table, and
//! two writers of one table would overwrite each other's commits without anybody noticing. On local disk, written also means that
//! file and directory entry survive a power cut.

mod azure;
#[cfg(test)]
pub(crate) mod azure_server;
mod description;
mod destination;
pub mod faulty;
mod gcs;
#[cfg(test)]
pub(crate) mod gcs_server;
mod io_error;
mod local;
mod memory;
mod publish;
mod put_if_absent;
mod remote;
mod retry;
mod s3;
#[cfg(test)]
pub(crate) mod s3_server;
#[cfg(test)]
pub(crate) mod simulated;
mod spool;
#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

#[cfg(test)]
pub(crate) use azure::is_azure_option;
pub use description::{Description, Greeting, ServerClock};
pub use destination::normalise_destination;
#[cfg(test)]
pub(crate) use gcs::is_google_option;
pub use io_error::write_failure;
pub use local::Local;
pub use memory::Memory;
pub use publish::{Numbered, Publication, Published, Step, publish};
pub use put_if_absent::{PutAnswer, put_if_absent};
pub use remote::Remote;
#[cfg(test)]
pub(crate) use s3::is_s3_option;
pub use spool::spool;

use crate::{Error, Result};

/// What the user set about the store.
#[derive(Clone, PartialEq, Default)]
pub struct Options {
    /// `storage_options`, names in lower case. Values may be secrets: never shown.
    pub storage_options: BTreeMap<String, String>,
    /// Takes the risk of a store without put-if-absent.
    pub single_writer: bool,
}

impl Debug for Options {
    /// Names only: any value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.storage_options.keys().collect();
        f.debug_struct("Options").field("storage_options", &names).field("single_writer", &self.single_writer).finish()
    }
}

impl Options {
    /// Returns the same for somebody who waits: few repetitions of a request, where the user did not set any.
    pub fn impatient(&self) -> Self {
        let mut options = self.clone();
        // Under any of its names (`aws_max_retries`, `aws_s3_get_internal_server_error_retries`).
        for (name, end, value) in [("max_retries", "retries", "2"), ("retry_timeout", "retry_timeout", "20s")] {
            if !self.storage_options.keys().any(|given| given.ends_with(end)) {
                options.storage_options.insert(name.to_owned(), value.to_owned());
            }
        }
        options
    }
}

/// Where objects are that only show what a store can do; below the root, with a slash at its end.
pub const PROBES: &str = "_delta_load/_probe/";

/// A store of objects below one root.
///
/// **Paths** are relative to the root, separated by `/`, as they are: not URL-encoded, no `.` or `..` parts, no slash at either end.
/// No method has a default, so that a wrapper cannot forget one.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// Returns the root, with a trailing slash.
    fn url(&self) -> &Url;

    /// Tells where requests go and by what right. Fetches the credentials, if there are any; sends nothing to the store.
    async fn describe(&self) -> Description;

    /// Shows that a store of this kind answers at all, whatever it allows, and what its clock says.
    ///
    /// **Errors:** `Unavailable` when nothing answers; `Denied` when what answers is something else.
    async fn greet(&self) -> Result<Greeting>;

    /// Shows that the store takes what a load needs (writing, put-if-absent), leaving nothing behind but the root itself.
    ///
    /// **Errors:** `Denied`, with what to do about it.
    async fn probe(&self) -> Result<()>;

    /// Tries once to create the object. Only [`put_if_absent`] can tell what the answer means.
    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry;

    /// Makes sure that an object which was found by reading outlives a power cut, as if this process had created it.
    async fn make_durable(&self, path: &str) -> Result<()>;

    /// Returns the whole object, `None` when there is none.
    async fn get(&self, path: &str) -> Result<Option<Bytes>>;

    /// Returns size and time of the object, `None` when there is none.
    async fn head(&self, path: &str) -> Result<Option<Entry>>;

    /// Writes the object, replacing one that exists. Readers see the old or the new one, never a part.
    async fn put(&self, path: &str, bytes: Bytes) -> Result<()>;

    /// Returns the objects whose path begins with `prefix` (plain text, at any depth) and sorts after `after`, sorted by path.
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>>;

    /// Deletes the object; there being none is fine.
    async fn delete(&self, path: &str) -> Result<()>;

    /// Begins a new object that is written bit by bit; one that exists is an error, here or while it is written, and is never overwritten.
    /// Blocks.
    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>>;

    /// Opens an object for reading at any place. Blocks.
    fn open_file(&self, path: &str) -> Result<Source>;

    /// Returns a store and the URL (with a trailing slash) under which a Delta kernel finds `table` (a path below the root).
    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn object_store::ObjectStore>, Url)>;

    /// Returns the data and reads of the whole bucket, container or file system that the root is in, with the same credentials.
    fn bucket_access(&self) -> Arc<dyn object_store::ObjectStore>;
}

/// An object as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path below the root.
    pub path: String,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change in milliseconds since 1970, by the store's clock.
    pub modified_ms: i64,
}

/// What one conditional put answered.
#[derive(Debug)]
pub enum PutTry {
    /// The object is there now, by this put.
    Created,
    /// The store says that there is an object. It may be ours: a client below may have repeated the request.
    Exists,
    /// The put was refused and cannot have been applied.
    Refused(Error),
    /// The put may or may not have been applied.
    Unclear(Error),
}

/// An object that is being written. Dropped before [`Upload::finish`], it is removed.
///
/// A failing `write` carries its cause in a form that [`write_failure`] turns into a typed error, through any number of wrappers.
pub trait Upload: Write + Send {
    /// Makes the object durable, with the directories above it.
    fn finish(self: Box<Self>) -> Result<()>;
    /// Removes what was written.
    fn abort(self: Box<Self>);
}

/// An object opened for reading at any place; either variant is what the Parquet reader takes.
#[derive(Debug)]
pub enum Source {
    /// A local file, read piece by piece.
    File(std::fs::File),
    /// The whole object, from a store that has no local files.
    Bytes(Bytes),
}

/// Opens the store at `url`, which [`normalise_destination`] made. Writes nothing.
///
/// **Errors:** `Config` when the scheme is unknown or not supported, or the root is not a directory.
pub fn open(url: &Url, options: &Options) -> Result<Arc<dyn Store>> {
    match url.scheme() {
        "file" => Ok(Arc::new(Local::open(url, options)?)),
        "memory" => Ok(Arc::new(Memory::new(url.clone()))),
        "s3" | "s3a" => Ok(Arc::new(s3::open(url, options)?)),
        scheme if azure::SCHEMES.contains(&scheme) => Ok(Arc::new(azure::open(url, options)?)),
        "gs" => Ok(Arc::new(gcs::open(url, options)?)),
        _ => Err(destination::refuse_scheme(url.scheme())),
    }
}

/// Returns an error when `path` is not one that a [`Store`] takes.
fn check_path(path: &str) -> Result<()> {
    let is_bad_part = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
    if path.split('/').any(is_bad_part) {
        return Err(Error::internal(format!("`{path}` is not a path within a store")));
    }
    Ok(())
}
