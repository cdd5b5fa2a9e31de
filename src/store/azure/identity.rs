//! Tokens of Azure's identities, for commits and data alike, fetched anew before they expire.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::TokenCredential;
use azure_core::http::{ClientOptions as SdkOptions, Transport};
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, ManagedIdentityCredential, ManagedIdentityCredentialOptions, UserAssignedId,
    WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use object_store::azure::AzureCredential;
use object_store::client::HttpClient;
use tokio::sync::Mutex;
use url::Url;

use super::options::{Identity, Principal};
use super::wire::Wire;
use crate::seam::Seam;
use crate::store::remote::answer::whole_text;
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// What tokens are asked for: the blobs of any account.
const SCOPE: &str = "https://storage.azure.com/.default";

/// Where the SDK asks for the identity of a machine.
const METADATA: &str = "http://169.254.169.254/metadata/identity/oauth2/token";

/// So long before they expire tokens are fetched anew: longer than a request with its repetitions takes.
const EARLY: Duration = Duration::from_secs(300);

/// How long the source of a token may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the metadata service may take where it is not known that there is one: within a machine of Azure it answers at once.
const LIMIT_OF_SEARCH: Duration = Duration::from_secs(3);

/// The tokens of one identity. Clones share what was fetched.
#[derive(Clone)]
pub(super) struct Tokens(Arc<Inner>);

struct Inner {
    sources: Vec<Source>,
    fetched: Mutex<Option<Fetched>>,
    redactor: Redactor,
    seam: Seam,
}

/// Builds what fetches a token. It is built for each one: those of the SDK keep a token that the store has refused.
type Build = Box<dyn Fn() -> azure_core::Result<Arc<dyn TokenCredential>> + Send + Sync>;

/// One way to get tokens.
struct Source {
    build: Build,
    limit: Duration,
}

#[derive(Clone)]
struct Fetched {
    token: String,
    for_client: Arc<AzureCredential>,
    /// Times since 1970.
    at: Duration,
    expiry: Duration,
    /// Which source gave it.
    source: usize,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    /// Returns the tokens of `identity`, asked for by `client` at `authority` (the public cloud's without one).
    pub(super) fn new(identity: &Identity, authority: Option<&Url>, client: &HttpClient, redactor: Redactor, seam: Seam) -> Self {
        let sources = match identity {
            Identity::Found { principal } => {
                let managed = Identity::Managed { principal: principal.clone(), endpoint: None };
                vec![
                    Source { build: source(&managed, authority, client), limit: LIMIT_OF_SEARCH },
                    Source { build: source(&Identity::Cli { tenant: None }, authority, client), limit: LIMIT },
                ]
            }
            known => vec![Source { build: source(known, authority, client), limit: LIMIT }],
        };
        Self::of(sources, redactor, seam)
    }

    fn of(sources: Vec<Source>, redactor: Redactor, seam: Seam) -> Self {
        Self(Arc::new(Inner { sources, fetched: Mutex::new(None), redactor, seam }))
    }

    /// Returns a token that is good for a while.
    ///
    /// **Errors:** `Denied` when there is none; `Unavailable` when its source did not answer.
    pub(super) async fn get(&self) -> Result<String> {
        Ok(self.fetch().await?.token)
    }

    /// Forgets the token: the store said that it has expired.
    pub(super) async fn forget(&self) {
        *self.0.fetched.lock().await = None;
    }

    async fn fetch(&self) -> Result<Fetched> {
        let Inner { sources, fetched, .. } = &*self.0;
        let mut known = fetched.lock().await;
        let now = self.now();
        if let Some(fetched) = &*known {
            // A token of a short life is kept for half of it.
            let early = EARLY.min(fetched.expiry.saturating_sub(fetched.at) / 2);
            if fetched.expiry.saturating_sub(now) > early {
                return Ok(fetched.clone());
            }
        }
        let mut errors: Vec<Error> = Vec::new();
        let tried = known.as_ref().map_or(0..sources.len(), |fetched| fetched.source..fetched.source + 1);
        for index in tried {
            match self.ask(index).await {
                Ok(new) => {
                    *known = Some(new.clone());
                    return Ok(new);
                }
                Err(error) => errors.push(error),
            }
        }
        // The old one still holds: its source may answer next time.
        match known.as_ref().filter(|fetched| fetched.expiry > now) {
            Some(fetched) => Ok(fetched.clone()),
            None => Err(explain(errors)),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.seam.now_us()).unwrap_or_default())
    }

    async fn ask(&self, index: usize) -> Result<Fetched> {
        let Inner { sources, redactor, seam, .. } = &*self.0;
        let denied = |error: &azure_core::Error| {
            Error::denied("an identity of Azure got no token").source(redactor.clean(whole_text(error).trim()))
        };
        let Source { build, limit } = &sources[index];
        let credential = build().map_err(|error| denied(&error))?;
        let token = tokio::select! {
            biased;
            token = credential.get_token(&[SCOPE], None) => token.map_err(|error| denied(&error))?,
            () = seam.sleep(*limit) => {
                let seconds = limit.as_secs();
                return Err(Error::unavailable(format!("the source of Azure's tokens did not answer within {seconds} s")));
            }
        };
        let secret = token.token.secret().to_owned();
        redactor.add(&secret);
        Ok(Fetched {
            for_client: Arc::new(AzureCredential::BearerToken(secret.clone())),
            token: secret,
            at: self.now(),
            expiry: Duration::from_secs(u64::try_from(token.expires_on.unix_timestamp()).unwrap_or_default()),
            source: index,
        })
    }
}

fn explain(mut errors: Vec<Error>) -> Error {
    let causes = errors.iter().map(cause_of).collect::<Vec<_>>().join("; ");
    match errors.pop() {
        // One that was asked for and is silent.
        Some(last) if errors.is_empty() && last.kind() == crate::ErrorKind::Unavailable => last,
        _ => Error::denied("there are no Azure credentials that can be used")
            .hint(
                "set `azure_storage_account_key`, `azure_storage_sas_token` or an identity in `storage_options`, or use what Azure's tools \
                 use: environment variables, a workload identity, the identity of the machine, or `az login`",
            )
            .source(causes),
    }
}

fn cause_of(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns how to build what fetches a token.
fn source(identity: &Identity, authority: Option<&Url>, client: &HttpClient) -> Build {
    let (client, authority, identity) = (client.clone(), authority.cloned(), identity.clone());
    Box::new(move || -> azure_core::Result<Arc<dyn TokenCredential>> {
        let wired = |wire: Wire| SdkOptions { transport: Some(Transport::new(Arc::new(wire))), ..SdkOptions::default() };
        let at_authority = || {
            let Some(authority) = &authority else { return wired(Wire::new(client.clone())) };
            // The SDK wants `https`, which an authority on this machine need not speak.
            let mut shown = authority.clone();
            let wire = match authority.scheme() {
                "http" if shown.set_scheme("https").is_ok() => {
                    Wire::redirecting(client.clone(), shown.as_str(), authority.as_str())
                }
                _ => Wire::new(client.clone()),
            };
            let mut cloud = CustomConfiguration::default();
            cloud.authority_host = shown.to_string();
            SdkOptions { cloud: Some(Arc::new(CloudConfiguration::Custom(cloud))), ..wired(wire) }
        };
        Ok(match &identity {
            Identity::Secret { tenant, client, secret } => {
                let options = ClientSecretCredentialOptions { client_options: at_authority() };
                ClientSecretCredential::new(tenant, client.clone(), secret.clone().into(), Some(options))?
            }
            Identity::Workload { tenant, client, file } => {
                WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions {
                    credential_options: ClientAssertionCredentialOptions { client_options: at_authority() },
                    client_id: Some(client.clone()),
                    tenant_id: Some(tenant.clone()),
                    token_file_path: Some(file.into()),
                }))?
            }
            Identity::Managed { principal, endpoint } => {
                let wire = match endpoint {
                    Some(endpoint) => Wire::redirecting(client.clone(), METADATA, endpoint.as_str().trim_end_matches('/')),
                    None => Wire::new(client.clone()),
                };
                let user_assigned_id = principal.clone().map(|principal| match principal {
                    Principal::Client(id) => UserAssignedId::ClientId(id),
                    Principal::Object(id) => UserAssignedId::ObjectId(id),
                    Principal::Resource(id) => UserAssignedId::ResourceId(id),
                });
                ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
                    user_assigned_id,
                    client_options: wired(wire),
                }))?
            }
            Identity::Cli { tenant } => {
                AzureCliCredential::new(Some(AzureCliCredentialOptions { tenant_id: tenant.clone(), ..Default::default() }))?
            }
            Identity::Found { .. } => {
                let kind = azure_core::error::ErrorKind::Other;
                return Err(azure_core::Error::with_message(kind, "an identity that is to be found has no single source"));
            }
        })
    })
}

#[async_trait]
impl object_store::CredentialProvider for Tokens {
    type Credential = AzureCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
        let denied = |error: Error| object_store::Error::Generic { store: "Azure", source: Box::new(error) };
        self.fetch().await.map(|fetched| fetched.for_client).map_err(denied)
    }
}

#[cfg(test)]
mod tests;
