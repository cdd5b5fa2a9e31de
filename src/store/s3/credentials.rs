//! Credentials from the chain of AWS, for commits and data alike, fetched anew before they expire.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use aws_config::environment::region::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::web_identity_token::{StaticConfiguration, WebIdentityTokenCredentialsProvider};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Feature;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use object_store::aws::AwsCredential;
use tokio::sync::Mutex;

use super::http::SdkConnector;
use super::options::{Keys, Role, Settings};
use crate::seam::Seam;
use crate::store::remote::answer::whole_text;
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// So long before they expire credentials are fetched anew: longer than a request with its repetitions takes.
const EARLY: Duration = Duration::from_secs(240);

/// For how long credentials without an expiry are used: files and variables may be changed under a long load.
const WITHOUT_EXPIRY: Duration = Duration::from_secs(900);

/// The source of credentials. Clones share what was fetched.
#[derive(Clone)]
pub(super) struct Chain(Arc<Inner>);

struct Inner {
    provider: SharedCredentialsProvider,
    fetched: Mutex<Option<Fetched>>,
    redactor: Redactor,
    seam: Seam,
}

#[derive(Clone)]
struct Fetched {
    credentials: Credentials,
    for_client: Arc<AwsCredential>,
    fetched_at: Duration,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chain")
    }
}

impl Chain {
    pub(super) fn new(provider: SharedCredentialsProvider, redactor: Redactor, seam: Seam) -> Self {
        Self(Arc::new(Inner { provider, fetched: Mutex::new(None), redactor, seam }))
    }

    /// Returns credentials that are good for a while.
    ///
    /// **Errors:** `Denied` when there are none; `Unavailable` when their source did not answer.
    pub(super) async fn get(&self) -> Result<Credentials> {
        Ok(self.fetch().await.map_err(|error| self.explain(&error))?.credentials)
    }

    /// Forgets what was fetched: the store said that it has expired.
    pub(super) async fn forget(&self) {
        *self.0.fetched.lock().await = None;
    }

    async fn fetch(&self) -> Result<Fetched, CredentialsError> {
        let Inner { provider, fetched, redactor, seam } = &*self.0;
        let mut known = fetched.lock().await;
        let now = Duration::from_micros(u64::try_from(seam.now_us()).unwrap_or_default());
        let left = |fetched: &Fetched| {
            let expiry = fetched.credentials.expiry()?.duration_since(UNIX_EPOCH).ok()?;
            Some(expiry.saturating_sub(now))
        };
        if let Some(fetched) = &*known {
            let is_fresh = match left(fetched) {
                Some(left) => left > EARLY,
                None => seam.elapsed().saturating_sub(fetched.fetched_at) < WITHOUT_EXPIRY,
            };
            if is_fresh {
                return Ok(fetched.clone());
            }
        }
        match provider.provide_credentials().await {
            Ok(credentials) => {
                redactor.add(credentials.secret_access_key());
                credentials.session_token().into_iter().for_each(|token| redactor.add(token));
                let for_client = AwsCredential {
                    key_id: credentials.access_key_id().to_owned(),
                    secret_key: credentials.secret_access_key().to_owned(),
                    token: credentials.session_token().map(str::to_owned),
                };
                let new = Fetched { credentials, for_client: Arc::new(for_client), fetched_at: seam.elapsed() };
                *known = Some(new.clone());
                Ok(new)
            }
            // The old ones still hold: their source may answer next time.
            Err(error) => match known.as_ref().filter(|fetched| left(fetched).is_none_or(|left| !left.is_zero())) {
                Some(fetched) => Ok(fetched.clone()),
                None => Err(error),
            },
        }
    }

    /// Tells from where `credentials` came, by the marks that the chain puts on them.
    pub(super) fn origin(credentials: &Credentials) -> Option<String> {
        let words = |feature: &Feature| {
            Some(match feature {
                Feature::CredentialsEnvVars => "environment variables",
                Feature::CredentialsProfile | Feature::CredentialsProfileSourceProfile | Feature::CredentialsProfileLogin => {
                    "a profile"
                }
                Feature::CredentialsProcess | Feature::CredentialsProfileProcess => "a credential process",
                Feature::CredentialsSso | Feature::CredentialsProfileSso => "single sign-on",
                Feature::CredentialsStsAssumeRole => "an assumed role",
                Feature::CredentialsStsAssumeRoleWebId
                | Feature::CredentialsEnvVarsStsWebIdToken
                | Feature::CredentialsProfileStsWebIdToken => "a web identity",
                Feature::CredentialsHttp => "the container",
                Feature::CredentialsImds => "the metadata service of the machine",
                _ => return None,
            })
        };
        let mut found: Vec<&str> = credentials.get_property::<Vec<Feature>>()?.iter().filter_map(words).collect();
        found.dedup();
        (!found.is_empty()).then(|| found.join(" and "))
    }

    fn explain(&self, error: &CredentialsError) -> Error {
        let cause = self.0.redactor.clean(&whole_text(error));
        match error {
            CredentialsError::ProviderTimedOut(_) => Error::unavailable("the source of the AWS credentials did not answer").source(cause),
            _ => Error::denied("there are no AWS credentials that can be used")
                .hint(
                    "set `aws_access_key_id` and `aws_secret_access_key` in `storage_options`, or use what AWS tools use: environment \
                     variables, a profile (`aws_profile`), single sign-on, a web identity, or the role of the machine",
                )
                .source(cause),
        }
    }
}

impl ProvideCredentials for Chain {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async { self.fetch().await.map(|fetched| fetched.credentials) })
    }
}

#[async_trait]
impl object_store::CredentialProvider for Chain {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let denied =
            |error: &CredentialsError| object_store::Error::Generic { store: "S3", source: Box::new(self.explain(error)) };
        self.fetch().await.map(|fetched| fetched.for_client).map_err(|error| denied(&error))
    }
}

/// What the environment, the profile and the options say together.
pub(super) struct Resolved {
    pub region: String,
    /// `None`: requests are not signed.
    pub chain: Option<Chain>,
    /// The endpoint that a profile names.
    pub endpoint: Option<String>,
}

/// Finds out region and source of credentials; the credentials themselves are fetched when they are needed.
///
/// **Errors:** `Config` when no region is known, or credentials cannot come from where the options say.
pub(super) async fn resolve(settings: &Settings, connector: SdkConnector, redactor: Redactor, seam: Seam) -> Result<Resolved> {
    let profile = match &settings.keys {
        Keys::Chain { profile } => profile.clone(),
        _ => None,
    };
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(connector.clone());
    loader = loader.region(region_chain(settings, profile.as_deref(), &connector));
    if let Some(profile) = &profile {
        loader = loader.profile_name(profile);
    }
    loader = match &settings.keys {
        Keys::Chain { .. } => loader,
        Keys::Given { id, secret, token } => {
            loader.credentials_provider(Credentials::new(id, secret, token.clone(), None, "storage_options"))
        }
        Keys::Unsigned => loader.no_credentials(),
    };
    let config = loader.load().await;
    let region = config.region().map(|region| region.as_ref().to_owned()).ok_or_else(|| {
        Error::config("the region of the bucket is not known")
            .hint("set `aws_region` in `storage_options`, AWS_REGION in the environment, or `region` in the profile")
    })?;
    let provider = match &settings.role {
        Some(role) => Some(assume(role, settings, &config, connector).await?),
        None => config.credentials_provider(),
    };
    let chain = provider.map(|provider| Chain::new(provider, redactor, seam));
    if chain.is_none() && !matches!(settings.keys, Keys::Unsigned) {
        return Err(Error::internal("the chain of AWS credentials is empty"));
    }
    Ok(Resolved { region, chain, endpoint: config.endpoint_url().map(str::to_owned) })
}

/// An S3 service of another maker has no region to speak of, and need not be asked for by the metadata service of AWS.
fn region_chain(settings: &Settings, profile: Option<&str>, connector: &SdkConnector) -> RegionProviderChain {
    let mut of_profile = aws_config::profile::region::Builder::default();
    if let Some(profile) = profile {
        of_profile = of_profile.profile_name(profile);
    }
    let chain = RegionProviderChain::first_try(settings.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(of_profile.build());
    if settings.endpoint.is_some() {
        return chain.or_else(Region::from_static("us-east-1"));
    }
    let provider_config = ProviderConfig::default().with_http_client(connector.clone());
    chain.or_else(ImdsRegionProvider::builder().configure(&provider_config).build())
}

async fn assume(
    role: &Role,
    settings: &Settings,
    config: &SdkConfig,
    connector: SdkConnector,
) -> Result<SharedCredentialsProvider> {
    if let Some(token_file) = &role.token_file {
        let provider_config = ProviderConfig::default().with_region(config.region().cloned()).with_http_client(connector);
        let identity = StaticConfiguration {
            web_identity_token_file: token_file.into(),
            role_arn: role.arn.clone(),
            session_name: role.session.clone(),
        };
        let provider = WebIdentityTokenCredentialsProvider::builder().configure(&provider_config).static_configuration(identity);
        return Ok(SharedCredentialsProvider::new(provider.build()));
    }
    let base = config
        .credentials_provider()
        .ok_or_else(|| Error::config("`aws_role_arn` needs credentials that may assume the role"))?;
    let mut config = config.to_builder();
    // The endpoint of the bucket is not the one of the token service.
    config.set_endpoint_url(settings.sts_endpoint.clone());
    let provider = AssumeRoleProvider::builder(&role.arn).session_name(&role.session).configure(&config.build());
    Ok(SharedCredentialsProvider::new(provider.build_from_provider(base).await))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::simulated::{self, Simulated};

    /// Gives credentials that expire an hour after the first moment of the simulated world, times the count of fetches.
    #[derive(Debug, Default)]
    struct Source(Arc<AtomicU64>, bool);

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            if count > 1 && self.1 {
                return future::ProvideCredentials::ready(Err(CredentialsError::provider_error("hunter2hunter2 is not known")));
            }
            let expiry = UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 3600 * count);
            let secret = if self.1 { "hunter2hunter2" } else { "secret" };
            future::ProvideCredentials::ready(Ok(Credentials::new(format!("id {count}"), secret, None, Some(expiry), "test")))
        }
    }

    fn chain(fails_later: bool) -> (Arc<Simulated>, Seam, Chain, Arc<AtomicU64>) {
        let world = Simulated::new(1);
        let seam = simulated::seam(&world);
        let source = Source(Arc::default(), fails_later);
        let count = Arc::clone(&source.0);
        let chain = Chain::new(SharedCredentialsProvider::new(source), Redactor::default(), Arc::clone(&seam));
        (world, seam, chain, count)
    }

    #[test]
    fn credentials_are_fetched_once_and_anew_before_they_expire() {
        let (world, seam, chain, count) = chain(false);
        world.run_one(async {
            for _ in 0..3 {
                assert_eq!(chain.get().await.unwrap().access_key_id(), "id 1");
            }
            seam.sleep(Duration::from_secs(3600 - 300)).await;
            assert_eq!(chain.get().await.unwrap().access_key_id(), "id 1");
            seam.sleep(Duration::from_secs(120)).await;
            assert_eq!(chain.get().await.unwrap().access_key_id(), "id 2");
            chain.forget().await;
            assert_eq!(chain.get().await.unwrap().access_key_id(), "id 3");
        });
        assert_eq!(count.load(Ordering::SeqCst), 3);
        assert_eq!(format!("{chain:?}"), "Chain");
    }

    #[test]
    fn old_credentials_are_used_while_they_hold_and_the_error_has_no_secret() {
        let (world, seam, chain, _) = chain(true);
        world.run_one(async {
            chain.get().await.unwrap();
            seam.sleep(Duration::from_secs(3500)).await;
            assert_eq!(chain.get().await.unwrap().access_key_id(), "id 1", "the source fails, they hold for 100 s");
            seam.sleep(Duration::from_secs(200)).await;
            let error = chain.get().await.unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Denied);
            assert!(error.render().contains("*** is not known") && !error.render().contains("hunter2"), "{}", error.render());
        });
    }
}
