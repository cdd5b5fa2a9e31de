//! What happens to a request on its way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use super::Service;
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
    /// It is applied, and the answer says that it is so many seconds later than it is.
    Ahead(i64),
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
    /// Credentials.
    Token,
}

/// A request as a rule sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: http::HeaderMap,
}

impl Call {
    pub(super) fn of(operation: Operation, request: &Request<Bytes>) -> Self {
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        Self { operation, path, query, headers: request.headers().clone() }
    }

    /// Returns the value of a header, empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
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

/// Answers a request as its fault says; `None` closes the connection.
pub(super) async fn answer(fault: Fault, request: Request<Bytes>, service: &Arc<dyn Service>) -> Option<Response<Bytes>> {
    match fault {
        Fault::Pass => Some(service.answer(request).await),
        Fault::DropBefore => None,
        Fault::DropAfter => {
            service.answer(request).await;
            None
        }
        Fault::Answer(status, code) => Some(service.failure(status, code)),
        Fault::AppliedAnswer(status, code) => {
            service.answer(request).await;
            Some(service.failure(status, code))
        }
        Fault::Stall(pause) => {
            let answer = service.answer(request).await;
            seam::real().sleep(pause).await;
            Some(answer)
        }
        Fault::Slow(pause) => {
            // On a task of its own: it goes on when the client has hung up.
            let service = Arc::clone(service);
            let late = tokio::spawn(async move {
                seam::real().sleep(pause).await;
                service.answer(request).await
            });
            Some(late.await.unwrap())
        }
        Fault::Ahead(seconds) => {
            let mut answer = service.answer(request).await;
            let then = chrono::DateTime::from_timestamp_micros(seam::real().now_us() + seconds * 1_000_000).unwrap();
            let date = then.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
            answer.headers_mut().insert("date", date.parse().unwrap());
            Some(answer)
        }
        Fault::Twice => {
            service.answer(request.clone()).await;
            Some(service.answer(request).await)
        }
    }
}
