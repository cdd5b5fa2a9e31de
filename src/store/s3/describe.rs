//! What a bucket tells about itself: where it is, by what credentials it is asked, how its service is greeted.

use std::time::UNIX_EPOCH;

use super::client::Clients;
use super::credentials::Chain;
use super::options::Keys;
use crate::Result;
use crate::seam::Seam;
use crate::store::Description;
use crate::store::remote::PART_BYTES;
use crate::store::remote::greeting::{Greeter, has_header, is_xml_of_s3};

pub(super) async fn describe(clients: &Clients, seam: &Seam) -> Description {
    let place = &clients.place;
    let mut parts = vec![("bucket", place.bucket.clone()), ("region", place.region.clone())];
    if let Some(endpoint) = &place.endpoint {
        parts.push(("endpoint", endpoint.clone()));
    }
    Description { place: parts, credentials: credentials(clients, seam).await, part_bytes: Some(PART_BYTES) }
}

async fn credentials(clients: &Clients, seam: &Seam) -> Result<Option<String>> {
    let Some(chain) = &clients.chain else { return Ok(Some("none: requests are not signed (`aws_skip_signature`)".to_owned())) };
    let credentials = chain.get().await?;
    let origin = match (Chain::origin(&credentials), &clients.keys) {
        (Some(origin), Keys::Chain { profile: Some(profile) }) => format!("{origin} (profile `{profile}`)"),
        (Some(origin), Keys::Chain { .. }) => origin,
        (Some(origin), _) => format!("{origin}, by the keys of `storage_options`"),
        (None, Keys::Given { .. }) => "`storage_options`".to_owned(),
        (None, _) => "the chain of AWS".to_owned(),
    };
    let token = if credentials.session_token().is_some() { ", with a session token" } else { "" };
    let expiry = credentials.expiry().and_then(|expiry| expiry.duration_since(UNIX_EPOCH).ok()).map(|expiry| {
        let now_s = seam.now_us() / 1_000_000;
        let left_s = i64::try_from(expiry.as_secs()).unwrap_or(i64::MAX).saturating_sub(now_s);
        if left_s > 0 { format!(", good for another {} min", left_s / 60) } else { ", expired".to_owned() }
    });
    Ok(Some(format!("key id `{}` from {origin}{token}{}", credentials.access_key_id(), expiry.unwrap_or_default())))
}

pub(super) fn greeter(clients: &Clients) -> Greeter<'_> {
    Greeter {
        http: &clients.http,
        url: format!("{}?list-type=2&max-keys=1", clients.bucket_url),
        shown: clients.place.endpoint.as_deref().unwrap_or(&clients.bucket_url),
        service: "an S3 service",
        // A real one comes with headers of its own, others at least with its XML.
        is_service: |headers, status, text| has_header(headers, "x-amz-") || is_xml_of_s3(status, text),
        silence_hint: match &clients.place.endpoint {
            Some(_) => {
                "correct `aws_endpoint_url` (host, port, http or https), start the service, or let this machine reach it (firewall, proxy)"
            }
            None => "correct `aws_region`, or let this machine reach it (firewall, proxy: `proxy_url`)",
        },
        stranger_hint: "correct `aws_endpoint_url` in `storage_options`: the address of the service itself, not of its console or of a web server",
    }
}
