//! Google Cloud Storage: an object is created by one upload with `ifGenerationMatch=0`.
//!
//! 200 is the only answer that says "ours"; only what cannot have been applied (400, 401, 403, 404, 405, 501) is a refusal.

mod answer;
mod client;
mod credentials;
mod describe;
mod keys;
mod names;
mod objects;
mod options;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore};
use url::Url;

use super::remote::answer::Answer;
use super::remote::greeting::Greeter;
use super::remote::redactor::Redactor;
use super::remote::{self, Cloud, Meaning, Place, Put, Remote, runtime};
use super::{Description, Options};
use crate::seam::{self, Seam};
use crate::{Error, Result};
use client::Clients;

/// Whether an option means something here: it works, or it is refused by name.
#[cfg(test)]
pub(crate) fn is_google_option(name: &str) -> bool {
    names::canonical(name).is_some()
}

/// Opens the bucket and prefix of a `gs://` URL. Sends nothing to the bucket.
///
/// **Errors:** `Config` for options that are wrong or not supported, or a key that is not one.
pub(crate) fn open(url: &Url, options: &Options) -> Result<Remote> {
    open_with(url, options, |name| std::env::var(name).ok())
}

/// Like [`open`]; `variable` looks up the environment.
pub(super) fn open_with(url: &Url, options: &Options, variable: impl Fn(&str) -> Option<String>) -> Result<Remote> {
    remote::http::install_crypto();
    let (redactor, seam) = (Redactor::default(), seam::real());
    let settings = options::parse(url, &options.storage_options, variable, &redactor)?;
    let clients = {
        let (settings, redactor, seam) = (settings.clone(), redactor.clone(), seam.clone());
        runtime::wait(async move { client::build(&settings, &redactor, &seam).await })??
    };
    Ok(Remote::new(url, &settings.prefix, Arc::new(clients), redactor, seam, options.single_writer))
}

#[async_trait]
impl Cloud for Clients {
    fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.data)
    }

    fn place(&self) -> Place<'_> {
        Place { kind: "bucket", name: &self.place.bucket, endpoint: &self.place.endpoint }
    }

    async fn describe(&self, _seam: &Seam) -> Description {
        describe::describe(self).await
    }

    fn greeter(&self) -> Greeter<'_> {
        describe::greeter(self)
    }

    async fn prepare(&self) -> Result<()> {
        match &self.chain {
            Some(chain) => chain.get().await.map(drop),
            None => Ok(()),
        }
    }

    async fn forget_credentials(&self) -> bool {
        match &self.chain {
            Some(chain) => {
                chain.forget().await;
                true
            }
            None => false,
        }
    }

    async fn put(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put {
        self.put_object(key, bytes, is_conditional).await
    }

    async fn drop_parts(&self, _at: &Path, upload: &mut dyn MultipartUpload) -> object_store::Result<()> {
        upload.abort().await
    }

    fn meaning(&self, answer: &Answer) -> Meaning {
        answer::meaning(answer)
    }

    fn error(&self, answer: &Answer, doing: &str, what: &str) -> Error {
        answer::error(answer, doing, what, &self.place)
    }
}
