//! One HTTP client for all requests: the object store's own, which an SDK and a chain of credentials can use as well.
//!
//! So proxies, certificates, time limits and connections are set once and hold for commits, data and credentials alike, and the text of
//! a failed answer is cut down in one place, before any library puts it into an error: AWS answers an expired token with the token.

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService, SpawnedReqwestConnector,
};

use super::answer::Answer;
use super::redactor::Redactor;
use super::runtime;

/// Reads status, text and headers of a failed answer.
pub(in crate::store) type Cut = fn(u16, &str, &http::HeaderMap) -> Answer;

/// Names one crypto provider for all TLS of the process: the libraries bring two and agree on none. One that is set already stays.
pub(in crate::store) fn install_crypto() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

/// Makes clients that run on our runtime and cut down the text of failed answers.
#[derive(Debug, Clone)]
pub(in crate::store) struct Connector {
    redactor: Redactor,
    /// Without it answers are handed on as they are.
    cut: Option<Cut>,
}

impl Connector {
    pub(in crate::store) fn new(redactor: Redactor, cut: Cut) -> Self {
        Self { redactor, cut: Some(cut) }
    }

    /// Returns a connector whose clients hand on failed answers as they are: for sources of credentials, whose text is redacted where it
    /// is shown.
    pub(in crate::store) fn whole(self) -> Self {
        Self { cut: None, ..self }
    }
}

/// Addresses that credentials come from, which no proxy of the bucket reaches.
const WITHOUT_PROXY: &str = "169.254.169.254,169.254.170.2,169.254.170.23,localhost,127.0.0.1";

/// Returns the options of the client that asks for credentials: plain http, which local sources speak, and no proxy for those.
pub(in crate::store) fn credentials_client(client: &ClientOptions) -> ClientOptions {
    use object_store::ClientConfigKey as Key;
    let mut options = ClientOptions::new().with_allow_http(true);
    for key in [Key::ProxyUrl, Key::ProxyCaCertificate, Key::UserAgent] {
        if let Some(value) = client.get_config_value(&key) {
            options = options.with_config(key, value);
        }
    }
    let excludes = client.get_config_value(&Key::ProxyExcludes).map(|given| format!("{given},")).unwrap_or_default();
    options.with_proxy_excludes(format!("{excludes}{WITHOUT_PROXY}"))
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let wrong = |error: crate::Error| object_store::Error::Generic { store: "client", source: Box::new(error) };
        let client = SpawnedReqwestConnector::new(runtime::handle().map_err(wrong)?).connect(options)?;
        let Some(cut) = self.cut else { return Ok(client) };
        Ok(HttpClient::new(Cleaning { client, redactor: self.redactor.clone(), cut }))
    }
}

#[derive(Debug)]
struct Cleaning {
    client: HttpClient,
    redactor: Redactor,
    cut: Cut,
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
        let body = String::from_utf8_lossy(&body);
        let answer = (self.cut)(parts.status.as_u16(), &body, &parts.headers);
        let mut text = self.redactor.clean(&answer.to_xml());
        if body.contains("<ErrorResponse") && !text.is_empty() {
            // The token service of AWS wraps its errors once more, and its client finds the code only there.
            text = format!("<ErrorResponse>{text}</ErrorResponse>");
        }
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
