//! The two clients of a bucket: the object store's for data and reads, the SDK's for the one request that must never be repeated unseen.

use std::sync::Arc;

use aws_config::identity::IdentityCache;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Region, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::put_object::PutObjectError;
use aws_sdk_s3::types::{ChecksumAlgorithm, RequestPayer, ServerSideEncryption};
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::client::{HttpClient, HttpConnector};
use object_store::{Certificate, ClientOptions, ObjectStore};

use super::answer::{Place, read};
use super::credentials::{Chain, Resolved, resolve};
use super::http::{SdkConnector, cut};
use super::options::{Keys, Requests, Settings};
use crate::seam::Seam;
use crate::store::remote::Put;
use crate::store::remote::answer::whole_text;
use crate::store::remote::http::{Connector, credentials_client};
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// Both clients, with what they have in common.
#[derive(Debug)]
pub(super) struct Clients {
    pub data: Arc<dyn ObjectStore>,
    commits: aws_sdk_s3::Client,
    pub chain: Option<Chain>,
    pub place: Place,
    /// Where the credentials come from, as far as the options say it.
    pub keys: Keys,
    /// What both clients send their requests through.
    pub http: HttpClient,
    /// The address of the bucket itself, without a slash at its end.
    pub bucket_url: String,
    requests: Requests,
}

/// Builds the clients. Asks for the region where nothing names it, for nothing else.
///
/// **Errors:** `Config` for what the clients do not take.
pub(super) async fn build(settings: &Settings, redactor: &Redactor, seam: &Seam) -> Result<Clients> {
    let wrong = |error: object_store::Error| {
        Error::config("the clients of the bucket cannot be built from `storage_options`")
            .source(redactor.clean(&whole_text(&error)))
    };
    let connector = Connector::new(redactor.clone(), cut);
    let certificates = certificates(settings.certificates.as_deref())?;
    let trusting = |options: ClientOptions| certificates.iter().cloned().fold(options, ClientOptions::with_root_certificate);
    let options = trusting(settings.client.clone());
    let for_credentials =
        SdkConnector::new(connector.connect(&trusting(credentials_client(&settings.client))).map_err(wrong)?, seam.clone());
    let resolved = resolve(settings, for_credentials, redactor.clone(), seam.clone()).await?;
    let Resolved { region, chain, endpoint } = resolved;
    // The object store's client knows only one partition of AWS.
    let of_partition = || region.starts_with("cn-").then(|| format!("https://s3.{region}.amazonaws.com.cn"));
    let endpoint = settings.endpoint.clone().or(endpoint).or_else(of_partition);
    if endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://")) && !settings.allow_http {
        return Err(Error::config("the endpoint that the AWS profile names is not encrypted")
            .hint("set the storage option `aws_allow_http` to `true` to allow that"));
    }

    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&region)
        .with_virtual_hosted_style_request(settings.is_virtual_hosted)
        .with_client_options(options.clone())
        .with_retry(settings.retry.clone())
        .with_http_connector(Connector::new(redactor.clone(), cut));
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(if settings.is_virtual_hosted {
            with_bucket(endpoint, &settings.bucket)
        } else {
            endpoint.clone()
        });
    }
    builder = match &chain {
        Some(chain) => builder.with_credentials(Arc::new(chain.clone())),
        None => builder.with_skip_signature(true),
    };
    for (name, value) in settings.requests.as_client_config() {
        builder = builder.with_config(name.parse().map_err(wrong)?, value);
    }
    let data: Arc<dyn ObjectStore> = Arc::new(builder.build().map_err(wrong)?);

    let http = connector.connect(&options).map_err(wrong)?;
    let client = SdkConnector::new(http.clone(), seam.clone());
    let mut config = aws_sdk_s3::config::Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region.clone()))
        .http_client(client)
        // An answer that is lost is ours to resolve: a client that repeats the request meets its own object.
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().operation_attempt_timeout(settings.attempt).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .identity_cache(IdentityCache::no_cache())
        .force_path_style(!settings.is_virtual_hosted)
        // The signature covers the body already, and not every store knows the newer checksums.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &endpoint {
        config = config.endpoint_url(without_bucket(endpoint, &settings.bucket));
    }
    config = match &chain {
        Some(chain) => config.credentials_provider(chain.clone()),
        None => config.allow_no_auth(),
    };
    let commits = aws_sdk_s3::Client::from_conf(config.build());
    let bucket_url = bucket_url(endpoint.as_deref(), &region, settings);
    let place = Place { bucket: settings.bucket.clone(), region, endpoint };
    let (keys, requests) = (settings.keys.clone(), settings.requests.clone());
    Ok(Clients { data, commits, chain, place, keys, http, bucket_url, requests })
}

/// Returns the certificates of a file, as AWS tools take it from `AWS_CA_BUNDLE`.
fn certificates(path: Option<&str>) -> Result<Vec<Certificate>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = || Error::config(format!("the certificates of AWS_CA_BUNDLE, `{path}`, cannot be read"));
    let text = std::fs::read(path).map_err(|error| wrong().source(error))?;
    Certificate::from_pem_bundle(&text).map_err(|error| wrong().source(error))
}

/// With the bucket in the host, the object store's client takes an endpoint that holds it, and the SDK one that does not.
fn with_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) if !host.starts_with(&format!("{bucket}.")) => format!("{scheme}://{bucket}.{host}"),
        _ => endpoint.to_owned(),
    }
}

/// Returns the address of the bucket, as the object store's client makes it.
fn bucket_url(endpoint: Option<&str>, region: &str, settings: &Settings) -> String {
    let bucket = &settings.bucket;
    match (endpoint, settings.is_virtual_hosted) {
        (Some(endpoint), true) => with_bucket(endpoint, bucket),
        (Some(endpoint), false) => format!("{endpoint}/{bucket}"),
        (None, true) => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        (None, false) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
    }
}

fn without_bucket(endpoint: &str, bucket: &str) -> String {
    endpoint.replacen(&format!("://{bucket}."), "://", 1)
}

impl Clients {
    /// Puts an object with one request; `is_conditional` asks the store to refuse when there is one already.
    pub(super) async fn put_object(&self, key: &str, bytes: Bytes, is_conditional: bool) -> Put {
        let Requests { is_unsigned_payload, checksum, is_requester_paying, encryption, kms_key_id, has_bucket_key, content_type } =
            &self.requests;
        let put = self.commits.put_object().bucket(&self.place.bucket).key(key).body(bytes.into());
        let put = put
            .set_if_none_match(is_conditional.then(|| "*".to_owned()))
            .set_checksum_algorithm(checksum.as_ref().map(|_| ChecksumAlgorithm::Sha256))
            .set_request_payer(is_requester_paying.then_some(RequestPayer::Requester))
            .set_server_side_encryption(encryption.as_deref().map(ServerSideEncryption::from))
            .set_ssekms_key_id(kms_key_id.clone())
            .set_bucket_key_enabled(*has_bucket_key)
            .set_content_type(content_type.clone());
        let sent = match is_unsigned_payload {
            true => put.customize().disable_payload_signing().send().await,
            false => put.send().await,
        };
        sent.map_or_else(|error| answer_of(&error), |_| Put::Created)
    }
}

fn answer_of(error: &SdkError<PutObjectError>) -> Put {
    let Some(response) = error.raw_response() else { return Put::Silence(whole_text(error)) };
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        // A success whose text could not be read: it says nothing for sure.
        return Put::Silence(whole_text(error));
    }
    let text = response.body().bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let mut answer = read(status, &text, response.headers().get("x-amz-bucket-region"));
    if answer.code.is_empty() {
        answer.code = error.code().unwrap_or_default().to_owned();
    }
    Put::Answered(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_put_before_the_host_and_taken_off() {
        assert_eq!(with_bucket("https://s3.example.com", "lake"), "https://lake.s3.example.com");
        assert_eq!(with_bucket("https://lake.s3.example.com", "lake"), "https://lake.s3.example.com");
        assert_eq!(without_bucket("https://lake.s3.example.com", "lake"), "https://s3.example.com");
        assert_eq!(without_bucket("https://s3.example.com", "lake"), "https://s3.example.com");
    }
}
