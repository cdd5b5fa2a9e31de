//! What the options of all clouds have in common: names with other names, values taken out one by one, the HTTP client, repetition.

use std::collections::BTreeMap;
use std::time::Duration;

use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, RetryConfig};
use url::Url;

use crate::{Error, Result};

/// How long one request may take, connection and answer included, where `timeout` is not set.
pub(in crate::store) const ATTEMPT: Duration = Duration::from_secs(30);

/// Canonical names with their other names.
pub(in crate::store) type Names = &'static [(&'static str, &'static [&'static str])];

/// The options of the HTTP client, which every cloud takes. Source: `ClientConfigKey` of object_store
/// (<https://docs.rs/object_store/0.13>), and the names that deltalake passes through.
static CLIENT_NAMES: Names = &[
    ("allow_http", &[]),
    ("allow_invalid_certificates", &[]),
    ("timeout", &[]),
    ("connect_timeout", &[]),
    ("pool_idle_timeout", &["aws_s3_pool_idle_timeout_seconds"]),
    ("pool_max_idle_per_host", &[]),
    ("proxy_url", &[]),
    ("proxy_ca_certificate", &[]),
    ("proxy_excludes", &[]),
    ("user_agent", &[]),
    ("default_content_type", &[]),
    ("http1_only", &[]),
    ("http2_only", &[]),
    ("http2_keep_alive_interval", &[]),
    ("http2_keep_alive_timeout", &[]),
    ("http2_keep_alive_while_idle", &[]),
    ("http2_max_frame_size", &[]),
    ("randomize_addresses", &[]),
    ("max_retries", &["aws_s3_get_internal_server_error_retries"]),
    ("retry_timeout", &[]),
    ("backoff_config.init_backoff", &["init_backoff"]),
    ("backoff_config.max_backoff", &["max_backoff"]),
    ("backoff_config.base", &["base"]),
    ("object_store_concurrency_limit", &["concurrency_limit"]),
];

/// Returns the one name of an option, of the cloud's `names` or the client's, with or without the cloud's `prefix` (`aws_`).
pub(in crate::store) fn canonical_in(names: Names, prefix: &str, name: &str) -> Option<&'static str> {
    let find = |name: &str| {
        let mut all = names.iter().chain(CLIENT_NAMES);
        all.find(|(known, others)| *known == name || others.contains(&name)).map(|(known, _)| *known)
    };
    find(name).or_else(|| find(name.strip_prefix(prefix)?))
}

fn shared_refusal(known: &str) -> Option<&'static str> {
    (known == "object_store_concurrency_limit")
        .then_some("the number of requests at once follows from the load; leave the option out")
}

/// Returns the prefix of keys that a path of `url` means: decoded, no slashes at its ends.
///
/// **Errors:** `Config` for what no object's name can begin with.
pub(in crate::store) fn prefix_of(url: &Url, path: &str) -> Result<String> {
    let prefix = percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .map_err(|error| Error::config(format!("the path of `{url}` is not UTF-8")).source(error))?
        .trim_matches('/')
        .to_owned();
    if prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//") {
        return Err(Error::config(format!("the path of `{url}` has empty or dotted parts, which a table's files cannot have")));
    }
    Ok(prefix)
}

/// Options by their canonical names, taken out one by one.
pub(in crate::store) struct Given {
    values: BTreeMap<&'static str, (String, String)>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

impl Given {
    /// `canonical` returns the one name of an option (`None` for those of other clouds), `refusal` why one is not honoured.
    pub(in crate::store) fn new(
        options: &BTreeMap<String, String>,
        canonical: impl Fn(&str) -> Option<&'static str>,
        refusal: impl Fn(&str, &str) -> Option<&'static str>,
    ) -> Self {
        let mut given = Self { values: BTreeMap::new(), problems: Vec::new() };
        for (name, value) in options {
            // Options of other clouds are noticed where the config is read.
            let Some(known) = canonical(name) else { continue };
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            if let Some(problem) = refusal(known, value).or_else(|| shared_refusal(known)) {
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

    /// Returns the value without taking it out.
    pub(in crate::store) fn peek(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|(_, value)| value.clone())
    }

    pub(in crate::store) fn text(&mut self, name: &str) -> Option<String> {
        self.values.remove(name).map(|(_, value)| value)
    }

    pub(in crate::store) fn parsed<T>(&mut self, name: &str, kind: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (given, value) = self.values.remove(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            // No value of these kinds is a secret.
            self.problems.push(format!("storage option `{given}` is `{value}`, which is not {kind}"));
        }
        parsed
    }

    pub(in crate::store) fn yes(&mut self, name: &str) -> Option<bool> {
        self.parsed(name, "`true` or `false`", parse_bool)
    }

    pub(in crate::store) fn duration(&mut self, name: &str) -> Option<Duration> {
        self.parsed(name, "a time such as `30` (seconds) or `500ms`", parse_duration)
    }

    pub(in crate::store) fn number(&mut self, name: &str) -> Option<usize> {
        self.parsed(name, "a whole number", |text| text.parse().ok())
    }
}

pub(in crate::store) fn parse_bool(text: &str) -> Option<bool> {
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

/// Returns how often and how long reads and uploads of data are repeated.
pub(in crate::store) fn retry(given: &mut Given) -> RetryConfig {
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
pub(in crate::store) fn client(given: &mut Given, allow_http: bool) -> (ClientOptions, Duration) {
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
