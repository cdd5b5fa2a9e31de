//! What happens to a request on its way.

use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request};
use s3s::service::S3Service;
use s3s::{Body, HttpError, HttpResponse};

use crate::seam;
use crate::store::faulty::Draw;

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    Pass,
    /// It is not applied, and the connection is closed.
    DropBefore,
    /// It is applied, and the connection is closed.
    DropAfter,
    /// It is not applied, and answered with this status and code.
    Answer(u16, &'static str),
    /// It is applied, and answered with this status and code.
    AppliedAnswer(u16, &'static str),
    /// It is applied, and its answer comes so much later.
    Stall(Duration),
    /// It is applied after so long.
    Slow(Duration),
    /// It is applied twice: something on the way repeated it.
    Twice,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    ConditionalPut,
    Put,
    Get,
    Head,
    List,
    Delete,
    Multipart,
}

/// A request as a rule sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) path: String,
}

impl Call {
    pub(super) fn of(request: &Request<Incoming>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let operation = match *request.method() {
            Method::HEAD => Operation::Head,
            Method::GET if query.contains("list-type") => Operation::List,
            Method::GET => Operation::Get,
            _ if query.contains("upload") => Operation::Multipart,
            Method::PUT if request.headers().contains_key("if-none-match") => Operation::ConditionalPut,
            Method::PUT => Operation::Put,
            _ => Operation::Delete,
        };
        Self { operation, path: request.uri().path().to_owned() }
    }
}

/// Faults of every kind, drawn from `seed`; about `percent` of the requests have one. Stalls are longer than `patience`.
pub(crate) fn seeded(seed: u64, percent: u64, patience: Duration) -> impl FnMut(&Call) -> Fault + Send + 'static {
    let mut draw = Draw(seed);
    let mut of_reads = seeded_reads(draw.number(), percent);
    move |call| {
        if call.operation != Operation::ConditionalPut {
            return of_reads(call);
        }
        if draw.below(100) >= percent {
            return Fault::Pass;
        }
        match draw.below(14) {
            0 | 1 => Fault::DropAfter,
            2 => Fault::DropBefore,
            3 => Fault::AppliedAnswer(500, "InternalError"),
            4 => Fault::AppliedAnswer(503, "SlowDown"),
            5 => Fault::AppliedAnswer(429, "TooManyRequests"),
            6 => Fault::Answer(503, "ServiceUnavailable"),
            7 => Fault::Answer(409, "ConditionalRequestConflict"),
            8 => Fault::AppliedAnswer(409, "ConditionalRequestConflict"),
            9 => Fault::Stall(patience * 2),
            10 => Fault::Slow(patience * 2),
            11 => Fault::AppliedAnswer(412, "PreconditionFailed"),
            12 => Fault::Answer(412, "PreconditionFailed"),
            _ => Fault::Twice,
        }
    }
}

/// Faults of everything but conditional puts; another try goes better.
pub(crate) fn seeded_reads(seed: u64, percent: u64) -> impl FnMut(&Call) -> Fault + Send + 'static {
    let mut draw = Draw(seed);
    move |call| {
        if call.operation == Operation::ConditionalPut || draw.below(100) >= percent {
            return Fault::Pass;
        }
        match (call.operation, draw.below(4)) {
            (Operation::List, 0 | 1) => Fault::Slow(Duration::from_millis(draw.below(30))),
            // A POST is not repeated by the client when its answer is lost.
            (Operation::Multipart | Operation::Delete, _) => Fault::Answer(503, "SlowDown"),
            (_, 0) => Fault::DropBefore,
            (_, 1) => Fault::Answer(503, "SlowDown"),
            (_, 2) => Fault::Answer(500, "InternalError"),
            _ => Fault::Answer(429, "TooManyRequests"),
        }
    }
}

pub(super) async fn answer(fault: Fault, request: Request<Incoming>, service: &S3Service) -> Result<HttpResponse, HttpError> {
    let request = request.map(Body::from);
    let dropped = || Err(HttpError::new("the connection was closed by a test".into()));
    match fault {
        Fault::Pass => service.call(request).await,
        Fault::DropBefore => dropped(),
        Fault::DropAfter => {
            service.call(request).await?;
            dropped()
        }
        Fault::Answer(status, code) => {
            read(request.into_body()).await;
            Ok(error(status, code))
        }
        Fault::AppliedAnswer(status, code) => {
            service.call(request).await?;
            Ok(error(status, code))
        }
        Fault::Stall(pause) => {
            let answer = service.call(request).await;
            seam::real().sleep(pause).await;
            answer
        }
        Fault::Slow(pause) => {
            let (parts, body) = request.into_parts();
            let bytes = read(body).await;
            // On a task of its own: it goes on when the client has hung up.
            let (service, request) = (service.clone(), hyper::Request::from_parts(parts, Body::from(bytes)));
            let late = tokio::spawn(async move {
                seam::real().sleep(pause).await;
                service.call(request).await
            });
            late.await.unwrap()
        }
        Fault::Twice => {
            let (parts, body) = request.into_parts();
            let bytes = read(body).await;
            service.call(hyper::Request::from_parts(parts.clone(), Body::from(bytes.clone()))).await?;
            service.call(hyper::Request::from_parts(parts, Body::from(bytes))).await
        }
    }
}

async fn read(mut body: Body) -> bytes::Bytes {
    let mut all = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.into_data() {
            all.extend_from_slice(&data);
        }
    }
    all.into()
}

fn error(status: u16, code: &str) -> HttpResponse {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>a test says so</Message><Token-0>{}</Token-0></Error>",
        super::SECRET
    );
    hyper::Response::builder()
        .status(status)
        .header("content-type", "application/xml")
        .body(Body::from(bytes::Bytes::from(text)))
        .unwrap()
}
