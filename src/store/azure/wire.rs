//! The one HTTP client, as the SDK of Azure takes it.

use std::fmt;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, Body, HttpClient as SdkHttpClient, Request, Url};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest};

/// Sends the SDK's requests by the object store's client.
pub(super) struct Wire {
    client: HttpClient,
    /// Requests to addresses that begin with the first go to the second.
    redirect: Option<(String, String)>,
}

impl Wire {
    pub(super) fn new(client: HttpClient) -> Self {
        Self { client, redirect: None }
    }

    /// Sends what would go to addresses that begin with `from` to `to` in its place.
    pub(super) fn redirecting(client: HttpClient, from: &str, to: &str) -> Self {
        Self { client, redirect: Some((from.to_owned(), to.to_owned())) }
    }

    fn address(&self, url: &Url) -> String {
        match &self.redirect {
            Some((from, to)) => url.as_str().strip_prefix(from).map_or_else(|| url.to_string(), |rest| format!("{to}{rest}")),
            None => url.to_string(),
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

#[async_trait]
impl SdkHttpClient for Wire {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let mut sent = http::Request::builder().method(request.method().as_str()).uri(self.address(request.url()));
        for (name, value) in request.headers().iter() {
            sent = sent.header(name.as_str(), value.as_str());
        }
        let body = match request.body() {
            Body::Bytes(bytes) => bytes.clone(),
            Body::SeekableStream(_) => {
                return Err(azure_core::Error::with_message(ErrorKind::Other, "a request with a stream for a body"));
            }
        };
        let sent: HttpRequest =
            sent.body(body.into()).map_err(|error| azure_core::Error::new(ErrorKind::DataConversion, error))?;
        let (parts, body) = self.client.execute(sent).await.map_err(sdk_error)?.into_parts();
        let bytes = body.bytes_stream().try_collect::<Vec<Bytes>>().await.map_err(sdk_error)?.concat();
        let mut headers = Headers::new();
        for (name, value) in &parts.headers {
            if let Ok(value) = value.to_str() {
                headers.insert(name.as_str().to_owned(), value.to_owned());
            }
        }
        Ok(AsyncRawResponse::from_bytes(parts.status.as_u16().into(), headers, bytes))
    }
}

fn sdk_error(error: HttpError) -> azure_core::Error {
    let kind = if error.kind() == HttpErrorKind::Connect { ErrorKind::Connection } else { ErrorKind::Io };
    azure_core::Error::new(kind, error)
}
