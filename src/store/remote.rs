//! What stores on the network have in common: one conditional put that is never repeated unseen, and one client for all else.
//!
//! A success is the only answer that says "ours". "It exists", a conflict, any 5xx, a time-out and a closed connection are answered by
//! reading back, which is [`put_if_absent`](super::put_if_absent)'s work; only what cannot have been applied is a refusal. Whether a
//! store honours the condition at all is shown by [`Store::probe`] before the first commit. What a cloud's answers mean, how it is
//! asked and where its credentials come from is said by its [`Cloud`].

pub(super) mod answer;
pub(super) mod greeting;
pub(super) mod http;
pub(super) mod options;
mod probe;
pub(super) mod redactor;
pub(super) mod runtime;
mod upload;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use url::Url;

use super::{Description, Entry, Greeting, PutTry, Source, Store, Upload, check_path};
use crate::seam::Seam;
use crate::{Error, Result};
use answer::{Answer, is_final, whole_text};
use greeting::Greeter;
use redactor::Redactor;
pub(super) use upload::PART_BYTES;

/// The client of data and reads.
type Client = Arc<dyn ObjectStore>;

/// A bucket or container as its cloud knows it. No method has a default, so that a cloud cannot forget one.
#[async_trait]
pub(super) trait Cloud: fmt::Debug + Send + Sync {
    /// Returns the client of data and reads, rooted at the bucket.
    fn objects(&self) -> Client;

    /// Returns what the bucket is called.
    fn place(&self) -> Place<'_>;

    /// Tells where requests go and by what right. Fetches the credentials; sends nothing to the store.
    async fn describe(&self, seam: &Seam) -> Description;

    /// Returns how the service is asked whether it is one.
    fn greeter(&self) -> Greeter<'_>;

    /// Makes sure that there are credentials which are good for a while.
    ///
    /// **Errors:** `Denied` when there are none; `Unavailable` when their source did not answer.
    async fn prepare(&self) -> Result<()>;

    /// Forgets the credentials, which the store says have expired; false when there are no others to be had.
    async fn forget_credentials(&self) -> bool;

    /// Puts an object with one request; `is_conditional` asks the store to refuse when there is one already.
    async fn put(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put;

    /// Removes the parts of an upload that is given up.
    async fn drop_parts(&self, at: &Path, upload: &mut dyn MultipartUpload) -> object_store::Result<()>;

    /// Returns what an answer means for the object that was asked for.
    fn meaning(&self, answer: &Answer) -> Meaning;

    /// Returns the typed error for an answer to the attempt to do something (`write`, `read`, `list`, `delete`).
    fn error(&self, answer: &Answer, doing: &str, what: &str) -> Error;
}

/// What a bucket is called: `kind` is the cloud's word for it (`bucket`, `container`), `endpoint` tells equal names apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub kind: &'static str,
    pub name: &'a str,
    pub endpoint: &'a str,
}

/// What one put answered.
#[derive(Debug)]
pub(super) enum Put {
    /// A success.
    Created,
    /// An answer with a status that is no success.
    Answered(Answer),
    /// No answer, or one that could not be read: the text says what was seen.
    Silence(String),
}

/// What an answer that is no success means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// There is an object already.
    Exists,
    /// There is no such object (but a bucket).
    Absent,
    /// Fresh credentials may help; nothing was applied.
    Expired,
    /// The store has no put-if-absent; nothing was applied.
    NoCondition,
    /// No for good: nothing was applied, and another try cannot go better before somebody acts.
    Refused,
    /// It may have been applied, or may go better next time.
    Unclear,
}

/// The root of tables in a bucket. Clones share clients and credentials.
#[derive(Clone)]
pub struct Remote(Arc<Core>);

struct Core {
    url: Url,
    /// What every key begins with: empty, or with a slash at its end.
    prefix: String,
    cloud: Arc<dyn Cloud>,
    redactor: Redactor,
    seam: Seam,
    is_single_writer: bool,
    /// The store has no put-if-absent, and the user takes that risk.
    has_no_condition: AtomicBool,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.0.url)
    }
}

impl Remote {
    /// Returns the store of `cloud` whose keys begin with `prefix` (no slashes at its ends).
    pub(super) fn new(
        url: &Url,
        prefix: &str,
        cloud: Arc<dyn Cloud>,
        redactor: Redactor,
        seam: Seam,
        is_single_writer: bool,
    ) -> Self {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let has_no_condition = AtomicBool::new(false);
        Self(Arc::new(Core { url: url.clone(), prefix, cloud, redactor, seam, is_single_writer, has_no_condition }))
    }

    fn cloud(&self) -> &Arc<dyn Cloud> {
        &self.0.cloud
    }

    fn seam(&self) -> &Seam {
        &self.0.seam
    }

    fn is_single_writer(&self) -> bool {
        self.0.is_single_writer
    }

    /// Returns the key of the object at `path`.
    fn key(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(format!("{}{path}", self.0.prefix))
    }

    fn object_path(&self, path: &str) -> Result<Path> {
        // `parse` takes the text as it is; `from` would encode `%` and what is not ASCII.
        Path::parse(self.key(path)?)
            .map_err(|error| Error::internal(format!("`{path}` is not a path within a store")).source(error))
    }

    /// Returns what `work` gives, `None` when the store says that there is no such object. Fresh credentials are tried once.
    async fn request<T, R>(
        &self,
        doing: &'static str,
        path: &str,
        work: impl Fn(Client) -> R + Send + 'static,
    ) -> Result<Option<T>>
    where
        T: Send + 'static,
        R: Future<Output = object_store::Result<T>> + Send,
    {
        let (this, path) = (self.clone(), path.to_owned());
        let asked = async move {
            let cloud = this.cloud();
            let mut is_second = false;
            loop {
                cloud.prepare().await?;
                let error = match work(cloud.objects()).await {
                    Ok(found) => return Ok(Some(found)),
                    Err(error) => error,
                };
                let answer = Answer::of_client(&error);
                let meaning = cloud.meaning(&answer);
                if meaning == Meaning::Expired && !is_second && cloud.forget_credentials().await {
                    is_second = true;
                    continue;
                }
                if meaning == Meaning::Absent {
                    return Ok(None);
                }
                return Err(this.error(&error, &answer, doing, &path));
            }
        };
        runtime::run(asked).await?
    }

    fn error(&self, error: &object_store::Error, answer: &Answer, doing: &str, path: &str) -> Error {
        let typed = self.cloud().error(answer, doing, path);
        match answer.status {
            Some(_) => typed,
            None => typed.source(self.0.redactor.clean(&whole_text(error))),
        }
    }

    async fn put_once_here(&self, path: &str, bytes: Bytes) -> PutTry {
        let key = match self.key(path) {
            Ok(key) => key,
            Err(error) => return PutTry::Refused(error),
        };
        let cloud = self.cloud();
        let mut is_second = false;
        loop {
            if let Err(error) = cloud.prepare().await {
                return if is_final(&error) { PutTry::Refused(error) } else { PutTry::Unclear(error) };
            }
            let is_conditional = !self.0.has_no_condition.load(Ordering::Relaxed);
            if !is_conditional {
                // Nobody else writes, says the user: looking first is as good as the condition.
                match self.head(path).await {
                    Ok(Some(_)) => return PutTry::Exists,
                    Ok(None) => {}
                    Err(error) => return if is_final(&error) { PutTry::Refused(error) } else { PutTry::Unclear(error) },
                }
            }
            let answer = match cloud.put(&key, bytes.clone(), is_conditional).await {
                Put::Created => return PutTry::Created,
                Put::Answered(answer) => answer,
                Put::Silence(text) => {
                    let error = Error::unavailable(format!("no answer came to the put of `{path}`"));
                    return PutTry::Unclear(error.source(self.0.redactor.clean(&text)));
                }
            };
            let error = cloud.error(&answer, "write", path);
            match cloud.meaning(&answer) {
                Meaning::Exists => return PutTry::Exists,
                Meaning::Expired if !is_second && cloud.forget_credentials().await => is_second = true,
                Meaning::NoCondition if is_conditional && self.0.is_single_writer => {
                    tracing::warn!("the store has no put-if-absent: safe only as long as no other process writes these tables");
                    self.0.has_no_condition.store(true, Ordering::Relaxed);
                }
                Meaning::Absent | Meaning::Expired | Meaning::NoCondition | Meaning::Refused => return PutTry::Refused(error),
                Meaning::Unclear => return PutTry::Unclear(error),
            }
        }
    }
}

#[async_trait]
impl Store for Remote {
    fn url(&self) -> &Url {
        &self.0.url
    }

    async fn describe(&self) -> Description {
        let this = self.clone();
        let described = runtime::run(async move { this.cloud().describe(this.seam()).await }).await;
        described.unwrap_or_else(|error| Description { place: Vec::new(), credentials: Err(error), part_bytes: None })
    }

    async fn greet(&self) -> Result<Greeting> {
        let this = self.clone();
        runtime::run(async move { this.cloud().greeter().greet(&this.0.redactor, this.seam()).await }).await?
    }

    async fn probe(&self) -> Result<()> {
        let this = self.clone();
        runtime::run(async move { probe::probe(&this).await }).await?
    }

    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry {
        let (this, path) = (self.clone(), path.to_owned());
        runtime::run(async move { this.put_once_here(&path, bytes).await }).await.unwrap_or_else(PutTry::Unclear)
    }

    /// What can be read from a bucket outlives a power cut.
    async fn make_durable(&self, path: &str) -> Result<()> {
        check_path(path)
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let at = self.object_path(path)?;
        let get = move |client: Client| {
            let at = at.clone();
            async move { client.get(&at).await?.bytes().await }
        };
        self.request("read", path, get).await
    }

    async fn head(&self, path: &str) -> Result<Option<Entry>> {
        let at = self.object_path(path)?;
        let head = move |client: Client| {
            let at = at.clone();
            async move { client.head(&at).await }
        };
        let found = self.request("read", path, head).await?;
        Ok(found.and_then(|meta| self.entry(&meta)))
    }

    async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let at = self.object_path(path)?;
        let put = move |client: Client| {
            let (at, bytes) = (at.clone(), bytes.clone());
            async move { client.put(&at, bytes.into()).await }
        };
        let written = self.request("write", path, put).await?;
        written
            .map(drop)
            .ok_or_else(|| Error::denied(format!("the store says that `{path}` has no place to be written to (404)")))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        // The client lists whole folders, so the last part is compared here. `after` is, too: a store that does not list in the order of
        // bytes would leave out the wrong ones.
        let whole = format!("{}{prefix}", self.0.prefix);
        let folder = whole.rsplit_once('/').map_or("", |(folder, _)| folder);
        let at = Path::parse(folder)
            .map_err(|error| Error::internal(format!("`{prefix}` is not a path within a store")).source(error))?;
        let list = move |client: Client| {
            let at = at.clone();
            async move { client.list(Some(&at)).try_collect::<Vec<_>>().await }
        };
        let listed = self.request("list", prefix, list).await?.unwrap_or_default();
        let is_wanted = |entry: &Entry| entry.path.starts_with(prefix) && after.is_none_or(|after| entry.path.as_str() > after);
        let mut found: Vec<Entry> = listed.iter().filter_map(|meta| self.entry(meta)).filter(is_wanted).collect();
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let at = self.object_path(path)?;
        let delete = move |client: Client| {
            let at = at.clone();
            async move { client.delete(&at).await }
        };
        self.request("delete", path, delete).await.map(drop)
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>> {
        upload::create(self, path)
    }

    fn open_file(&self, path: &str) -> Result<Source> {
        let (this, at) = (self.clone(), path.to_owned());
        let found = runtime::wait(async move { this.get(&at).await })??;
        found.map(Source::Bytes).ok_or_else(|| Error::unavailable(format!("there is no `{path}`")))
    }

    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn ObjectStore>, Url)> {
        // The engine encodes special characters of a table's path twice (all schemes but `file`), so that the table is made the root.
        let url = Url::parse("delta:///").map_err(|error| Error::internal("the kernel's URL does not parse").source(error))?;
        let root = match table {
            "" => Path::parse(&self.0.prefix).map_err(|error| Error::internal("the prefix is not a path").source(error))?,
            table => self.object_path(table)?,
        };
        Ok((Arc::new(PrefixStore::new(self.cloud().objects(), root)), url))
    }

    fn bucket_access(&self) -> Arc<dyn ObjectStore> {
        self.cloud().objects()
    }
}

impl Remote {
    fn entry(&self, meta: &object_store::ObjectMeta) -> Option<Entry> {
        let path = meta.location.as_ref().strip_prefix(&self.0.prefix)?.to_owned();
        // A header holds whole seconds, and Google's listing more: both are to say the same of one object.
        Some(Entry { path, size: meta.size, modified_ms: meta.last_modified.timestamp() * 1000 })
    }
}
