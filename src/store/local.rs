//! Local disk: an object is a file; its creation is a hard link, which is atomic and never replaces a file.
//!
//! What was created outlives a power cut: the file is synced before it gets its name, its directory after, and every directory on
//! the way once per process. Blocking work runs on tokio's blocking threads, or in place where there is no runtime.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use url::Url;

use super::io_error::{as_write_failure, io_error, is_no_hard_links, no_hard_links};
use super::{Description, Entry, Greeting, Options, PROBES, PutTry, Source, Store, Upload, check_path};
use crate::seam::fail_point;
use crate::{Error, Result};

/// How the names of temporary files begin: readers of a table skip names with a leading dot.
const TEMPORARY: &str = ".delta-load-";

/// How many directories are remembered as durable before the memory of them is begun anew: about 10 MB.
const REMEMBERED_DIRECTORIES: usize = 100_000;

/// A directory on local disk.
#[derive(Debug)]
pub struct Local {
    url: Url,
    disk: Arc<Disk>,
}

impl Local {
    /// Opens the directory of a `file://` URL; it need not exist. Writes nothing.
    ///
    /// **Errors:** `Config` when it, or a part of its path, is a file.
    pub fn open(url: &Url, options: &Options) -> Result<Self> {
        let no_path = || Error::config(format!("`{url}` is not the URL of a directory"));
        // Without the slash at its end, which makes the system refuse to look at a file.
        let root: PathBuf = url.to_file_path().map_err(|()| no_path())?.components().collect();
        let existing = root.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
        if let Some(existing) = existing
            && !existing.is_dir()
        {
            return Err(Error::config(format!(
                "destination `{}` is not a directory: `{}` is a file",
                root.display(),
                existing.display()
            ))
            .hint("choose a `destination` that is a directory or does not exist yet"));
        }
        let url = Url::from_directory_path(&root).map_err(|()| no_path())?;
        let disk = Disk {
            root,
            is_single_writer: options.single_writer,
            durable: Mutex::default(),
            temporaries: AtomicU64::new(0),
            has_lost_links: AtomicBool::new(false),
        };
        Ok(Self { url, disk: Arc::new(disk) })
    }

    /// Makes every hard link fail from here on.
    #[cfg(test)]
    pub(super) fn lose_hard_links(&self) {
        self.disk.has_lost_links.store(true, Ordering::Relaxed);
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Disk) -> T + Send + 'static) -> Result<T> {
        let disk = Arc::clone(&self.disk);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let work = runtime.spawn_blocking(move || work(&disk));
                work.await.map_err(|error| Error::internal("work on local disk was broken off").source(error))
            }
            Err(_) => Ok(work(&disk)),
        }
    }
}

#[async_trait]
impl Store for Local {
    fn url(&self) -> &Url {
        &self.url
    }

    async fn describe(&self) -> Description {
        Description { place: vec![("folder", self.disk.root.display().to_string())], credentials: Ok(None), part_bytes: None }
    }

    async fn greet(&self) -> Result<Greeting> {
        self.blocking(Disk::greet).await?
    }

    async fn probe(&self) -> Result<()> {
        self.blocking(Disk::probe).await?
    }

    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry {
        let path = path.to_owned();
        match self.blocking(move |disk| disk.put_once(&path, &bytes)).await {
            Ok(answer) => answer,
            Err(error) => PutTry::Unclear(error),
        }
    }

    async fn make_durable(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.blocking(move |disk| disk.make_durable(&path)).await?
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let path = path.to_owned();
        self.blocking(move |disk| disk.get(&path)).await?
    }

    async fn head(&self, path: &str) -> Result<Option<Entry>> {
        let path = path.to_owned();
        self.blocking(move |disk| disk.head(&path)).await?
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let path = path.to_owned();
        self.blocking(move |disk| disk.put(&path, &bytes)).await?
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.blocking(move |disk| disk.list(&prefix, after.as_deref())).await?
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.blocking(move |disk| disk.delete(&path)).await?
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>> {
        let target = self.disk.file_path(path)?;
        let file = self.disk.create_new(&target).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::conflict(format!("`{}` exists already", target.display())).source(error),
            _ => io_error(error, "write", &target),
        })?;
        Ok(Box::new(FileUpload { disk: Arc::clone(&self.disk), path: target, file, is_finished: false }))
    }

    fn open_file(&self, path: &str) -> Result<Source> {
        let path = self.disk.file_path(path)?;
        File::open(&path).map(Source::File).map_err(|error| io_error(error, "read", &path))
    }

    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn object_store::ObjectStore>, Url)> {
        let directory = if table.is_empty() { self.disk.root.clone() } else { self.disk.file_path(table)? };
        let as_url = |path: &Path| {
            Url::from_directory_path(path)
                .map_err(|()| Error::internal(format!("`{}` cannot be written as a URL", path.display())))
        };
        let shown = directory.to_string_lossy();
        if !shown.contains('%') {
            return Ok((Arc::new(LocalFileSystem::new()), as_url(&directory)?));
        }
        // The engine makes URLs of what it lists without encoding a `%`: the table is made the root, so that it meets none.
        let prefix = object_store::path::Path::parse(&*shown)
            .map_err(|error| Error::config(format!("the kernel cannot read a table at `{shown}`")).source(error))?;
        Ok((Arc::new(PrefixStore::new(LocalFileSystem::new(), prefix)), as_url(Path::new("/"))?))
    }

    fn bucket_access(&self) -> Arc<dyn object_store::ObjectStore> {
        Arc::new(LocalFileSystem::new())
    }
}

#[derive(Debug)]
struct Disk {
    root: PathBuf,
    is_single_writer: bool,
    /// Directories that exist and whose names outlive a power cut.
    durable: Mutex<HashSet<PathBuf>>,
    temporaries: AtomicU64,
    /// Set by a test's fail point alone.
    has_lost_links: AtomicBool,
}

impl Disk {
    fn file_path(&self, path: &str) -> Result<PathBuf> {
        check_path(path)?;
        Ok(self.root.join(path))
    }

    fn greet(&self) -> Result<Greeting> {
        let text = match fs::metadata(&self.root) {
            Ok(_) => "the folder is there",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "the folder is not there yet: the first load makes it",
            Err(error) => return Err(io_error(error, "read", &self.root)),
        };
        Ok(Greeting { text: text.to_owned(), clock: None })
    }

    fn probe(&self) -> Result<()> {
        let inside = self.root.join("x");
        let link = || -> io::Result<Option<io::Error>> {
            let first = self.temporary(&inside, b"probe")?;
            let second = self.temporary_path(&inside)?;
            let made = self.hard_link(&first.path, &second);
            let repeated = made.is_ok().then(|| self.hard_link(&first.path, &second));
            drop(Temporary { path: second });
            match (made, repeated) {
                (Ok(()), Some(Err(error))) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                (Ok(()), _) => Ok(Some(io::Error::other("a second hard link of the same name was accepted"))),
                (Err(error), _) if is_no_hard_links(&error) => Ok(Some(error)),
                (Err(error), _) => Err(error),
            }
        };
        match link() {
            Ok(None) => Ok(()),
            Ok(Some(_)) if self.is_single_writer => Ok(()),
            Ok(Some(error)) => Err(no_hard_links(error, &self.root)),
            Err(error) => Err(io_error(error, "write to", &self.root)),
        }
    }

    fn put_once(&self, path: &str, bytes: &[u8]) -> PutTry {
        let target = match self.file_path(path) {
            Ok(target) => target,
            Err(error) => return PutTry::Refused(error),
        };
        // Nothing reads back from a folder, however long one waits.
        let exists = || match target.is_dir() {
            true => PutTry::Refused(io_error(io::ErrorKind::IsADirectory.into(), "write", &target)),
            false => PutTry::Exists,
        };
        // Saves the temporary file when a race is lost already; the link below decides.
        if fs::symlink_metadata(&target).is_ok() {
            return exists();
        }
        // Until the link is made, nothing can have been applied. What may go better next time is tried again all the same.
        let before_link = |error: io::Error| {
            let error = io_error(error, "write", &target);
            if super::io_error::is_denied(&error) { PutTry::Refused(error) } else { PutTry::Unclear(error) }
        };
        let temporary = match self.temporary(&target, bytes) {
            Ok(temporary) => temporary,
            Err(error) => return before_link(error),
        };
        if fail_point("local:after_temporary") {
            return PutTry::Unclear(Error::unavailable("a test let the link fail"));
        }
        discard_hadoop_checksum(&target);
        match self.hard_link(&temporary.path, &target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return exists(),
            Err(error) if is_no_hard_links(&error) => {
                if !self.is_single_writer {
                    return PutTry::Refused(no_hard_links(error, &target));
                }
                // Nobody else writes, says the user: looking first and renaming then is as good as a link.
                match fs::symlink_metadata(&target) {
                    Ok(_) => return exists(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return before_link(error),
                }
                if let Err(error) = fs::rename(&temporary.path, &target) {
                    return before_link(error);
                }
            }
            Err(error) => return before_link(error),
        }
        if fail_point("local:after_link") {
            return PutTry::Unclear(Error::unavailable("a test let the sync of a directory fail"));
        }
        match sync_directory_of(&target) {
            Ok(()) => PutTry::Created,
            Err(error) => PutTry::Unclear(io_error(error, "sync the directory of", &target)),
        }
    }

    fn make_durable(&self, path: &str) -> Result<()> {
        let target = self.file_path(path)?;
        let sync = || {
            File::open(&target)?.sync_all()?;
            sync_directory_of(&target)
        };
        sync().map_err(|error| io_error(error, "sync", &target))
    }

    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let target = self.file_path(path)?;
        match fs::read(&target) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(error, "read", &target)),
        }
    }

    fn head(&self, path: &str) -> Result<Option<Entry>> {
        let target = self.file_path(path)?;
        match fs::metadata(&target) {
            Ok(metadata) => Ok(Some(entry(path.to_owned(), &metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(error, "read", &target)),
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.file_path(path)?;
        let replace = || {
            let temporary = self.temporary(&target, bytes)?;
            discard_hadoop_checksum(&target);
            fs::rename(&temporary.path, &target)?;
            sync_directory_of(&target)
        };
        replace().map_err(|error| io_error(error, "write", &target))
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        let (directory, name) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let top = if directory.is_empty() { self.root.clone() } else { self.file_path(directory)? };
        let mut found = Vec::new();
        let mut open = vec![(top, directory.to_owned(), name)];
        while let Some((folder, path, name)) = open.pop() {
            let mut visit = || -> io::Result<()> {
                for child in fs::read_dir(&folder)? {
                    let child = child?;
                    // A name that is not UTF-8 is not ours, and no path of a store.
                    let Ok(child_name) = child.file_name().into_string() else { continue };
                    if !child_name.starts_with(name) || child_name.starts_with(TEMPORARY) {
                        continue;
                    }
                    let child_path = if path.is_empty() { child_name } else { format!("{path}/{child_name}") };
                    // Links to files are followed, links to directories are not: they may lead round in a circle.
                    if child.file_type()?.is_dir() {
                        open.push((child.path(), child_path, ""));
                        continue;
                    }
                    match fs::metadata(child.path()) {
                        Ok(metadata) if metadata.is_file() && after.is_none_or(|after| child_path.as_str() > after) => {
                            found.push(entry(child_path, &metadata));
                        }
                        Ok(_) => {}
                        // Deleted in the meantime, or a link that leads nowhere.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            };
            match visit() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error(error, "list", &folder)),
            }
        }
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let target = self.file_path(path)?;
        let remove = || match fs::remove_file(&target) {
            Ok(()) => {
                discard_hadoop_checksum(&target);
                sync_directory_of(&target)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        remove().map_err(|error| io_error(error, "delete", &target))?;
        if path.starts_with(PROBES) {
            self.remove_folders_of_probes();
        }
        Ok(())
    }

    /// A folder of probes is there only while one is in it.
    fn remove_folders_of_probes(&self) {
        for folder in Path::new(PROBES).ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            let folder = self.root.join(folder);
            // Not empty: the probe of another process, or what else is kept there.
            if fs::remove_dir(&folder).is_err() {
                return;
            }
            self.forget_below(&folder);
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A file system does not change its mind: once a test made it lose its links, they stay lost.
        if fail_point("store:no_hard_links") {
            self.has_lost_links.store(true, Ordering::Relaxed);
        }
        if self.has_lost_links.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        fs::hard_link(from, to)
    }

    /// Writes and syncs a file that is about to become `target`, in the same directory, under a name that readers skip.
    fn temporary(&self, target: &Path, bytes: &[u8]) -> io::Result<Temporary> {
        loop {
            let path = self.temporary_path(target)?;
            let mut file = match self.create_new(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let temporary = Temporary { path };
            file.write_all(bytes)?;
            file.sync_all()?;
            return Ok(temporary);
        }
    }

    /// Returns a name that no other thread of this process takes; one of another process or a crash is met by `create_new`.
    fn temporary_path(&self, target: &Path) -> io::Result<PathBuf> {
        let directory = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let count = self.temporaries.fetch_add(1, Ordering::Relaxed);
        Ok(directory.join(format!("{TEMPORARY}{}-{count}.tmp", std::process::id())))
    }

    /// Creates a file, with the directories above it. Those are durable afterwards; the file's own name is not yet.
    fn create_new(&self, path: &Path) -> io::Result<File> {
        let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut passage = 0;
        loop {
            self.create_directory(directory)?;
            passage += 1;
            match OpenOptions::new().write(true).create_new(true).open(path) {
                // A directory that we remember was removed in the meantime, as when a table is dropped.
                Err(error) if error.kind() == io::ErrorKind::NotFound && passage < 3 => self.forget(directory),
                result => return result,
            }
        }
    }

    /// Makes `directory` and those above it exist and outlive a power cut. Whoever made one may not have synced its name yet, so
    /// each is synced once by this process, except those above the root that were there before.
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        if self.durable.lock().unwrap_or_else(PoisonError::into_inner).contains(directory) {
            return Ok(());
        }
        let is_new = match fs::create_dir(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = directory.parent().ok_or(error)?;
                self.create_directory(parent)?;
                match fs::create_dir(directory) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => result?,
                }
                true
            }
            // Some file systems say "read-only" or "no permission" before "exists".
            Err(_) if directory.is_dir() => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) => return Err(error),
        };
        let is_inside = directory != self.root && directory.starts_with(&self.root);
        if is_new || is_inside {
            if let Some(parent) = directory.parent().filter(|_| is_inside) {
                self.create_directory(parent)?;
            }
            sync_directory_of(directory)?;
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() >= REMEMBERED_DIRECTORIES {
            durable.clear();
        }
        durable.insert(directory.to_owned());
        Ok(())
    }

    /// Forgets `directory`, which was removed.
    fn forget_below(&self, directory: &Path) {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner).remove(directory);
    }

    /// Forgets `directory` and those above it.
    fn forget(&self, directory: &Path) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.retain(|known| !directory.starts_with(known));
    }
}

/// A temporary file, removed when it is no longer needed, on every path.
struct Temporary {
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Renamed already, or it cannot be helped: readers skip it.
        let _ = fs::remove_file(&self.path);
    }
}

/// A data file that is being written under its own name: nothing refers to it before it is finished.
struct FileUpload {
    disk: Arc<Disk>,
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl Write for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| as_write_failure(error, &self.path))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| as_write_failure(error, &self.path))
    }
}

impl Upload for FileUpload {
    fn finish(mut self: Box<Self>) -> Result<()> {
        let sync = || {
            self.file.sync_all()?;
            self.path.parent().map_or(Ok(()), |directory| self.disk.create_directory(directory))?;
            sync_directory_of(&self.path)?;
            // A directory that was removed and made again in the meantime does not hold the file.
            fs::symlink_metadata(&self.path).map(drop)
        };
        sync().map_err(|error| io_error(error, "write", &self.path))?;
        self.is_finished = true;
        Ok(())
    }

    fn abort(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        if !self.is_finished {
            // It cannot be helped: a file that no commit names is not part of the table.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the name of `path` outlive a power cut.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    match File::open(directory)?.sync_all() {
        // Some network and FUSE file systems have no sync of directories; they write names through.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Removes the checksum that Hadoop's local file system keeps beside a file (`.NAME.crc`): it would no longer match what we write, and
/// Spark would refuse to read the file. Without one Spark does not check.
fn discard_hadoop_checksum(path: &Path) {
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        // There is hardly ever one; one that cannot be removed is no reason to fail.
        let _ = fs::remove_file(path.with_file_name(format!(".{name}.crc")));
    }
}

fn entry(path: String, metadata: &fs::Metadata) -> Entry {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default();
    Entry { path, size: metadata.len(), modified_ms }
}
