//! Azure's blob storage: an object is created by one PUT with `If-None-Match: *`.
//!
//! 201 is the only answer that says "ours"; 409 `BlobAlreadyExists` and 412 say "it exists"; only what cannot have been applied (400,
//! 401, 403, 404, 501) is a refusal.

mod answer;
mod client;
mod describe;
mod identity;
mod location;
mod names;
mod objects;
mod options;
mod sign;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use url::Url;

use super::remote::answer::Answer;
use super::remote::greeting::Greeter;
use super::remote::redactor::Redactor;
use super::remote::{self, Cloud, Meaning, Place, Put, Remote};
use super::{Description, Options};
use crate::seam::{self, Seam};
use crate::{Error, Result};
use client::Container;
pub(in crate::store) use location::{SCHEMES, normalise};

/// Whether an option means something here: it works, or it is refused by name.
#[cfg(test)]
pub(crate) fn is_azure_option(name: &str) -> bool {
    names::canonical(name).is_some()
}

/// Opens the container and path of a URL that [`normalise`] made. Sends nothing.
///
/// **Errors:** `Config` for options that are wrong or not supported, or when no account is known.
pub(crate) fn open(url: &Url, options: &Options) -> Result<Remote> {
    open_with(url, options, &|name| std::env::var(name).ok(), &seam::real())
}

/// Like [`open`], with another environment and clock.
pub(crate) fn open_with(url: &Url, options: &Options, variable: &dyn Fn(&str) -> Option<String>, seam: &Seam) -> Result<Remote> {
    remote::http::install_crypto();
    let redactor = Redactor::default();
    let settings = options::parse(url, &options.storage_options, variable, &redactor)?;
    let prefix = settings.prefix.clone();
    let container = client::build(settings, &redactor, seam)?;
    Ok(Remote::new(url, &prefix, Arc::new(container), redactor, Arc::clone(seam), options.single_writer))
}

#[async_trait]
impl Cloud for Container {
    fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects)
    }

    fn place(&self) -> Place<'_> {
        Place { kind: "container", name: &self.place.container, endpoint: &self.place.endpoint }
    }

    async fn describe(&self, _seam: &Seam) -> Description {
        describe::describe(self).await
    }

    fn greeter(&self) -> Greeter<'_> {
        describe::greeter(self)
    }

    async fn prepare(&self) -> Result<()> {
        match &self.blobs.tokens {
            Some(tokens) => tokens.get().await.map(drop),
            None => Ok(()),
        }
    }

    async fn forget_credentials(&self) -> bool {
        match &self.blobs.tokens {
            Some(tokens) => {
                tokens.forget().await;
                true
            }
            None => false,
        }
    }

    async fn put(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put {
        self.blobs.put(key, bytes, is_conditional).await
    }

    async fn drop_parts(&self, at: &Path, _upload: &mut dyn MultipartUpload) -> object_store::Result<()> {
        let is_there = match self.objects.head(at).await {
            Ok(_) => true,
            Err(object_store::Error::NotFound { .. }) => false,
            Err(error) => return Err(error),
        };
        self.blobs.drop_blocks(at, is_there).await
    }

    fn meaning(&self, answer: &Answer) -> Meaning {
        answer::meaning(answer, &self.blobs.keys)
    }

    fn error(&self, answer: &Answer, doing: &str, what: &str) -> Error {
        answer::error(answer, doing, what, &self.place, &self.blobs.keys)
    }
}
