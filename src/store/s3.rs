//! S3 and what speaks its protocol: an object is created by one PUT with `If-None-Match: *`.
//!
//! 200 is the only answer that says "ours"; only what cannot have been applied (400, 401, 403, 404, 501) is a refusal.

mod answer;
mod client;
mod credentials;
mod describe;
mod http;
mod names;
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
pub(crate) fn is_s3_option(name: &str) -> bool {
    names::canonical(name).is_some()
}

/// Opens the bucket and prefix of an `s3://` or `s3a://` URL. Sends nothing to the bucket.
///
/// **Errors:** `Config` for options that are wrong or not supported, or when no region is known.
pub(crate) fn open(url: &Url, options: &Options) -> Result<Remote> {
    remote::http::install_crypto();
    let (redactor, seam) = (Redactor::default(), seam::real());
    let settings = options::parse(url, &options.storage_options, |name| std::env::var(name).ok(), &redactor)?;
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
        let answer::Place { bucket, region, endpoint } = &self.place;
        Place { kind: "bucket", name: bucket, endpoint: endpoint.as_ref().unwrap_or(region) }
    }

    async fn describe(&self, seam: &Seam) -> Description {
        describe::describe(self, seam).await
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
