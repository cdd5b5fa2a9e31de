//! Test support: the blob service of Azure within the test binary, which checks keys, signatures and tokens and holds its blobs in a
//! map. It gives out tokens too, as Entra and as the metadata service.

mod authorization;
mod backend;
mod identity;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};

pub(crate) use super::test_server::{Call, Fault, Operation, seeded};
use super::test_server::{Server, Service};
use super::{Options, Remote};
use backend::Backend;
pub(crate) use identity::{CLIENT, CLIENT_SECRET, FEDERATED, Issued, TENANT};

pub(crate) const ACCOUNT: &str = "acct";
/// The account's key.
pub(crate) const KEY: &str = "c2VjcmV0L29mK3RoZT10ZXN0IHNlY3JldC9vZit0aGU9dGVzdA==";
/// What failed answers hold beside code and message.
pub(crate) const SECRET: &str = "what/was+signed=";

/// Each server has a container of its own, so that what is remembered of one does not hold for another on the same port.
static CONTAINERS: AtomicU64 = AtomicU64::new(0);

/// A running server; it ends with this value.
pub(crate) struct AzureServer {
    pub(crate) container: String,
    backend: Arc<Backend>,
    server: Server,
}

impl Deref for AzureServer {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Endpoint(Arc<Backend>);

#[async_trait]
impl Service for Endpoint {
    fn operation(&self, request: &Request<Bytes>) -> Operation {
        let query = request.uri().query().unwrap_or_default();
        let is_conditional = request.headers().contains_key("if-none-match");
        match *request.method() {
            _ if !request.uri().path().starts_with(&format!("/{ACCOUNT}/")) => Operation::Token,
            Method::HEAD => Operation::Head,
            Method::GET if query.contains("comp=list") => Operation::List,
            Method::GET => Operation::Get,
            Method::PUT if query.contains("comp=block") => Operation::Multipart,
            Method::PUT if is_conditional => Operation::ConditionalPut,
            Method::PUT => Operation::Put,
            _ => Operation::Delete,
        }
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.0.answer(&request)
    }

    fn failure(&self, status: u16, code: &str) -> Response<Bytes> {
        // "There is one already" has another name here than on S3.
        match (status, code) {
            (412, _) => failure(409, "BlobAlreadyExists"),
            _ => failure(status, code),
        }
    }
}

/// Returns a failed answer as the service gives it.
fn failure(status: u16, code: &str) -> Response<Bytes> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>a test says so\nRequestId:1</Message>\
         <AuthenticationErrorDetail>{SECRET}</AuthenticationErrorDetail></Error>"
    );
    let mut answer = Response::builder().status(status).header("content-type", "application/xml");
    if !code.is_empty() {
        answer = answer.header("x-ms-error-code", code);
    }
    answer.body(Bytes::from(text)).unwrap()
}

impl AzureServer {
    /// Starts a server without faults.
    pub(crate) fn start() -> Self {
        Self::with_rule(|_| Fault::Pass)
    }

    /// Starts a server with the faults that `rule` gives for each call.
    pub(crate) fn with_rule(rule: impl FnMut(&Call) -> Fault + Send + 'static) -> Self {
        let container = format!("lake-{}", CONTAINERS.fetch_add(1, Ordering::Relaxed));
        let backend = Arc::new(Backend::new(&container));
        let server = Server::start(Endpoint(Arc::clone(&backend)), rule);
        Self { container, backend, server }
    }

    /// From here on the condition of a put is ignored.
    pub(crate) fn ignore_conditions(&self) {
        self.backend.ignore_conditions();
    }

    /// Returns how many blobs have blocks that were never put together.
    pub(crate) fn open_uploads(&self) -> usize {
        self.backend.open_uploads()
    }

    /// From here on tokens live for so many seconds.
    pub(crate) fn let_tokens_live(&self, seconds: u64) {
        self.backend.identity.let_tokens_live(seconds);
    }

    /// Makes all tokens invalid that were given out.
    pub(crate) fn revoke_tokens(&self) {
        self.backend.identity.revoke();
    }

    /// Returns what tokens were given out for.
    pub(crate) fn issued(&self) -> Vec<Issued> {
        self.backend.identity.issued()
    }

    /// Returns the root of the blob service.
    pub(crate) fn service(&self) -> String {
        format!("{}/{ACCOUNT}", self.endpoint())
    }

    /// Returns a signature with these permissions that expires at `expiry`.
    pub(crate) fn sas(&self, permissions: &str, expiry: &str) -> String {
        authorization::sas(permissions, expiry)
    }

    /// Returns the URL of a root in the container.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        super::normalise_destination(&format!("az://{}/{path}", self.container)).unwrap()
    }

    /// Returns options that reach the server, patient enough for its faults and quick about them, without credentials.
    pub(crate) fn options_without_key(&self) -> BTreeMap<String, String> {
        let options = [
            ("azure_storage_account_name", ACCOUNT),
            ("azure_storage_endpoint", &self.service()),
            ("backoff_config.init_backoff", "1ms"),
            ("backoff_config.max_backoff", "50ms"),
            ("max_retries", "30"),
        ];
        options.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(crate) fn storage_options(&self) -> BTreeMap<String, String> {
        let mut options = self.options_without_key();
        options.insert("azure_storage_account_key".to_owned(), KEY.to_owned());
        options
    }

    pub(crate) fn options(&self) -> Options {
        Options { storage_options: self.storage_options(), single_writer: false }
    }

    /// Opens a root in the container.
    pub(crate) fn open(&self, path: &str) -> Remote {
        self.open_with(path, &[])
    }

    /// Opens a root, with more options.
    pub(crate) fn open_with(&self, path: &str, more: &[(&str, &str)]) -> Remote {
        self.open_as(path, self.storage_options(), more)
    }

    /// Opens a root with these credentials.
    pub(crate) fn open_without_key(&self, path: &str, more: &[(&str, &str)]) -> Remote {
        self.open_as(path, self.options_without_key(), more)
    }

    fn open_as(&self, path: &str, mut storage_options: BTreeMap<String, String>, more: &[(&str, &str)]) -> Remote {
        storage_options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let options = Options { storage_options, single_writer: false };
        super::azure::open_with(&self.url(path), &options, &|_| None, &crate::seam::real()).unwrap()
    }
}
