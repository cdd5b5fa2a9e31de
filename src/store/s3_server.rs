//! Test support: an S3 endpoint within the test binary, which checks signatures and holds its objects in a map.

// The path is said, so that the tests of the command can include this file as well.
#[path = "s3_server/backend.rs"]
mod backend;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use s3s::Body;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};

use super::test_server::{self, Server, Service};
use super::{Options, Remote};
pub(crate) use backend::Backend;
pub(crate) use test_server::{Call, Fault, Operation, seeded, seeded_reads};

pub(crate) const KEY_ID: &str = "AKIDTESTTEST";
pub(crate) const SECRET: &str = "secret/of+the=test";

/// Each server has a bucket of its own, so that what is remembered of one does not hold for another on the same port.
static BUCKETS: AtomicU64 = AtomicU64::new(0);

/// A running server; it ends with this value.
pub(crate) struct S3Server {
    pub(crate) bucket: String,
    backend: Backend,
    server: Server,
}

impl Deref for S3Server {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.server
    }
}

struct Endpoint(S3Service);

#[async_trait]
impl Service for Endpoint {
    fn operation(&self, request: &Request<Bytes>) -> Operation {
        let query = request.uri().query().unwrap_or_default();
        match *request.method() {
            Method::HEAD => Operation::Head,
            Method::GET if query.contains("list-type") => Operation::List,
            Method::GET => Operation::Get,
            _ if query.contains("upload") => Operation::Multipart,
            Method::PUT if request.headers().contains_key("if-none-match") => Operation::ConditionalPut,
            Method::PUT => Operation::Put,
            _ => Operation::Delete,
        }
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (parts, body) = self.0.call(request.map(Body::from)).await.unwrap().into_parts();
        Response::from_parts(parts, test_server::read(body).await.unwrap())
    }

    fn failure(&self, status: u16, code: &str) -> Response<Bytes> {
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>a test says so</Message><Token-0>{SECRET}</Token-0></Error>"
        );
        Response::builder()
            .status(status)
            .header("content-type", "application/xml")
            .header("x-amz-request-id", "test")
            .body(Bytes::from(text))
            .unwrap()
    }
}

impl S3Server {
    /// Starts a server without faults.
    pub(crate) fn start() -> Self {
        Self::with_rule(|_| Fault::Pass)
    }

    /// Starts a server with the faults that `rule` gives for each call.
    pub(crate) fn with_rule(rule: impl FnMut(&Call) -> Fault + Send + 'static) -> Self {
        let bucket = format!("lake-{}", BUCKETS.fetch_add(1, Ordering::Relaxed));
        let backend = Backend::new(&bucket);
        let mut builder = S3ServiceBuilder::new(backend.clone());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let server = Server::start(Endpoint(builder.build()), rule);
        Self { bucket, backend, server }
    }

    /// From here on the condition of a put is ignored.
    pub(crate) fn ignore_conditions(&self) {
        self.backend.ignore_conditions();
    }

    /// From here on a conditional put looks whether the object exists, and writes it a moment later.
    pub(crate) fn look_before_put(&self) {
        self.backend.look_before_put();
    }

    /// Returns how many multipart uploads are begun and neither completed nor aborted.
    pub(crate) fn open_uploads(&self) -> usize {
        self.backend.open_uploads()
    }

    /// Returns the objects behind the server, for what happens there without a request.
    pub(crate) fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// Returns the URL of a root in the bucket.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        super::normalise_destination(&format!("s3://{}/{path}", self.bucket)).unwrap()
    }

    /// Returns options that reach the server, patient enough for its faults and quick about them.
    pub(crate) fn storage_options(&self) -> BTreeMap<String, String> {
        let options = [
            ("aws_access_key_id", KEY_ID),
            ("aws_secret_access_key", SECRET),
            ("aws_endpoint_url", &self.endpoint()),
            ("aws_region", "eu-central-1"),
            ("aws_allow_http", "true"),
            ("backoff_config.init_backoff", "1ms"),
            ("backoff_config.max_backoff", "50ms"),
            ("max_retries", "30"),
        ];
        options.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(crate) fn options(&self) -> Options {
        Options { storage_options: self.storage_options(), single_writer: false }
    }

    /// Opens a root in the bucket.
    pub(crate) fn open(&self, path: &str) -> Remote {
        super::s3::open(&self.url(path), &self.options()).unwrap()
    }

    /// Opens a root, with more options.
    pub(crate) fn open_with(&self, path: &str, more: &[(&str, &str)]) -> Remote {
        let mut options = self.options();
        options.storage_options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        super::s3::open(&self.url(path), &options).unwrap()
    }
}
