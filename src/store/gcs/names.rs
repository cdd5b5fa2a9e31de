//! The names of the options, and those that cannot be honoured here.

use crate::store::remote::options::{Names, canonical_in};

/// Canonical names with their other names. Sources: `GoogleConfigKey` of object_store (<https://docs.rs/object_store/0.13>), and the
/// names that deltalake and dlt pass through.
static NAMES: Names = &[
    ("google_service_account", &["service_account", "google_service_account_path", "service_account_path"]),
    ("google_service_account_key", &["service_account_key"]),
    ("google_application_credentials", &["application_credentials"]),
    ("google_base_url", &["base_url", "endpoint"]),
    ("google_skip_signature", &["skip_signature"]),
    ("bucket", &["bucket_name", "google_bucket", "google_bucket_name"]),
    ("disable_tagging", &[]),
    ("token", &["access_key"]),
];

/// Returns the one name of an option; `None` for those of other clouds.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    canonical_in(NAMES, "google_", name)
}

/// Returns why an option, with this value, is not honoured.
pub(super) fn refusal(known: &str, value: &str) -> Option<&'static str> {
    let is_off = matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "no" | "off");
    match known {
        "token" => Some("means nothing on Google Cloud Storage; credentials are `google_service_account` and the like"),
        // The client of commits is Google's own, which takes these from the environment or not at all.
        "proxy_url" | "proxy_excludes" => {
            Some("set the environment variables HTTPS_PROXY and NO_PROXY, which hold for all requests")
        }
        "proxy_ca_certificate" => Some("set the environment variable SSL_CERT_FILE, which holds for all requests"),
        "allow_invalid_certificates" | "http2_only" if is_off => None,
        "allow_invalid_certificates" => Some("certificates are always checked; further ones to trust are named by SSL_CERT_FILE"),
        "http2_only" => Some("commits are sent by HTTP/1.1"),
        _ => None,
    }
}
