//! The one HTTP client, as the SDK and the chain of AWS credentials take it.

use std::fmt;
use std::time::Duration;

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
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest};

use super::answer::read;
use crate::seam::Seam;
use crate::store::remote::answer::Answer;

/// Reads a failed answer.
pub(super) fn cut(status: u16, text: &str, headers: &http::HeaderMap) -> Answer {
    read(status, text, headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok()))
}

/// The client, as the SDK and the chain of credentials take it.
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
