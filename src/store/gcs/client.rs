//! The two clients of a bucket: the object store's for data and reads, Google's for the one request that must never be repeated unseen.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_gax::error::Error as SdkError;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_storage::client::Storage;
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::{ObjectStore, StaticCredentialProvider};

use super::answer::{Place, cut, of_put};
use super::credentials::Chain;
use super::objects::{Objects, Unsigned};
use super::options::Settings;
use crate::seam::Seam;
use crate::store::remote::Put;
use crate::store::remote::answer::{Answer, whole_text};
use crate::store::remote::http::Connector;
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// Both clients, with what they have in common.
#[derive(Debug)]
pub(super) struct Clients {
    pub data: Arc<dyn ObjectStore>,
    commits: Storage,
    pub chain: Option<Chain>,
    pub place: Place,
    /// What the client of data sends its requests through.
    pub http: HttpClient,
    /// The bucket as Google's client calls it.
    bucket: String,
    attempt: Duration,
    content_type: Option<String>,
    user_agent: Option<String>,
    redactor: Redactor,
    seam: Seam,
}

/// Builds the clients, which asks for nothing.
///
/// **Errors:** `Config` for what the clients do not take.
pub(super) async fn build(settings: &Settings, redactor: &Redactor, seam: &Seam) -> Result<Clients> {
    let wrong = |text: String| {
        Error::config("the clients of the bucket cannot be built from `storage_options`").source(redactor.clean(&text))
    };
    let chain = settings.source.clone().map(|source| Chain::new(source, redactor.clone(), seam.clone()));
    let connector = Connector::new(redactor.clone(), cut);
    let http = connector.connect(&settings.client).map_err(|error| wrong(whole_text(&error)))?;
    let builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(&settings.bucket)
        .with_base_url(&settings.endpoint)
        .with_client_options(settings.client.clone())
        .with_retry(settings.retry.clone());
    let builder = match &chain {
        Some(chain) => builder.with_credentials(Arc::new(chain.clone())).with_http_connector(connector),
        None => {
            // Not asked for reads; what a PUT makes of it is taken off.
            let none = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
            builder.with_credentials(Arc::new(none)).with_skip_signature(true).with_http_connector(Unsigned(connector))
        }
    };
    let data = builder.build().map_err(|error| wrong(whole_text(&error)))?;

    let credentials = match &chain {
        Some(chain) => Credentials::from(chain.clone()),
        None => anonymous::Builder::new().build(),
    };
    let commits = Storage::builder()
        .with_endpoint(&settings.endpoint)
        .with_credentials(credentials)
        // An answer that is lost is ours to resolve: a client that repeats the request meets its own object.
        .with_retry_policy(NeverRetry)
        // One request, however long the object is.
        .with_resumable_upload_threshold(usize::MAX)
        // For what goes by gRPC, which is nothing.
        .with_grpc_subchannel_count(1)
        .build()
        .await
        .map_err(|error| wrong(whole_text(&error)))?;

    let place =
        Place { bucket: settings.bucket.clone(), endpoint: settings.endpoint.clone(), is_signed: settings.source.is_some() };
    Ok(Clients {
        data: Arc::new(Objects(Arc::new(data))),
        commits,
        chain,
        place,
        http,
        bucket: format!("projects/_/buckets/{}", settings.bucket),
        attempt: settings.attempt,
        content_type: settings.content_type.clone(),
        user_agent: settings.user_agent.clone(),
        redactor: redactor.clone(),
        seam: seam.clone(),
    })
}

impl Clients {
    /// Puts an object with one request; `is_conditional` asks the store to refuse when there is one already.
    pub(super) async fn put_object(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put {
        let mut put = self.commits.write_object(&self.bucket, key, bytes).with_retry_policy(NeverRetry).with_idempotency(false);
        if is_conditional {
            put = put.set_if_generation_match(0_i64);
        }
        if let Some(content_type) = &self.content_type {
            put = put.set_content_type(content_type);
        }
        if let Some(user_agent) = &self.user_agent {
            put = put.with_user_agent(user_agent);
        }
        tokio::select! {
            sent = put.send_buffered() => match sent {
                Ok(_) => Put::Created,
                Err(error) => self.answer_of(&error),
            },
            // Google's client knows no limit for an upload.
            () = self.seam.sleep(self.attempt) => Put::Silence(format!("no answer came within {:?}", self.attempt)),
        }
    }

    fn answer_of(&self, error: &SdkError) -> Put {
        let Some(status) = error.http_status_code().filter(|status| !(200..300).contains(status)) else {
            return Put::Silence(whole_text(error));
        };
        let answer = match (error.http_payload(), error.status()) {
            (Some(payload), _) => cut(status, &String::from_utf8_lossy(payload), &http::HeaderMap::new()),
            (None, Some(said)) => Answer { status: Some(status), message: said.message.clone(), ..Answer::default() },
            (None, None) => Answer { status: Some(status), ..Answer::default() },
        };
        let clean = |text: &str| self.redactor.clean(text);
        Put::Answered(of_put(Answer { code: clean(&answer.code), message: clean(&answer.message), ..answer }))
    }
}
