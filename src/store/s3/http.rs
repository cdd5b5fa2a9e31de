//! One HTTP client for all requests: the object store's own, which the SDK and the chain of credentials use as well.
//!
//! So proxies, certificates, time limits and connections are set once and hold for commits, data and credentials alike, and the text of
//! a failed answer is cut down in one place, before any library puts it into an error: AWS answers an expired token with the token.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient as SdkHttpClient, HttpConnector as SdkHttpConnector, HttpConnectorFuture, HttpConnectorSettings,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest as SdkRequest, HttpResponse as SdkResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    SpawnedReqwestConnector,
};

use super::answer::Answer;
use super::redactor::Redactor;
use super::runtime;
use crate::seam::Seam;

/// Makes clients that run on our runtime and cut down the text of failed answers.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Redactor);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let wrong = |error: crate::Error| object_store::Error::Generic { store: "S3", source: Box::new(error) };
        let client = SpawnedReqwestConnector::new(runtime::handle().map_err(wrong)?).connect(options)?;
        Ok(HttpClient::new(Cleaning { client, redactor: self.0.clone() }))
    }
}

#[derive(Debug)]
struct Cleaning {
    client: HttpClient,
    redactor: Redactor,
}

#[async_trait]
impl HttpService for Cleaning {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.client.execute(request).await?;
        if !response.status().is_client_error() && !response.status().is_server_error() && !is_redirect(response.status()) {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        // An answer that breaks off has a status all the same.
        let body = body.bytes_stream().try_collect::<Vec<Bytes>>().await.unwrap_or_default().concat();
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let answer = Answer::read(parts.status.as_u16(), &String::from_utf8_lossy(&body), header("x-amz-bucket-region"));
        let text = self.redactor.clean(&answer.to_xml());
        parts.headers.remove(http::header::CONTENT_LENGTH);
        if matches!(parts.status.as_u16(), 301 | 308) {
            // The object store's client drops the text of a redirect that leads nowhere, and with it the region.
            parts.status = http::StatusCode::BAD_REQUEST;
        }
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(text)))
    }
}

/// Answers of this kind say which region a bucket is in; a 304 says that nothing changed.
fn is_redirect(status: http::StatusCode) -> bool {
    status.is_redirection() && status != http::StatusCode::NOT_MODIFIED
}

/// The same client, as the SDK and the chain of credentials take it.
#[derive(Clone)]
pub(super) struct SdkConnector {
    client: HttpClient,
    limit: Option<Duration>,
    seam: Seam,
}

impl SdkConnector {
    pub(super) fn new(client: HttpClient, seam: Seam) -> Self {
        Self { client, limit: None, seam }
    }

    async fn send(self, request: SdkRequest) -> Result<SdkResponse, ConnectorError> {
        let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
        let (parts, body) = request.into_parts();
        let bytes = match body.bytes() {
            Some(bytes) => Bytes::copy_from_slice(bytes),
            None => ByteStream::new(body).collect().await.map_err(|error| ConnectorError::user(error.into()))?.into_bytes(),
        };
        let sent = self.client.execute(HttpRequest::from_parts(parts, bytes.into()));
        let answered = async {
            let (parts, body) = sent.await.map_err(connector_error)?.into_parts();
            let bytes = body.bytes_stream().try_collect::<Vec<Bytes>>().await.map_err(connector_error)?.concat();
            let response = http::Response::from_parts(parts, SdkBody::from(bytes));
            SdkResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
        };
        let Some(limit) = self.limit else { return answered.await };
        tokio::select! {
            answer = answered => answer,
            () = self.seam.sleep(limit) => Err(ConnectorError::timeout("no answer came in time".into())),
        }
    }
}

impl fmt::Debug for SdkConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SdkConnector")
    }
}

fn connector_error(error: HttpError) -> ConnectorError {
    match error.kind() {
        HttpErrorKind::Timeout => ConnectorError::timeout(error.into()),
        _ => ConnectorError::io(error.into()),
    }
}

impl SdkHttpConnector for SdkConnector {
    fn call(&self, request: SdkRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().send(request))
    }
}

impl SdkHttpClient for SdkConnector {
    fn http_connector(&self, settings: &HttpConnectorSettings, _components: &RuntimeComponents) -> SharedHttpConnector {
        // The chain of credentials asks addresses that answer at once or not at all (the metadata service), and says so.
        let limit = settings.read_timeout().map(|read| read + settings.connect_timeout().unwrap_or_default());
        SharedHttpConnector::new(Self { limit, ..self.clone() })
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        None
    }
}
