//! `storage_options` as deltalake and dlt users write them → what the clients are built from. Each option works or is refused by name.

use std::collections::BTreeMap;
use std::time::Duration;

use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, RetryConfig};
use url::Url;

use super::names::{canonical, refusal};
use super::redactor::Redactor;
use crate::{Error, Result};

/// How long one request may take, connection and answer included, where `timeout` is not set.
const ATTEMPT: Duration = Duration::from_secs(30);

/// Everything about a bucket that the user said.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub bucket: String,
    /// Keys begin with it: no slashes at its ends.
    pub prefix: String,
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub is_virtual_hosted: bool,
    pub keys: Keys,
    pub role: Option<Role>,
    pub sts_endpoint: Option<String>,
    pub client: ClientOptions,
    /// A file with further certificates to trust.
    pub certificates: Option<String>,
    pub allow_http: bool,
    pub retry: RetryConfig,
    pub attempt: Duration,
    /// What both clients do to each request.
    pub requests: Requests,
}

/// Where credentials come from before a role is assumed.
#[derive(Clone)]
pub(super) enum Keys {
    /// The chain of AWS, under a profile if one is named.
    Chain { profile: Option<String> },
    /// Given.
    Given { id: String, secret: String, token: Option<String> },
    /// None: requests are not signed.
    Unsigned,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Chain { .. } => "Chain",
            Self::Given { .. } => "Given",
            Self::Unsigned => "Unsigned",
        })
    }
}

/// A role to assume.
#[derive(Debug, Clone)]
pub(super) struct Role {
    pub arn: String,
    pub session: String,
    /// A file with a web identity token; without one the credentials assume the role.
    pub token_file: Option<String>,
}

/// What is the same for every request.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    pub is_unsigned_payload: bool,
    pub checksum: Option<String>,
    pub is_requester_paying: bool,
    pub encryption: Option<String>,
    pub kms_key_id: Option<String>,
    pub has_bucket_key: Option<bool>,
    pub content_type: Option<String>,
}

impl Requests {
    /// Returns the same under the names of the object store's client.
    pub(super) fn as_client_config(&self) -> Vec<(&'static str, String)> {
        let yes = |is_set: bool| is_set.then(|| "true".to_owned());
        let all = [
            ("aws_unsigned_payload", yes(self.is_unsigned_payload)),
            ("aws_checksum_algorithm", self.checksum.clone()),
            ("aws_request_payer", yes(self.is_requester_paying)),
            ("aws_server_side_encryption", self.encryption.clone()),
            ("aws_sse_kms_key_id", self.kms_key_id.clone()),
            ("aws_sse_bucket_key_enabled", self.has_bucket_key.map(|is_enabled| is_enabled.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Options by their canonical names, taken out one by one.
struct Given {
    values: BTreeMap<&'static str, (String, String)>,
    problems: Vec<String>,
}

impl Given {
    fn new(options: &BTreeMap<String, String>) -> Self {
        let mut given = Self { values: BTreeMap::new(), problems: Vec::new() };
        for (name, value) in options {
            // Options of other clouds are noticed where the config is read.
            let Some(known) = canonical(name) else { continue };
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            if let Some(problem) = refusal(known, value) {
                given.problems.push(format!("storage option `{name}`: {problem}"));
                continue;
            }
            match given.values.insert(known, (name.clone(), value.to_owned())) {
                Some((other, old)) if old != value => {
                    given
                        .problems
                        .push(format!("storage options `{other}` and `{name}` are the same option with different values"));
                }
                _ => {}
            }
        }
        given
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.values.remove(name).map(|(_, value)| value)
    }

    fn parsed<T>(&mut self, name: &str, kind: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (given, value) = self.values.remove(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            // No value of these kinds is a secret.
            self.problems.push(format!("storage option `{given}` is `{value}`, which is not {kind}"));
        }
        parsed
    }

    fn yes(&mut self, name: &str) -> Option<bool> {
        self.parsed(name, "`true` or `false`", parse_bool)
    }

    fn duration(&mut self, name: &str) -> Option<Duration> {
        self.parsed(name, "a time such as `30` (seconds) or `500ms`", parse_duration)
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        self.parsed(name, "a whole number", |text| text.parse().ok())
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "y" => Some(true),
        "false" | "0" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// A bare number is seconds.
fn parse_duration(text: &str) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => humantime::parse_duration(text).ok(),
    }
}

/// Returns the settings of the bucket that `url` names; `variable` looks up the environment.
///
/// **Errors:** `Config`, with everything that is wrong.
pub(super) fn parse(
    url: &Url,
    options: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
    redactor: &Redactor,
) -> Result<Settings> {
    let bucket = url.host_str().unwrap_or_default().to_owned();
    let prefix = percent_encoding::percent_decode_str(url.path())
        .decode_utf8()
        .map_err(|error| Error::config(format!("the path of `{url}` is not UTF-8")).source(error))?
        .trim_matches('/')
        .to_owned();
    if prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//") {
        return Err(Error::config(format!("the path of `{url}` has empty or dotted parts, which a table's files cannot have")));
    }
    let mut given = Given::new(options);
    if let Some(named) = given.text("bucket")
        && named != bucket
    {
        given.problems.push(format!("storage option `bucket` is `{named}`, the destination's bucket is `{bucket}`"));
    }
    let endpoint =
        given.text("aws_endpoint_url").or_else(|| variable("AWS_ENDPOINT_URL_S3")).or_else(|| variable("AWS_ENDPOINT_URL"));
    let endpoint =
        endpoint.map(|endpoint| endpoint.trim().trim_end_matches('/').to_owned()).filter(|endpoint| !endpoint.is_empty());
    let allow_http = given.yes("allow_http").or_else(|| parse_bool(&variable("AWS_ALLOW_HTTP")?)).unwrap_or(false);
    if let Some(endpoint) = &endpoint {
        given.problems.extend(wrong_endpoint(endpoint, allow_http));
    }
    let style = given.parsed("addressing_style", "`path`, `virtual` or `auto`", |style| match style {
        "path" | "auto" => Some(false),
        "virtual" | "vhost" => Some(true),
        _ => None,
    });
    let is_virtual_hosted = given.yes("aws_virtual_hosted_style_request").or(style).unwrap_or(false);
    let keys = keys(&mut given, redactor);
    let role = role(&mut given);
    let sts_endpoint = given.text("aws_endpoint_url_sts");
    match &role {
        None if sts_endpoint.is_some() => given.problems.push("storage option `aws_endpoint_url_sts` needs `aws_role_arn`".to_owned()),
        Some(Role { token_file: Some(_), .. }) if sts_endpoint.is_some() => given.problems.push(
            "storage option `aws_endpoint_url_sts` does not go with `aws_web_identity_token_file`; set the variable AWS_ENDPOINT_URL_STS"
                .to_owned(),
        ),
        _ => {}
    }
    let requests = requests(&mut given);
    let retry = retry(&mut given);
    let (client, attempt) = client(&mut given, allow_http);
    if !given.problems.is_empty() {
        return Err(Error::config(given.problems.join("; ")));
    }
    let region = given.text("aws_region");
    Ok(Settings {
        bucket,
        prefix,
        region,
        endpoint,
        is_virtual_hosted,
        keys,
        role,
        sts_endpoint,
        client,
        certificates: variable("AWS_CA_BUNDLE").filter(|path| !path.is_empty()),
        allow_http,
        retry,
        attempt,
        requests,
    })
}

fn wrong_endpoint(endpoint: &str, allow_http: bool) -> Option<String> {
    let Ok(url) = Url::parse(endpoint) else {
        return Some(format!("the endpoint `{endpoint}` is not a URL such as `https://s3.example.com`"));
    };
    match url.scheme() {
        _ if url.password().is_some() || !url.username().is_empty() => {
            // Not shown: it has a password in it.
            Some("the endpoint has a user name or password in it; set `aws_access_key_id` and `aws_secret_access_key`".to_owned())
        }
        "https" | "http" if url.host_str() == Some("storage.googleapis.com") => Some(
            "Google Cloud Storage does not honour put-if-absent through its S3 interface; `gs://` destinations are not supported yet".to_owned(),
        ),
        "https" => None,
        "http" if allow_http => None,
        "http" => Some(format!("the endpoint `{endpoint}` is not encrypted; set the storage option `aws_allow_http` to `true` to allow that")),
        scheme => Some(format!("the endpoint `{endpoint}` has the scheme `{scheme}`; `https` and `http` work")),
    }
}

fn keys(given: &mut Given, redactor: &Redactor) -> Keys {
    let (id, secret) = (given.text("aws_access_key_id"), given.text("aws_secret_access_key"));
    let (token, profile) = (given.text("aws_session_token"), given.text("aws_profile"));
    for secret in [&secret, &token].into_iter().flatten() {
        redactor.add(secret);
    }
    if given.yes("aws_skip_signature") == Some(true) {
        return Keys::Unsigned;
    }
    match (id, secret) {
        (Some(_), Some(_)) if profile.is_some() => {
            given.problems.push("storage options `aws_profile` and `aws_access_key_id` exclude each other".to_owned());
            Keys::Unsigned
        }
        (Some(id), Some(secret)) => Keys::Given { id, secret, token },
        (None, None) => {
            if token.is_some() {
                given
                    .problems
                    .push("storage option `aws_session_token` needs `aws_access_key_id` and `aws_secret_access_key`".to_owned());
            }
            Keys::Chain { profile }
        }
        (id, _) => {
            let (there, lacking) = match id {
                Some(_) => ("aws_access_key_id", "aws_secret_access_key"),
                None => ("aws_secret_access_key", "aws_access_key_id"),
            };
            given.problems.push(format!("storage option `{there}` is set, `{lacking}` is not"));
            Keys::Unsigned
        }
    }
}

fn role(given: &mut Given) -> Option<Role> {
    let (arn, session) = (given.text("aws_role_arn"), given.text("aws_role_session_name"));
    let token_file = given.text("aws_web_identity_token_file");
    if arn.is_none() {
        for (name, value) in [("aws_role_session_name", &session), ("aws_web_identity_token_file", &token_file)] {
            if value.is_some() {
                given.problems.push(format!("storage option `{name}` needs `aws_role_arn`"));
            }
        }
    }
    Some(Role { arn: arn?, session: session.unwrap_or_else(|| "delta-load".to_owned()), token_file })
}

fn requests(given: &mut Given) -> Requests {
    let encryption = given.parsed("aws_server_side_encryption", "`AES256`, `aws:kms` or `aws:kms:dsse`", |text| {
        ["AES256", "aws:kms", "aws:kms:dsse"].into_iter().find(|known| known.eq_ignore_ascii_case(text)).map(str::to_owned)
    });
    let kms_key_id = given.text("aws_sse_kms_key_id");
    if kms_key_id.is_some() && !encryption.as_deref().is_some_and(|kind| kind.starts_with("aws:kms")) {
        given.problems.push(
            "storage option `aws_sse_kms_key_id` needs `aws_server_side_encryption` to be `aws:kms` or `aws:kms:dsse`".to_owned(),
        );
    }
    let has_bucket_key = given.yes("aws_sse_bucket_key_enabled");
    if has_bucket_key.is_some() && encryption.as_deref() != Some("aws:kms") {
        given
            .problems
            .push("storage option `aws_sse_bucket_key_enabled` needs `aws_server_side_encryption` to be `aws:kms`".to_owned());
    }
    Requests {
        is_unsigned_payload: given.yes("aws_unsigned_payload").unwrap_or(false),
        checksum: given.parsed("aws_checksum_algorithm", "`sha256`", |text| {
            text.eq_ignore_ascii_case("sha256").then(|| "sha256".to_owned())
        }),
        is_requester_paying: given.yes("aws_request_payer").unwrap_or(false),
        encryption,
        kms_key_id,
        has_bucket_key,
        content_type: given.values.get("default_content_type").map(|(_, value)| value.clone()),
    }
}

fn retry(given: &mut Given) -> RetryConfig {
    let default = RetryConfig::default();
    let base =
        given.parsed("backoff_config.base", "a number above 1", |text| text.parse::<f64>().ok().filter(|base| *base > 1.0));
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: given.duration("backoff_config.init_backoff").unwrap_or(default.backoff.init_backoff),
            max_backoff: given.duration("backoff_config.max_backoff").unwrap_or(default.backoff.max_backoff),
            base: base.unwrap_or(default.backoff.base),
        },
        max_retries: given.number("max_retries").unwrap_or(default.max_retries),
        retry_timeout: given.duration("retry_timeout").unwrap_or(default.retry_timeout),
    }
}

/// Returns the options of the HTTP client, and how long one request may take.
fn client(given: &mut Given, allow_http: bool) -> (ClientOptions, Duration) {
    use ClientConfigKey as Key;
    let attempt = given.duration("timeout").unwrap_or(ATTEMPT);
    let mut client = ClientOptions::new().with_allow_http(allow_http).with_timeout(attempt);
    for (name, key) in [
        ("connect_timeout", Key::ConnectTimeout),
        ("pool_idle_timeout", Key::PoolIdleTimeout),
        ("http2_keep_alive_interval", Key::Http2KeepAliveInterval),
        ("http2_keep_alive_timeout", Key::Http2KeepAliveTimeout),
    ] {
        if let Some(duration) = given.duration(name) {
            client = client.with_config(key, humantime::format_duration(duration).to_string());
        }
    }
    for (name, key) in [
        ("allow_invalid_certificates", Key::AllowInvalidCertificates),
        ("http1_only", Key::Http1Only),
        ("http2_only", Key::Http2Only),
        ("http2_keep_alive_while_idle", Key::Http2KeepAliveWhileIdle),
        ("randomize_addresses", Key::RandomizeAddresses),
    ] {
        if let Some(yes) = given.yes(name) {
            client = client.with_config(key, yes.to_string());
        }
    }
    for (name, key) in [("pool_max_idle_per_host", Key::PoolMaxIdlePerHost), ("http2_max_frame_size", Key::Http2MaxFrameSize)] {
        if let Some(number) = given.number(name) {
            client = client.with_config(key, number.to_string());
        }
    }
    for (name, key) in [
        ("proxy_url", Key::ProxyUrl),
        ("proxy_ca_certificate", Key::ProxyCaCertificate),
        ("proxy_excludes", Key::ProxyExcludes),
        ("user_agent", Key::UserAgent),
        ("default_content_type", Key::DefaultContentType),
    ] {
        if let Some(text) = given.text(name) {
            client = client.with_config(key, text);
        }
    }
    (client, attempt)
}

#[cfg(test)]
mod tests;
