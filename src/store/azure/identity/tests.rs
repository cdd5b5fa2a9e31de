use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use azure_core::credentials::{AccessToken, TokenRequestOptions};
use object_store::ClientOptions;
use object_store::client::HttpConnector;

use super::*;
use crate::ErrorKind;
use crate::store::azure::answer::cut;
use crate::store::azure_server::{AzureServer, CLIENT, CLIENT_SECRET, FEDERATED, Fault, Issued, TENANT};
use crate::store::remote::http::{Connector, credentials_client};
use crate::store::simulated::{self, Simulated};

fn tokens(identity: &Identity, server: &AzureServer) -> Tokens {
    crate::store::remote::http::install_crypto();
    let redactor = Redactor::default();
    let connector = Connector::new(redactor.clone(), cut).whole();
    let client = connector.connect(&credentials_client(&ClientOptions::new())).unwrap();
    let authority = Url::parse(&server.endpoint()).unwrap();
    Tokens::new(identity, Some(&authority), &client, redactor, crate::seam::real())
}

fn get(tokens: &Tokens) -> Result<String> {
    let tokens = tokens.clone();
    crate::store::remote::runtime::wait(async move { tokens.get().await }).unwrap()
}

fn managed(server: &AzureServer, principal: Option<Principal>) -> Identity {
    let endpoint = Url::parse(&format!("{}/metadata/identity/oauth2/token", server.endpoint())).unwrap();
    Identity::Managed { principal, endpoint: Some(endpoint) }
}

#[test]
fn an_application_gets_a_token_by_its_secret() {
    let server = AzureServer::start();
    let secret = CLIENT_SECRET.to_owned();
    let tokens = tokens(&Identity::Secret { tenant: TENANT.to_owned(), client: CLIENT.to_owned(), secret }, &server);
    assert_eq!(get(&tokens).unwrap(), "token/secret+1");
    assert_eq!(server.issued(), [Issued::Secret]);
}

#[test]
fn a_workload_gets_a_token_by_the_file_of_its_cluster() {
    let server = AzureServer::start();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(FEDERATED.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let identity = Identity::Workload { tenant: TENANT.to_owned(), client: CLIENT.to_owned(), file: path };
    assert_eq!(get(&tokens(&identity, &server)).unwrap(), "token/secret+1");
    assert_eq!(server.issued(), [Issued::Federated]);
    // The cluster writes the file anew: what it holds is read for each token.
    let tokens = tokens(&identity, &server);
    get(&tokens).unwrap();
    std::fs::write(file.path(), "another").unwrap();
    crate::store::remote::runtime::wait({
        let tokens = tokens.clone();
        async move { tokens.forget().await }
    })
    .unwrap();
    assert!(get(&tokens).unwrap_err().render().contains("AADSTS7000215"));
    let none = Identity::Workload { tenant: TENANT.to_owned(), client: CLIENT.to_owned(), file: "/none/at/all".to_owned() };
    assert!(get(&super::tests::tokens(&none, &server)).unwrap_err().render().contains("/none/at/all"));
}

#[test]
fn a_machine_gets_a_token_of_its_own_or_of_an_identity_that_is_assigned_to_it() {
    let server = AzureServer::start();
    assert_eq!(get(&tokens(&managed(&server, None), &server)).unwrap(), "token/secret+1");
    let assigned = managed(&server, Some(Principal::Client(CLIENT.to_owned())));
    assert_eq!(get(&tokens(&assigned, &server)).unwrap(), "token/secret+2");
    assert_eq!(server.issued(), [Issued::Machine(None), Issued::Machine(Some(CLIENT.to_owned()))]);
}

#[test]
fn a_source_that_fails_once_is_asked_again_and_one_that_says_no_is_quoted() {
    let server = AzureServer::start();
    let mut count = 0;
    server.set_rule(move |_| {
        count += 1;
        if count == 1 { Fault::Answer(500, "") } else { Fault::Pass }
    });
    let secret = CLIENT_SECRET.to_owned();
    let identity = Identity::Secret { tenant: TENANT.to_owned(), client: CLIENT.to_owned(), secret };
    assert_eq!(get(&tokens(&identity, &server)).unwrap(), "token/secret+1");
    let wrong = Identity::Secret { tenant: TENANT.to_owned(), client: "another".to_owned(), secret: "hunter2".to_owned() };
    let error = get(&tokens(&wrong, &server)).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.render().contains("AADSTS7000215"), "{}", error.render());
}

/// Gives tokens that expire an hour after the first moment of the simulated world, times the count of fetches.
#[derive(Debug)]
struct Fake(Arc<AtomicU64>, bool);

#[async_trait]
impl TokenCredential for Fake {
    async fn get_token(&self, scopes: &[&str], _: Option<TokenRequestOptions<'_>>) -> azure_core::Result<AccessToken> {
        assert_eq!(scopes, [SCOPE]);
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        if count > 1 && self.1 {
            let said = "the token hunter2hunter2 is not known";
            return Err(azure_core::Error::with_message(azure_core::error::ErrorKind::Credential, said));
        }
        let expiry = azure_core::time::OffsetDateTime::from_unix_timestamp(1_767_225_600 + 3600 * count as i64).unwrap();
        let token = if self.1 { "hunter2hunter2".to_owned() } else { format!("token {count}") };
        Ok(AccessToken::new(token, expiry))
    }
}

fn fake(fails_later: bool) -> (Arc<Simulated>, Seam, Tokens, Arc<AtomicU64>) {
    let world = Simulated::new(1);
    let seam = simulated::seam(&world);
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let build: Build = Box::new(move || Ok(Arc::new(Fake(Arc::clone(&counted), fails_later))));
    let tokens = Tokens::of(vec![Source { build, limit: LIMIT }], Redactor::default(), Arc::clone(&seam));
    (world, seam, tokens, count)
}

#[test]
fn tokens_are_fetched_once_and_anew_before_they_expire() {
    let (world, seam, tokens, count) = fake(false);
    world.run_one(async {
        for _ in 0..3 {
            assert_eq!(tokens.get().await.unwrap(), "token 1");
        }
        seam.sleep(Duration::from_secs(3600 - 360)).await;
        assert_eq!(tokens.get().await.unwrap(), "token 1");
        seam.sleep(Duration::from_secs(120)).await;
        assert_eq!(tokens.get().await.unwrap(), "token 2");
        tokens.forget().await;
        assert_eq!(tokens.get().await.unwrap(), "token 3");
    });
    assert_eq!(count.load(Ordering::SeqCst), 3);
    assert_eq!(format!("{tokens:?}"), "Tokens");
}

#[test]
fn an_old_token_is_used_while_it_holds_and_the_error_has_no_secret() {
    let (world, seam, tokens, _) = fake(true);
    world.run_one(async {
        tokens.get().await.unwrap();
        seam.sleep(Duration::from_secs(3500)).await;
        assert_eq!(tokens.get().await.unwrap(), "hunter2hunter2", "the source fails, it holds for 100 s");
        seam.sleep(Duration::from_secs(200)).await;
        let error = tokens.get().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.render().contains("*** is not known") && !error.render().contains("hunter2"), "{}", error.render());
    });
}

#[test]
fn the_first_source_that_gives_a_token_is_kept() {
    let world = Simulated::new(1);
    let seam = simulated::seam(&world);
    let (silent, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (asked, counted) = (Arc::clone(&silent), Arc::clone(&count));
    let failing: Build = Box::new(move || {
        asked.fetch_add(1, Ordering::SeqCst);
        Err(azure_core::Error::with_message(azure_core::error::ErrorKind::Credential, "no machine of Azure"))
    });
    let good: Build = Box::new(move || Ok(Arc::new(Fake(Arc::clone(&counted), false))));
    let sources = vec![Source { build: failing, limit: LIMIT }, Source { build: good, limit: LIMIT }];
    let tokens = Tokens::of(sources, Redactor::default(), Arc::clone(&seam));
    world.run_one(async {
        assert_eq!(tokens.get().await.unwrap(), "token 1");
        seam.sleep(Duration::from_secs(3500)).await;
        assert_eq!(tokens.get().await.unwrap(), "token 2");
    });
    assert_eq!((silent.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (1, 2));
}
