//! Who may do what: shared keys, shared access signatures, tokens.
//!
//! Sources: <https://learn.microsoft.com/en-us/rest/api/storageservices/authorize-with-shared-key>,
//! <https://learn.microsoft.com/en-us/rest/api/storageservices/create-account-sas>.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hmac::{Hmac, Mac};
use http::{Method, Request};
use sha2::Sha256;

use super::identity::Tokens;
use super::{ACCOUNT, KEY};

/// The query of a request, decoded.
pub(super) fn query(request: &Request<Bytes>) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect()
}

fn signature(text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64_STANDARD.decode(KEY).unwrap()).unwrap();
    mac.update(text.as_bytes());
    BASE64_STANDARD.encode(mac.finalize().into_bytes())
}

/// Returns what is wrong with the authorization of a request: status and code.
pub(super) fn refuse(request: &Request<Bytes>, tokens: &Tokens) -> Option<(u16, &'static str)> {
    let header = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let query = query(request);
    match header {
        Some(header) if header.starts_with("Bearer ") => {
            (!tokens.is_good(header.trim_start_matches("Bearer "))).then_some((401, "InvalidAuthenticationInfo"))
        }
        Some(header) => (header != format!("SharedKey {ACCOUNT}:{}", signature(&shared_key_text(request))))
            .then_some((403, "AuthenticationFailed")),
        None if query.contains_key("sig") => refuse_sas(request, &query),
        None => Some((401, "NoAuthenticationInformation")),
    }
}

fn shared_key_text(request: &Request<Bytes>) -> String {
    let header = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
    let length = if header("content-length") == "0" { "" } else { header("content-length") };
    // The date is among the `x-ms-` headers or here, never both.
    let date = if request.headers().contains_key("x-ms-date") { "" } else { header("date") };
    let lines = [
        request.method().as_str(),
        header("content-encoding"),
        header("content-language"),
        length,
        header("content-md5"),
        header("content-type"),
        date,
        header("if-modified-since"),
        header("if-match"),
        header("if-none-match"),
        header("if-unmodified-since"),
        header("range"),
    ];
    let mut text = lines.map(|line| format!("{line}\n")).concat();
    let mut own: Vec<_> = request.headers().iter().filter(|(name, _)| name.as_str().starts_with("x-ms-")).collect();
    own.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in own {
        text += &format!("{name}:{}\n", value.to_str().unwrap());
    }
    text += &format!("/{ACCOUNT}{}", request.uri().path());
    for (name, value) in query(request) {
        text += &format!("\n{}:{value}", name.to_lowercase());
    }
    text
}

fn sas_text(pairs: &BTreeMap<String, String>) -> String {
    let value = |name: &str| pairs.get(name).map_or("", String::as_str);
    let lines = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"].map(|name| format!("{}\n", value(name)));
    format!("{ACCOUNT}\n{}", lines.concat())
}

/// Returns a signature for all of the account with these permissions.
pub(super) fn sas(permissions: &str, expiry: &str) -> String {
    let pairs = [("sv", "2022-11-02"), ("ss", "b"), ("srt", "sco"), ("sp", permissions), ("se", expiry)];
    let mut pairs: BTreeMap<String, String> =
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    pairs.insert("sig".to_owned(), signature(&sas_text(&pairs)));
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn refuse_sas(request: &Request<Bytes>, query: &BTreeMap<String, String>) -> Option<(u16, &'static str)> {
    let now = chrono::DateTime::from_timestamp_micros(crate::seam::real().now_us()).unwrap();
    let expiry = chrono::DateTime::parse_from_rfc3339(&query["se"]).unwrap();
    if query["sig"] != signature(&sas_text(query)) || expiry < now {
        return Some((403, "AuthenticationFailed"));
    }
    let is_listing = query.get("comp").is_some_and(|comp| comp == "list");
    if !query["srt"].contains(if is_listing { 'c' } else { 'o' }) {
        return Some((403, "AuthorizationResourceTypeMismatch"));
    }
    let permissions = match *request.method() {
        Method::GET if is_listing => "l",
        Method::GET | Method::HEAD => "r",
        Method::PUT => "cw",
        _ => "d",
    };
    let may = permissions.chars().any(|permission| query["sp"].contains(permission));
    (!may).then_some((403, "AuthorizationPermissionMismatch"))
}
