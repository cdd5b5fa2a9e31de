//! The two clients of a container: the object store's for data and reads, the SDK's for the one request that must never be repeated
//! unseen, and for deletions.

use std::num::NonZero;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{ClientOptions as SdkOptions, Context, Request, RetryOptions, Transport, Url};
use azure_storage_blob::models::BlobClientUploadOptions;
use azure_storage_blob::{BlobClient, BlobClientOptions};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use object_store::azure::{AzureAccessKey, AzureCredential, AzureCredentialProvider, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig, StaticCredentialProvider};

use super::answer::{Place, cut};
use super::identity::Tokens;
use super::objects::Objects;
use super::options::{Keys, Settings};
use super::sign::account_sas;
use super::wire::Wire;
use crate::seam::Seam;
use crate::store::remote::Put;
use crate::store::remote::answer::{Answer, whole_text};
use crate::store::remote::http::{Connector, credentials_client};
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// The longest object of one put. A commit is one request whatever its length: parts would be more.
const LONGEST_PUT: NonZero<u64> = NonZero::<u64>::MIN.saturating_add(5000 << 20);

/// Both clients, with what they have in common.
#[derive(Debug)]
pub(super) struct Container {
    pub objects: Arc<dyn ObjectStore>,
    pub blobs: Arc<Blobs>,
    pub place: Place,
}

/// Single requests for single blobs, by the SDK, which never repeats one.
#[derive(Debug)]
pub(super) struct Blobs {
    /// The container's address.
    pub root: Url,
    /// What both clients send their requests through.
    pub http: HttpClient,
    options: SdkOptions,
    content_type: Option<String>,
    retry: RetryConfig,
    redactor: Redactor,
    seam: Seam,
    pub keys: Keys,
    pub tokens: Option<Tokens>,
}

/// Builds the clients. Sends nothing.
///
/// **Errors:** `Config` for what the clients do not take.
pub(super) fn build(settings: Settings, redactor: &Redactor, seam: &Seam) -> Result<Container> {
    let Settings { account, container, endpoint, keys, authority, client, retry, content_type, .. } = settings;
    let wrong = |error: object_store::Error| {
        Error::config("the clients of the container cannot be built from `storage_options`")
            .source(redactor.clean(&whole_text(&error)))
    };
    let connector = Connector::new(redactor.clone(), cut);
    let tokens = match &keys {
        Keys::Identity(identity) => {
            // What a source of tokens answers is told by the SDK, whole.
            let client = Connector::new(redactor.clone(), cut).whole().connect(&credentials_client(&client)).map_err(wrong)?;
            Some(Tokens::new(identity, authority.as_ref(), &client, redactor.clone(), seam.clone()))
        }
        _ => None,
    };
    let given = |credential: AzureCredential| -> AzureCredentialProvider { Arc::new(StaticCredentialProvider::new(credential)) };
    let credentials = match (&keys, &tokens) {
        (_, Some(tokens)) => Some(Arc::new(tokens.clone()) as AzureCredentialProvider),
        (Keys::Account(key), _) => {
            let key = AzureAccessKey::try_new(&BASE64_STANDARD.encode(key))
                .map_err(|error| Error::config("the account key is not base64").source(error))?;
            Some(given(AzureCredential::AccessKey(key)))
        }
        (Keys::Sas(pairs), _) => Some(given(AzureCredential::SASToken(pairs.clone()))),
        (Keys::Token(token), _) => Some(given(AzureCredential::BearerToken(token.clone()))),
        _ => None,
    };
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(&account)
        .with_container_name(&container)
        .with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned())
        .with_client_options(client.clone())
        .with_retry(retry.clone())
        .with_http_connector(connector.clone());
    builder = match credentials {
        Some(credentials) => builder.with_credentials(credentials),
        None => builder.with_skip_signature(true),
    };
    let inner = builder.build().map_err(wrong)?;

    let http = connector.connect(&client).map_err(wrong)?;
    let sign = Sign { account: account.clone(), keys: keys.clone(), tokens: tokens.clone(), seam: seam.clone() };
    let options = SdkOptions {
        // An answer that is lost is ours to resolve: a client that repeats the request meets its own object.
        retry: RetryOptions::none(),
        transport: Some(Transport::new(Arc::new(Wire::new(http.clone())))),
        per_try_policies: vec![Arc::new(sign)],
        ..SdkOptions::default()
    };
    let root = child(&endpoint, [container.as_str()])?;
    let place = Place { account, container, endpoint: endpoint.as_str().trim_end_matches('/').to_owned() };
    let (redactor, seam) = (redactor.clone(), seam.clone());
    let blobs = Arc::new(Blobs { root, http, options, content_type, retry, redactor, seam, keys, tokens });
    let objects = Arc::new(Objects { inner, blobs: Arc::clone(&blobs) });
    Ok(Container { objects, blobs, place })
}

/// Returns an address with more parts, each encoded.
fn child<'a>(root: &Url, parts: impl IntoIterator<Item = &'a str>) -> Result<Url> {
    let mut url = root.clone();
    url.path_segments_mut().map_err(|()| Error::internal("an address has no path"))?.pop_if_empty().extend(parts);
    Ok(url)
}

/// Puts the authorization on each request as it is sent.
#[derive(Debug)]
struct Sign {
    account: String,
    keys: Keys,
    tokens: Option<Tokens>,
    seam: Seam,
}

#[async_trait]
impl Policy for Sign {
    async fn send(&self, context: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let wrong = |error: Error| azure_core::Error::with_message(ErrorKind::Credential, error.to_string());
        let bearer = |token: &str| format!("Bearer {token}");
        match (&self.keys, &self.tokens) {
            (_, Some(tokens)) => {
                let token = tokens.get().await.map_err(wrong)?;
                request.insert_header("authorization", bearer(&token));
            }
            (Keys::Token(token), None) => request.insert_header("authorization", bearer(token)),
            (Keys::Account(key), None) => {
                let pairs = account_sas(&self.account, key, self.seam.now_us()).map_err(wrong)?;
                request.url_mut().query_pairs_mut().extend_pairs(pairs);
            }
            (Keys::Sas(pairs), None) => {
                request.url_mut().query_pairs_mut().extend_pairs(pairs);
            }
            (Keys::Identity(_) | Keys::Unsigned, None) => {}
        }
        match next.split_first() {
            Some((first, rest)) => first.send(context, request, rest).await,
            None => Err(azure_core::Error::with_message(ErrorKind::Other, "no policy sends the request")),
        }
    }
}

impl Blobs {
    fn client(&self, key: &str) -> Result<BlobClient> {
        let url = child(&self.root, key.split('/'))?;
        let options = BlobClientOptions { client_options: self.options.clone(), ..BlobClientOptions::default() };
        BlobClient::new(url, None, Some(options)).map_err(|error| {
            Error::internal("the client of a blob cannot be built").source(self.redactor.clean(&whole_text(&error)))
        })
    }

    /// Puts an object with one request; `is_conditional` asks the store to refuse when there is one already.
    pub(super) async fn put(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put {
        let client = match self.client(key) {
            Ok(client) => client,
            Err(error) => return Put::Silence(error.render()),
        };
        let options = BlobClientUploadOptions {
            blob_content_type: self.content_type.clone(),
            partition_size: Some(LONGEST_PUT),
            ..BlobClientUploadOptions::default()
        };
        let options = if is_conditional { options.if_not_exists() } else { options };
        match client.upload(bytes.into(), Some(options)).await {
            Ok(_) => Put::Created,
            Err(error) => match answer_of(&error) {
                Some(answer) => Put::Answered(answer),
                None => Put::Silence(whole_text(&error)),
            },
        }
    }

    /// Deletes a blob, trying again where that may go better.
    pub(super) async fn delete(&self, at: &Path) -> object_store::Result<()> {
        let start = self.seam.elapsed();
        let mut pause = self.retry.backoff.init_backoff;
        let mut tries = 0;
        loop {
            let client = self.client(at.as_ref()).map_err(|error| generic(error.render()))?;
            let Err(error) = client.delete(None).await else { return Ok(()) };
            let failure = match answer_of(&error) {
                Some(answer) if matches!(answer.status, Some(429 | 500..)) => failed(at, &answer),
                Some(answer) => return Err(failed(at, &answer)),
                None => generic(self.redactor.clean(&whole_text(&error))),
            };
            if tries >= self.retry.max_retries || self.seam.elapsed().saturating_sub(start) > self.retry.retry_timeout {
                return Err(failure);
            }
            tries += 1;
            self.seam.sleep(pause).await;
            pause = pause.mul_f64(self.retry.backoff.base).min(self.retry.backoff.max_backoff);
        }
    }

    /// Drops the blocks of a blob that was never completed: they go when a blob of that name is put, and nothing else removes them.
    /// The blob that does it is empty, and deleted. `is_there` says that the blob exists: it has been completed, and is left alone.
    ///
    /// Source: <https://learn.microsoft.com/en-us/rest/api/storageservices/put-block#remarks>
    pub(super) async fn drop_blocks(&self, at: &Path, is_there: bool) -> object_store::Result<()> {
        if is_there {
            return Ok(());
        }
        // Without the condition: whether blocks alone make a blob "exist" is not the same on all stores.
        match self.put(at.as_ref(), Bytes::new(), false).await {
            Put::Created => self.delete(at).await,
            Put::Answered(answer) => Err(failed(at, &answer)),
            Put::Silence(text) => Err(generic(self.redactor.clean(&text))),
        }
    }
}

/// Returns what the store answered; `None` when it did not, or with a success whose text could not be read.
fn answer_of(error: &azure_core::Error) -> Option<Answer> {
    let ErrorKind::HttpResponse { status, raw_response, .. } = error.kind() else { return None };
    let status = u16::from(*status);
    if (200..300).contains(&status) {
        return None;
    }
    let text = raw_response.as_ref().map(|raw| String::from_utf8_lossy(raw.body().as_ref()).into_owned()).unwrap_or_default();
    Some(cut(status, &text, &HeaderMap::new()))
}

fn failed(at: &Path, answer: &Answer) -> object_store::Error {
    let text = format!("status code: {} {}", answer.status.unwrap_or_default(), answer.to_xml());
    match answer.status {
        Some(404) => object_store::Error::NotFound { path: at.to_string(), source: text.into() },
        _ => generic(text),
    }
}

fn generic(text: String) -> object_store::Error {
    object_store::Error::Generic { store: "Azure", source: text.into() }
}
