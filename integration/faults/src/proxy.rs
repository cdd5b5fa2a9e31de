//! One request: through to the server behind, with what its fault makes of it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, IF_NONE_MATCH, TRANSFER_ENCODING};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;

use crate::counts::Counts;
use crate::fault::{Faults, Kind, Operation};
use crate::sign;

/// Where the counts are.
const COUNTS: &str = "/_faults/counts";

pub type Answer = Response<http_body_util::combinators::BoxBody<Bytes, io::Error>>;

pub struct Proxy {
    pub client: Client<HttpConnector, Full<Bytes>>,
    /// Scheme and authority of the server behind.
    pub upstream: String,
    pub faults: Faults,
    pub counts: Counts,
    pub secret: Option<String>,
    pub latency: Duration,
    pub stall: Duration,
    pub late: Duration,
    pub slow: Duration,
}

/// A request with its whole body, to be sent any number of times.
type Whole = Request<Bytes>;

impl Proxy {
    /// Answers one request. An error closes the connection.
    pub async fn handle(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Answer> {
        if request.uri().path() == COUNTS {
            let text = self.counts.to_json().to_string();
            let mut answer = Response::new(whole(text.into()));
            answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
            return Ok(answer);
        }
        let operation = Operation::of(request.method(), request.uri());
        let fault = self.faults.draw(operation, request.uri(), request.headers());
        let name = self.counts.begun(operation, request.uri(), fault);
        let begun = Instant::now();
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        // It goes on when the client has hung up, as a request to a real server does.
        let request = Request::from_parts(parts, body);
        tokio::spawn(async move {
            pause(self.latency).await;
            let this = Arc::clone(&self);
            let answer = self.make(fault, request).await;
            this.counts.answered(name, begun.elapsed());
            answer
        })
        .await
        .map_err(io::Error::other)?
    }

    async fn make(self: Arc<Self>, fault: Option<Kind>, request: Whole) -> io::Result<Answer> {
        let closed = || Err(io::Error::other("closed by a fault"));
        let Some(fault) = fault else { return self.send(request).await };
        match fault {
            Kind::Apply500 => self.applied(request, 500).await,
            Kind::Apply503 => self.applied(request, 503).await,
            Kind::Apply429 => self.applied(request, 429).await,
            Kind::Apply409 => self.applied(request, 409).await,
            Kind::Answer409 => Ok(error(409)),
            Kind::Answer503 => Ok(error(503)),
            Kind::Drop => closed(),
            Kind::ApplyDrop => {
                self.send(request).await?;
                closed()
            }
            Kind::ApplyStall => {
                let answer = self.send(request).await?;
                pause(self.stall).await;
                Ok(answer)
            }
            Kind::Twice => {
                self.send(request.clone()).await?;
                self.send(request).await
            }
            Kind::Late => {
                let late = Arc::clone(&self);
                tokio::spawn(async move {
                    pause(late.late).await;
                    late.send(request).await
                });
                Ok(error(503))
            }
            Kind::SlowList => {
                let answer = self.send(request).await?;
                pause(self.slow).await;
                Ok(answer)
            }
            Kind::HalfBody => {
                let (parts, body) = self.send(request).await?.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let half = bytes.slice(..bytes.len() / 2);
                let frames = [Ok(Frame::data(half)), Err(io::Error::other("closed by a fault"))];
                let mut answer = Response::from_parts(parts, StreamBody::new(stream::iter(frames)).boxed());
                answer.headers_mut().insert(hyper::header::CONTENT_LENGTH, bytes.len().into());
                Ok(answer)
            }
            Kind::Overwrite => {
                let secret = self.secret.as_deref().unwrap_or_default();
                let (method, uri) = (request.method().clone(), request.uri().clone());
                let Some(headers) = sign::without(&IF_NONE_MATCH, &method, &uri, request.headers(), secret) else {
                    return Err(io::Error::other("the request is not signed in its headers"));
                };
                let mut request = request;
                *request.headers_mut() = headers;
                self.send(request).await
            }
        }
    }

    async fn applied(&self, request: Whole, status: u16) -> io::Result<Answer> {
        self.send(request).await?;
        Ok(error(status))
    }

    /// Sends the request on, its path and headers as they are (the signature covers Host), and reads the whole answer.
    async fn send(&self, request: Whole) -> io::Result<Answer> {
        let (mut parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        parts.uri = format!("{}{target}", self.upstream).parse::<Uri>().map_err(io::Error::other)?;
        for name in [CONNECTION, TRANSFER_ENCODING, EXPECT] {
            parts.headers.remove(name);
        }
        let is_head = parts.method == Method::HEAD;
        let answer = self.client.request(Request::from_parts(parts, Full::new(body))).await.map_err(io::Error::other)?;
        let (mut parts, body) = answer.into_parts();
        for name in [CONNECTION, TRANSFER_ENCODING] {
            parts.headers.remove(name);
        }
        let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let body = if is_head { http_body_util::Empty::new().map_err(|never| match never {}).boxed() } else { whole(bytes) };
        Ok(Response::from_parts(parts, body))
    }
}

fn whole(bytes: Bytes) -> http_body_util::combinators::BoxBody<Bytes, io::Error> {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

fn error(status: u16) -> Answer {
    let code = match status {
        409 => "ConditionalRequestConflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        _ => "SlowDown",
    };
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>made by a fault</Message></Error>"
    );
    let mut answer = Response::new(whole(text.into()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/xml"));
    answer
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}
