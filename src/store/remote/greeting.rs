//! The first request to a service: whether it is one of the kind that is asked for, whatever it allows, and what its clock says.

use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use futures::TryStreamExt;
use http::HeaderMap;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};

use super::answer::whole_text;
use super::redactor::Redactor;
use crate::seam::Seam;
use crate::store::{Greeting, ServerClock};
use crate::{Error, Result};

/// How much of an answer is looked at: the first words of a listing or of an error are within it.
const LOOKED_AT_BYTES: usize = 16 << 10;

/// How often the first request is sent, and how long after one another: a connection may break.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// How a cloud's service is greeted: with a listing that is not signed, which it answers by a listing or by an error of its own,
/// whoever asks.
pub(in crate::store) struct Greeter<'a> {
    pub http: &'a HttpClient,
    /// What is asked for.
    pub url: String,
    /// The address, for people.
    pub shown: &'a str,
    /// The service, for people: `an S3 service`.
    pub service: &'static str,
    /// Whether an answer (its headers, its status, the begin of its text) is one of that service.
    pub is_service: fn(&HeaderMap, u16, &str) -> bool,
    /// What to do when nothing answers.
    pub silence_hint: &'static str,
    /// What to do when something else answers.
    pub stranger_hint: &'static str,
}

impl Greeter<'_> {
    /// Asks, a few times when no answer comes.
    ///
    /// **Errors:** `Unavailable` when nothing answers; `Denied` when what answers is something else.
    pub(in crate::store) async fn greet(&self, redactor: &Redactor, seam: &Seam) -> Result<Greeting> {
        let shown = self.shown;
        let wrong = |error| Error::internal("the address of the bucket is not one").source(error);
        let uri = self.url.parse::<http::Uri>().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
        let mut tries = 0;
        let (mut sent_us, mut answer);
        loop {
            tries += 1;
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = uri.clone();
            sent_us = seam.now_us();
            answer = self.http.execute(request).await;
            if answer.is_ok() || tries == TRIES {
                break;
            }
            seam.sleep(PAUSE).await;
        }
        let answer = answer.map_err(|error| {
            Error::unavailable(format!("no answer came from `{shown}`"))
                .hint(self.silence_hint)
                .source(redactor.clean(&whole_text(&error)))
                .for_every_request()
        })?;
        let received_us = seam.now_us();
        let clock = header(&answer, "date").and_then(|date| clock(date, sent_us, received_us));
        let status = answer.status();
        let server = header(&answer, "server").map(|server| format!(" of `{server}`")).unwrap_or_default();
        let kind = header(&answer, "content-type").map(|kind| format!(", {kind}")).unwrap_or_default();
        let headers = answer.headers().clone();
        let text = start_of(answer).await;
        if (self.is_service)(&headers, status.as_u16(), &text) {
            return Ok(Greeting { text: format!("{} answers at `{shown}`{server}", self.service), clock });
        }
        if status.is_server_error() {
            // A service that is overloaded may say nothing of itself.
            return Ok(Greeting {
                text: format!("a server answers at `{shown}`{server}, with status {}", status.as_u16()),
                clock,
            });
        }
        let status = match is_redirect(&text) {
            true => "a redirect".to_owned(),
            false => format!("status {}", status.as_u16()),
        };
        Err(Error::denied(format!("what answers at `{shown}` is not {} ({status}{kind}{server})", self.service))
            .hint(self.stranger_hint)
            .for_every_request())
    }
}

/// A redirect without a word gets the code of a moved bucket where the text is cut down.
fn is_redirect(text: &str) -> bool {
    text.contains("<Code>PermanentRedirect<")
}

/// Whether an answer has a header whose name begins so.
pub(in crate::store) fn has_header(headers: &HeaderMap, begin: &str) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(begin))
}

/// Whether an answer is an error or a listing of S3's XML, which Google Cloud Storage speaks too.
pub(in crate::store) fn is_xml_of_s3(status: u16, text: &str) -> bool {
    let has_code = text.contains("<Code>") && !is_redirect(text);
    has_code || ((200..300).contains(&status) && text.contains("ListBucketResult"))
}

fn header<'a>(answer: &'a HttpResponse, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

/// Returns the first part of an answer's text; what breaks off is as good as its beginning.
async fn start_of(answer: HttpResponse) -> String {
    let mut stream = answer.into_body().bytes_stream();
    let mut start: Vec<u8> = Vec::new();
    while let Ok(Some(bytes)) = stream.try_next().await {
        let bytes: Bytes = bytes;
        start.extend_from_slice(&bytes);
        if start.len() >= LOOKED_AT_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&start).into_owned()
}

/// Compares the `Date` of an answer, which holds whole seconds, with the middle of the time between request and answer.
fn clock(date: &str, sent_us: i64, received_us: i64) -> Option<ServerClock> {
    let theirs_ms = DateTime::parse_from_rfc2822(date).ok()?.timestamp_millis() + 500;
    let ours_ms = (sent_us + received_us) / 2_000;
    Some(ServerClock { ahead_ms: theirs_ms - ours_ms, within_ms: 500 + (received_us - sent_us).max(0) / 2_000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_request() {
        let date = "Thu, 01 Jan 2026 00:00:10 GMT";
        let at = |seconds: i64| (1_767_225_600 + seconds) * 1_000_000;
        assert_eq!(clock(date, at(9), at(11)), Some(ServerClock { ahead_ms: 500, within_ms: 1_500 }));
        assert_eq!(clock(date, at(310), at(310)), Some(ServerClock { ahead_ms: -299_500, within_ms: 500 }));
        assert_eq!(clock("soon", at(0), at(1)), None);
    }
}
