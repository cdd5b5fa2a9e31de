//! `storage_options` as deltalake and dlt users write them → what the clients are built from. Each option works or is refused by name.

use std::collections::BTreeMap;
use std::time::Duration;

use object_store::{ClientOptions, RetryConfig};
use url::Url;

use super::names::{canonical, refusal};
use crate::store::remote::options::{Given, client, parse_bool, prefix_of, retry};
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

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
    let prefix = prefix_of(url, url.path())?;
    let mut given = Given::new(options, canonical, refusal);
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
    if let Some(proxy) = given.peek("proxy_url") {
        hide_user(&proxy, redactor);
    }
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

/// A proxy's URL may hold a password, which a library that cannot make sense of the URL would show.
fn hide_user(url: &str, redactor: &Redactor) {
    let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    if let Some((user, _)) = behind_scheme.rsplit_once('@') {
        redactor.add(user);
        if let Some((_, password)) = user.split_once(':') {
            redactor.add(password);
        }
    }
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
            "Google Cloud Storage does not honour put-if-absent through its S3 interface; write the destination as `gs://bucket/path`".to_owned(),
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
        content_type: given.peek("default_content_type"),
    }
}

#[cfg(test)]
mod tests;
