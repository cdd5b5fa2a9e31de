//! S3 and what speaks its protocol: an object is created by one PUT with `If-None-Match: *`, which is never repeated unseen.
//!
//! 200 is the only answer that says "ours". 412, 409, any 5xx, a time-out and a closed connection are answered by reading back, which is
//! [`put_if_absent`](super::put_if_absent)'s work; only what cannot have been applied (400, 401, 403, 404, 501) is a refusal. Whether a
//! store honours the condition at all is shown by [`Store::probe`] before the first commit.

mod answer;
mod client;
mod credentials;
mod http;
mod names;
mod options;
mod probe;
mod redactor;
mod runtime;
mod upload;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use super::{Entry, Options, PutTry, Source, Store, Upload, check_path};
use crate::seam::{self, Seam};
use crate::{Error, Result};
use answer::{Answer, is_final, whole_text};
use client::{Clients, Put};
use redactor::Redactor;

/// Whether an option means something here: it works, or it is refused by name.
#[cfg(test)]
pub(crate) fn is_s3_option(name: &str) -> bool {
    names::canonical(name).is_some()
}

/// The client of data and reads.
type Client = Arc<object_store::aws::AmazonS3>;

/// The root of tables in a bucket. Clones share clients and credentials.
#[derive(Clone)]
pub struct S3(Arc<Core>);

struct Core {
    url: Url,
    /// What every key begins with: empty, or with a slash at its end.
    prefix: String,
    clients: Clients,
    redactor: Redactor,
    seam: Seam,
    is_single_writer: bool,
    /// The store has no put-if-absent (501), and the user takes that risk.
    has_no_condition: AtomicBool,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3({})", self.0.url)
    }
}

impl S3 {
    /// Opens the bucket and prefix of an `s3://` or `s3a://` URL. Sends nothing to the bucket.
    ///
    /// **Errors:** `Config` for options that are wrong or not supported, or when no region is known.
    pub fn open(url: &Url, options: &Options) -> Result<Self> {
        // One crypto provider for all TLS of the process: the libraries bring two and agree on none. One that is set already stays.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let (redactor, seam) = (Redactor::default(), seam::real());
        let settings = options::parse(url, &options.storage_options, |name| std::env::var(name).ok(), &redactor)?;
        let clients = {
            let (settings, redactor, seam) = (settings.clone(), redactor.clone(), seam.clone());
            runtime::wait(async move { client::build(&settings, &redactor, &seam).await })??
        };
        let prefix = if settings.prefix.is_empty() { String::new() } else { format!("{}/", settings.prefix) };
        Ok(Self(Arc::new(Core {
            url: url.clone(),
            prefix,
            clients,
            redactor,
            seam,
            is_single_writer: options.single_writer,
            has_no_condition: AtomicBool::new(false),
        })))
    }

    fn clients(&self) -> &Clients {
        &self.0.clients
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
            .map_err(|error| Error::internal(format!("`{path}` is not a path within a bucket")).source(error))
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
            let clients = this.clients();
            let mut is_second = false;
            loop {
                if let Some(chain) = &clients.chain {
                    chain.get().await?;
                }
                let error = match work(Arc::clone(&clients.data)).await {
                    Ok(found) => return Ok(Some(found)),
                    Err(error) => error,
                };
                let answer = Answer::of_client(&error);
                if let Some(chain) = clients.chain.as_ref().filter(|_| answer.is_expired() && !is_second) {
                    is_second = true;
                    chain.forget().await;
                    continue;
                }
                if answer.status == Some(404) && answer.code != "NoSuchBucket" {
                    return Ok(None);
                }
                return Err(this.error(&error, &answer, doing, &path));
            }
        };
        runtime::run(asked).await?
    }

    fn error(&self, error: &object_store::Error, answer: &Answer, doing: &str, path: &str) -> Error {
        let typed = answer.error(doing, path, &self.clients().place);
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
        let clients = self.clients();
        let mut is_second = false;
        loop {
            if let Some(chain) = &clients.chain
                && let Err(error) = chain.get().await
            {
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
            let answer = match clients.put(&key, bytes.clone(), is_conditional).await {
                Put::Created => return PutTry::Created,
                Put::Answered(answer) => answer,
                Put::Silence(text) => {
                    let error = Error::unavailable(format!("no answer came to the put of `{path}`"));
                    return PutTry::Unclear(error.source(self.0.redactor.clean(&text)));
                }
            };
            if answer.status == Some(412) {
                return PutTry::Exists;
            }
            if let Some(chain) = clients.chain.as_ref().filter(|_| answer.is_expired() && !is_second) {
                is_second = true;
                chain.forget().await;
                continue;
            }
            if answer.status == Some(501) && is_conditional && self.0.is_single_writer {
                tracing::warn!("the store has no put-if-absent: safe only as long as no other process writes these tables");
                self.0.has_no_condition.store(true, Ordering::Relaxed);
                continue;
            }
            let error = answer.error("write", path, &clients.place);
            return if answer.is_refusal() { PutTry::Refused(error) } else { PutTry::Unclear(error) };
        }
    }
}

#[async_trait]
impl Store for S3 {
    fn url(&self) -> &Url {
        &self.0.url
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
            .map_err(|error| Error::internal(format!("`{prefix}` is not a path within a bucket")).source(error))?;
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
        Ok((Arc::new(PrefixStore::new(Arc::clone(&self.clients().data), root)), url))
    }
}

impl S3 {
    fn entry(&self, meta: &object_store::ObjectMeta) -> Option<Entry> {
        let path = meta.location.as_ref().strip_prefix(&self.0.prefix)?.to_owned();
        Some(Entry { path, size: meta.size, modified_ms: meta.last_modified.timestamp_millis() })
    }
}
