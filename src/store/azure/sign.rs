//! Shared access signatures by the key of the account.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{Error, Result};

/// The version of the rules by which a signature is made.
const VERSION: &str = "2022-11-02";

/// How long a signature holds: one request is made with it, by a clock that may differ from the store's.
const VALID_US: i64 = 3_600_000_000;

/// Returns the query of a signature that lets its holder create, write and delete blobs of the account for a while from `now_us` on.
///
/// Source: <https://learn.microsoft.com/en-us/rest/api/storageservices/create-account-sas>
///
/// **Errors:** `Internal`, when the time is none.
pub(super) fn account_sas(account: &str, key: &[u8], now_us: i64) -> Result<Vec<(&'static str, String)>> {
    let expiry = DateTime::<Utc>::from_timestamp_micros(now_us.saturating_add(VALID_US))
        .ok_or_else(|| Error::internal("the time of a signature is out of range"))?
        .to_rfc3339_opts(SecondsFormat::Secs, true);
    let (permissions, services, types) = ("cwd", "b", "o");
    // No start, no address, no protocol, no encryption scope.
    let text = format!("{account}\n{permissions}\n{services}\n{types}\n\n{expiry}\n\n\n{VERSION}\n\n");
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).map_err(|error| Error::internal("the account key has no length").source(error))?;
    mac.update(text.as_bytes());
    let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    Ok(vec![
        ("sv", VERSION.to_owned()),
        ("ss", services.to_owned()),
        ("srt", types.to_owned()),
        ("sp", permissions.to_owned()),
        ("se", expiry),
        ("sig", signature),
    ])
}
