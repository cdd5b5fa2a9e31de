//! Test support: an S3 endpoint within the test binary, which checks signatures and holds its objects in a map, behind a layer that
//! loses answers, by a rule or by a seed.

mod backend;
mod faults;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;

use super::Options;
use backend::Backend;
pub(crate) use faults::{Call, Fault, Operation, seeded, seeded_reads};

pub(crate) const KEY_ID: &str = "AKIDTESTTEST";
pub(crate) const SECRET: &str = "secret/of+the=test";

/// Each server has a bucket of its own, so that what is remembered of one does not hold for another on the same port.
static BUCKETS: AtomicU64 = AtomicU64::new(0);

type Rule = Box<dyn FnMut(&Call) -> Fault + Send>;

/// A running server; it ends with this value.
pub(crate) struct S3Server {
    pub(crate) bucket: String,
    address: SocketAddr,
    backend: Backend,
    state: Arc<State>,
    runtime: Option<tokio::runtime::Runtime>,
}

struct State {
    rule: Mutex<Rule>,
    calls: Mutex<Vec<Call>>,
}

impl S3Server {
    /// Starts a server without faults.
    pub(crate) fn start() -> Self {
        Self::with_rule(|_| Fault::Pass)
    }

    /// Starts a server with the faults that `rule` gives for each call.
    pub(crate) fn with_rule(rule: impl FnMut(&Call) -> Fault + Send + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("s3 server").enable_all().build().unwrap();
        let bucket = format!("lake-{}", BUCKETS.fetch_add(1, Ordering::Relaxed));
        let backend = Backend::new(&bucket);
        let mut builder = S3ServiceBuilder::new(backend.clone());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = builder.build();
        let state = Arc::new(State { rule: Mutex::new(Box::new(rule)), calls: Mutex::default() });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener).unwrap()
        };
        runtime.spawn(serve(listener, service, Arc::clone(&state)));
        Self { bucket, address, backend, state, runtime: Some(runtime) }
    }

    /// Changes the rule.
    pub(crate) fn set_rule(&self, rule: impl FnMut(&Call) -> Fault + Send + 'static) {
        *self.state.rule.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(rule);
    }

    /// From here on the condition of a put is ignored.
    pub(crate) fn ignore_conditions(&self) {
        self.backend.ignore_conditions();
    }

    /// Returns the calls since the last time.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how many multipart uploads are begun and neither completed nor aborted.
    pub(crate) fn open_uploads(&self) -> usize {
        self.backend.open_uploads()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
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
    pub(crate) fn open(&self, path: &str) -> super::S3 {
        super::S3::open(&self.url(path), &self.options()).unwrap()
    }

    /// Opens a root, with more options.
    pub(crate) fn open_with(&self, path: &str, more: &[(&str, &str)]) -> super::S3 {
        let mut options = self.options();
        options.storage_options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        super::S3::open(&self.url(path), &options).unwrap()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, service: S3Service, state: Arc<State>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (service, state) = (service.clone(), Arc::clone(&state));
        let handle = service_fn(move |request: hyper::Request<Incoming>| {
            let (service, state) = (service.clone(), Arc::clone(&state));
            async move {
                let call = Call::of(&request);
                let fault = (state.rule.lock().unwrap_or_else(PoisonError::into_inner))(&call);
                state.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
                faults::answer(fault, request, &service).await
            }
        });
        tokio::spawn(async move {
            // A connection that a fault breaks off is the point of it.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), handle).await;
        });
    }
}
