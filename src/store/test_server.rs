//! Test support: an HTTP server within the test binary, behind a layer that loses answers, by a rule or by a seed.

// The path is said, so that the tests of the command can include this file as well.
#[path = "test_server/faults.rs"]
mod faults;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(crate) use faults::{Call, Fault, Operation, seeded, seeded_reads};

type Rule = Box<dyn FnMut(&Call) -> Fault + Send>;

/// What answers requests that no fault keeps away.
#[async_trait]
pub(crate) trait Service: Send + Sync + 'static {
    /// Returns what a request asks for.
    fn operation(&self, request: &Request<Bytes>) -> Operation;
    /// Does what a request asks for.
    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes>;
    /// Returns the answer of a failure.
    fn failure(&self, status: u16, code: &str) -> Response<Bytes>;
}

/// A running server; it ends with this value.
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<tokio::runtime::Runtime>,
}

struct State {
    rule: Mutex<Rule>,
    calls: Mutex<Vec<Call>>,
}

impl Server {
    /// Starts a server on a free port, with the faults that `rule` gives for each call.
    pub(crate) fn start(service: impl Service, rule: impl FnMut(&Call) -> Fault + Send + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("server").enable_all().build().unwrap();
        let state = Arc::new(State { rule: Mutex::new(Box::new(rule)), calls: Mutex::default() });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener).unwrap()
        };
        runtime.spawn(serve(listener, Arc::new(service), Arc::clone(&state)));
        Self { address, state, runtime: Some(runtime) }
    }

    /// Changes the rule.
    pub(crate) fn set_rule(&self, rule: impl FnMut(&Call) -> Fault + Send + 'static) {
        *self.state.rule.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(rule);
    }

    /// Returns the calls since the last time.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, service: Arc<dyn Service>, state: Arc<State>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (service, state) = (Arc::clone(&service), Arc::clone(&state));
        let handle = service_fn(move |request: Request<Incoming>| {
            let (service, state) = (Arc::clone(&service), Arc::clone(&state));
            async move {
                let broken = || std::io::Error::other("the connection is closed by a test");
                let (parts, body) = request.into_parts();
                let request = Request::from_parts(parts, read(body).await.ok_or_else(broken)?);
                let call = Call::of(service.operation(&request), &request);
                let fault = (state.rule.lock().unwrap_or_else(PoisonError::into_inner))(&call);
                state.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
                let answer = faults::answer(fault, request, &service).await.ok_or_else(broken)?;
                Ok::<_, std::io::Error>(answer.map(|bytes| Whole(Some(bytes))))
            }
        });
        tokio::spawn(async move {
            // A connection that a fault breaks off is the point of it.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), handle).await;
        });
    }
}

/// Returns all of a body, `None` when it breaks off.
pub(crate) async fn read<B>(mut body: B) -> Option<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut all = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.ok()?.into_data() {
            all.extend_from_slice(&data);
        }
    }
    Some(all.into())
}

/// A body of one piece.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
