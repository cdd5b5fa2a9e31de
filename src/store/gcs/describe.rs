//! What a bucket tells about itself: where it is, by what credentials it is asked, how its service is greeted.

use super::client::Clients;
use crate::Result;
use crate::store::Description;
use crate::store::remote::PART_BYTES;
use crate::store::remote::greeting::{Greeter, has_header, is_xml_of_s3};

pub(super) async fn describe(clients: &Clients) -> Description {
    let place = &clients.place;
    let parts = vec![("bucket", place.bucket.clone()), ("endpoint", place.endpoint.clone())];
    Description { place: parts, credentials: credentials(clients).await, part_bytes: Some(PART_BYTES) }
}

async fn credentials(clients: &Clients) -> Result<Option<String>> {
    let Some(chain) = &clients.chain else {
        return Ok(Some("none: requests are not signed (`google_skip_signature`)".to_owned()));
    };
    chain.get().await?;
    Ok(Some(format!("a token by {}", chain.named_by())))
}

pub(super) fn greeter(clients: &Clients) -> Greeter<'_> {
    Greeter {
        http: &clients.http,
        url: format!("{}/{}?list-type=2&max-keys=1", clients.place.endpoint.trim_end_matches('/'), clients.place.bucket),
        shown: &clients.place.endpoint,
        service: "Google Cloud Storage",
        is_service: |headers, status, text| {
            has_header(headers, "x-goog-") || has_header(headers, "x-guploader-") || is_xml_of_s3(status, text)
        },
        silence_hint: "correct `google_base_url`, start the service, or let this machine reach it (firewall, HTTPS_PROXY)",
        stranger_hint: "correct `google_base_url` in `storage_options`: the address of the service itself",
    }
}
