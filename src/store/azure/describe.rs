//! What a container tells about itself: where it is, by what credentials it is asked, how its service is greeted.

use super::client::Container;
use super::options::{Identity, Keys};
use crate::Result;
use crate::store::Description;
use crate::store::remote::PART_BYTES;
use crate::store::remote::greeting::{Greeter, has_header};

pub(super) async fn describe(container: &Container) -> Description {
    let place = &container.place;
    let parts =
        vec![("container", place.container.clone()), ("account", place.account.clone()), ("endpoint", place.endpoint.clone())];
    Description { place: parts, credentials: credentials(container).await, part_bytes: Some(PART_BYTES) }
}

async fn credentials(container: &Container) -> Result<Option<String>> {
    if let Some(tokens) = &container.blobs.tokens {
        tokens.get().await?;
    }
    Ok(Some(match &container.blobs.keys {
        Keys::Account(_) => "the key of the account".to_owned(),
        Keys::Sas(_) => "a shared access signature".to_owned(),
        Keys::Token(_) => "a token, which is not renewed".to_owned(),
        Keys::Identity(Identity::Secret { client, .. }) => format!("a token of the application `{client}`, by its secret"),
        Keys::Identity(Identity::Workload { client, .. }) => format!("a token of the workload identity `{client}`"),
        Keys::Identity(Identity::Managed { .. }) => "a token of the machine's identity".to_owned(),
        Keys::Identity(Identity::Cli { .. }) => "a token of the login of `az`".to_owned(),
        Keys::Identity(Identity::Found { .. }) => "a token of the machine's identity or of the login of `az`".to_owned(),
        Keys::Unsigned => "none: requests are not signed (`azure_skip_signature`)".to_owned(),
    }))
}

pub(super) fn greeter(container: &Container) -> Greeter<'_> {
    Greeter {
        http: &container.blobs.http,
        url: format!("{}?restype=container&comp=list&maxresults=1", container.blobs.root),
        shown: &container.place.endpoint,
        service: "a blob service of Azure",
        is_service: |headers, _, _| has_header(headers, "x-ms-"),
        silence_hint: "correct the account in `destination` or `azure_storage_endpoint`, start the service, or let this machine reach it (firewall, proxy)",
        stranger_hint: "correct `azure_storage_endpoint` in `storage_options`: the root of the blob service",
    }
}
