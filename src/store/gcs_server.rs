//! Test support: Google Cloud Storage within the test binary, the JSON API as far as commits use it and the XML API as far as data does.
//! It checks tokens and holds its objects in a map. Beside it are the services that give tokens.

mod backend;
mod tokens;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};

use super::test_server::{self, Server, Service};
use super::{Options, Remote};
use backend::Backend;
pub(crate) use test_server::{Call, Fault, Operation, seeded};
pub(crate) use tokens::{Tokens, private_key};

/// Each server has a bucket of its own, so that what is remembered of one does not hold for another on the same port.
static BUCKETS: AtomicU64 = AtomicU64::new(0);

/// A running server; it ends with this value.
pub(crate) struct GcsServer {
    pub(crate) bucket: String,
    /// The services that give tokens, and what they gave.
    pub(crate) tokens: Tokens,
    backend: Backend,
    server: Server,
}

impl Deref for GcsServer {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Endpoint {
    backend: Backend,
    tokens: Tokens,
}

#[async_trait]
impl Service for Endpoint {
    fn operation(&self, request: &Request<Bytes>) -> Operation {
        self.tokens.see(request.headers());
        let query = request.uri().query().unwrap_or_default();
        let is_upload = request.uri().path().starts_with("/upload/");
        match *request.method() {
            Method::POST if is_upload && query.contains("ifGenerationMatch=0") => Operation::ConditionalPut,
            Method::POST if is_upload => Operation::Put,
            Method::HEAD => Operation::Head,
            Method::GET if query.contains("list-type") => Operation::List,
            Method::GET => Operation::Get,
            _ if query.contains("upload") => Operation::Multipart,
            Method::PUT if request.headers().contains_key("x-goog-if-generation-match") => Operation::ConditionalPut,
            Method::PUT => Operation::Put,
            _ => Operation::Delete,
        }
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let given = request.headers().get("authorization").map(|value| value.to_str().unwrap_or_default());
        match self.tokens.admits(given) {
            true => self.backend.answer(&request),
            false => backend::refuse(request.uri().path().starts_with("/upload/"), 401, "authError"),
        }
    }

    /// An answer that holds a secret, as a proxy that shows the request would give it.
    fn failure(&self, status: u16, code: &str) -> Response<Bytes> {
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>a test says so to {0}</Message><Details>{0}</Details></Error>",
            self.tokens.newest()
        );
        Response::builder().status(status).header("content-type", "application/xml").body(Bytes::from(text)).unwrap()
    }
}

impl GcsServer {
    /// Starts a server without faults.
    pub(crate) fn start() -> Self {
        Self::with_rule(|_| Fault::Pass)
    }

    /// Starts a server with the faults that `rule` gives for each call.
    pub(crate) fn with_rule(rule: impl FnMut(&Call) -> Fault + Send + 'static) -> Self {
        let bucket = format!("lake-{}", BUCKETS.fetch_add(1, Ordering::Relaxed));
        let (backend, tokens) = (Backend::new(&bucket), Tokens::start());
        let endpoint = Endpoint { backend: backend.clone(), tokens: tokens.clone() };
        let server = Server::start(endpoint, rule);
        Self { bucket, tokens, backend, server }
    }

    /// From here on the condition of an upload is ignored.
    pub(crate) fn ignore_conditions(&self) {
        self.backend.ignore_conditions();
    }

    /// Returns how many uploads in parts are begun and neither completed nor aborted.
    pub(crate) fn open_uploads(&self) -> usize {
        self.backend.open_uploads()
    }

    /// Returns the URL of a root in the bucket.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        super::normalise_destination(&format!("gs://{}/{path}", self.bucket)).unwrap()
    }

    /// Returns options that reach the server, without credentials, patient enough for its faults and quick about them.
    pub(crate) fn bare_options(&self) -> BTreeMap<String, String> {
        let options = [
            ("google_base_url", self.endpoint().as_str()),
            ("allow_http", "true"),
            ("backoff_config.init_backoff", "1ms"),
            ("backoff_config.max_backoff", "50ms"),
            ("max_retries", "30"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        options.into_iter().collect()
    }

    /// The same with the key of a service account, which signs its tokens itself.
    pub(crate) fn storage_options(&self) -> BTreeMap<String, String> {
        let mut options = self.bare_options();
        options.insert("google_service_account_key".to_owned(), self.tokens.service_account().to_string());
        options
    }

    pub(crate) fn options(&self) -> Options {
        Options { storage_options: self.storage_options(), single_writer: false }
    }

    /// Opens a root in the bucket.
    pub(crate) fn open(&self, path: &str) -> Remote {
        self.open_with(path, &[])
    }

    /// Opens a root, with more options.
    pub(crate) fn open_with(&self, path: &str, more: &[(&str, &str)]) -> Remote {
        let mut options = self.options();
        options.storage_options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        super::gcs::open_with(&self.url(path), &options, |_| None).unwrap()
    }

    /// Opens a root with these credentials instead, in an environment of these variables.
    pub(crate) fn open_as(&self, credentials: &[(&str, &str)], variables: &[(&str, &str)]) -> crate::Result<Remote> {
        let mut options = Options { storage_options: self.bare_options(), single_writer: false };
        options.storage_options.extend(credentials.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        super::gcs::open_with(&self.url("root"), &options, find)
    }
}
