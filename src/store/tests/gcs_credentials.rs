//! Each chain of Google's credentials, against a stand-in of its token service, and what is said when one gives no token.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::fixture::block_on;
use crate::store::gcs_server::{GcsServer, private_key};
use crate::store::{PutTry, Remote, Store};
use crate::{Error, ErrorKind, seam};

const PATH: &str = "t/_delta_log/00000000000000000001.json";

/// Commits, writes and reads with these credentials.
fn works(store: &Remote) {
    assert!(matches!(block_on(store.put_once(PATH, Bytes::from_static(b"x"))), PutTry::Created));
    block_on(store.put("t/data", Bytes::from_static(b"y"))).unwrap();
    assert_eq!(block_on(store.list("t/", None)).unwrap().len(), 2);
}

/// Returns what a commit and a read are refused with.
fn refusals(store: &Remote) -> [Error; 2] {
    let put = match block_on(store.put_once(PATH, Bytes::from_static(b"x"))) {
        PutTry::Refused(error) | PutTry::Unclear(error) => error,
        other => panic!("{other:?}"),
    };
    [put, block_on(store.get(PATH)).unwrap_err()]
}

/// Writes a key into a file of `folder` and returns its path.
fn file(folder: &tempfile::TempDir, key: &serde_json::Value) -> String {
    let path = folder.path().join("key.json");
    std::fs::write(&path, key.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_service_account_signs_its_tokens_itself() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    let key = server.tokens.service_account();
    works(&server.open_as(&[("google_service_account_key", &key.to_string())], &[]).unwrap());
    for name in ["google_service_account", "service_account_path", "google_application_credentials"] {
        let server = GcsServer::start();
        works(&server.open_as(&[(name, &file(&folder, &key))], &[]).unwrap());
    }
    for name in ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"] {
        let server = GcsServer::start();
        works(&server.open_as(&[], &[(name, &file(&folder, &key))]).unwrap());
    }
    assert_eq!(server.tokens.take_asked(), Vec::<String>::new());
}

#[test]
fn keys_that_programs_build_lack_what_is_not_needed() {
    let server = GcsServer::start();
    let mut key = server.tokens.service_account();
    let members = key.as_object_mut().unwrap();
    members.remove("type");
    members.remove("project_id");
    members.remove("token_uri");
    works(&server.open_as(&[("service_account_key", &key.to_string())], &[]).unwrap());
}

#[test]
fn another_key_than_the_known_one_is_not_accepted() {
    let server = GcsServer::start();
    let mut key = server.tokens.service_account();
    key["client_email"] = json!("somebody@else");
    let store = server.open_as(&[("google_service_account_key", &key.to_string())], &[]).unwrap();
    for error in refusals(&store) {
        assert!(
            error.kind() == ErrorKind::Denied && error.to_string().contains("does not accept the token"),
            "{}",
            error.render()
        );
    }
}

#[test]
fn a_login_is_refreshed_by_its_token_service() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &server.tokens.authorized_user());
    works(&server.open_as(&[], &[("GOOGLE_APPLICATION_CREDENTIALS", &path)]).unwrap());
    assert_eq!(server.tokens.take_asked(), ["/token"]);
}

#[test]
fn what_gcloud_has_left_in_its_folder_is_used() {
    for is_home in [true, false] {
        let server = GcsServer::start();
        let home = tempfile::tempdir().unwrap();
        let folder = if is_home { home.path().join(".config/gcloud") } else { home.path().to_owned() };
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("application_default_credentials.json");
        std::fs::write(path, server.tokens.authorized_user().to_string()).unwrap();
        let name = if is_home { "HOME" } else { "CLOUDSDK_CONFIG" };
        works(&server.open_as(&[], &[(name, home.path().to_str().unwrap())]).unwrap());
        assert_eq!(server.tokens.take_asked(), ["/token"]);
    }
}

#[test]
fn a_service_account_is_impersonated() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &server.tokens.impersonated());
    works(&server.open_as(&[("google_application_credentials", &path)], &[]).unwrap());
    let asked = server.tokens.take_asked();
    assert!(asked.len() == 2 && asked[0] == "/token" && asked[1].ends_with(":generateAccessToken"), "{asked:?}");
}

#[test]
fn an_identity_of_another_cloud_is_exchanged() {
    for (is_file, is_impersonated) in [(true, false), (false, false), (true, true), (false, true)] {
        let server = GcsServer::start();
        let folder = tempfile::tempdir().unwrap();
        let subject = folder.path().join("subject");
        let key = server.tokens.external_account(is_file.then_some(subject.as_path()), is_impersonated);
        let path = file(&folder, &key);
        works(&server.open_as(&[], &[("GOOGLE_APPLICATION_CREDENTIALS", &path)]).unwrap());
        let asked = server.tokens.take_asked();
        let expected = usize::from(!is_file) + 1 + usize::from(is_impersonated);
        assert!(asked.len() == expected && asked.contains(&"/sts".to_owned()), "{asked:?}");
    }
}

#[test]
fn a_login_through_another_identity_provider_is_refreshed() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    works(&server.open_as(&[("application_credentials", &file(&folder, &server.tokens.external_user()))], &[]).unwrap());
    assert_eq!(server.tokens.take_asked(), ["/oauthtoken"]);
}

#[test]
fn the_service_account_of_the_machine_comes_last() {
    let server = GcsServer::start();
    works(&server.open_as(&[], &[("GCE_METADATA_HOST", &server.tokens.host())]).unwrap());
    assert_eq!(server.tokens.take_asked(), ["/computeMetadata/v1/instance/service-accounts/default/token"]);
}

#[test]
fn an_emulator_is_asked_without_a_token() {
    let server = GcsServer::start();
    server.tokens.admit_anybody();
    works(&server.open_as(&[("google_skip_signature", "true")], &[]).unwrap());
    let server = GcsServer::start();
    server.tokens.admit_anybody();
    let key =
        json!({"gcs_base_url": server.endpoint(), "disable_oauth": true, "client_email": "", "private_key": ""}).to_string();
    let host = server.endpoint().replace("http://", "");
    let options = |endpoint: Option<&str>, more: &[(&str, &str)]| {
        let mut options = server.options();
        options.storage_options.retain(|name, _| name.contains("backoff"));
        let endpoint = endpoint.map(|endpoint| ("google_base_url", endpoint));
        options
            .storage_options
            .extend(endpoint.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        options
    };
    let emulator = |name: &str| (name == "STORAGE_EMULATOR_HOST").then(|| host.clone());
    for (root, options, has_variable) in
        [("a", options(None, &[("google_service_account_key", &key)]), false), ("b", options(None, &[]), true)]
    {
        let variable = |name: &str| if has_variable { emulator(name) } else { None };
        works(&crate::store::gcs::open_with(&server.url(root), &options, variable).unwrap());
    }
}

#[test]
fn nobody_in_particular_may_not_write_and_is_told_so() {
    let server = GcsServer::start();
    let store = server.open_as(&[("google_skip_signature", "true")], &[]).unwrap();
    for error in refusals(&store) {
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.render().contains("requests are not signed"), "{}", error.render());
    }
}

#[test]
fn tokens_are_got_anew_when_the_store_says_that_they_have_expired() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    let store =
        server.open_as(&[("google_application_credentials", &file(&folder, &server.tokens.authorized_user()))], &[]).unwrap();
    works(&store);
    server.tokens.take_asked();
    server.tokens.wear_out();
    for number in 0..30 {
        let path = format!("t/{number}");
        assert!(matches!(block_on(store.put_once(&path, Bytes::from_static(b"x"))), PutTry::Created));
        assert!(block_on(store.get(&path)).unwrap().is_some());
    }
    let asked = server.tokens.take_asked().len();
    assert!((10..40).contains(&asked), "{asked}");
}

#[test]
fn tokens_are_refreshed_before_they_expire() {
    let server = GcsServer::start();
    // They are refreshed four minutes before they expire: three seconds from now.
    server.tokens.set_lifetime(243);
    let store = server.open_as(&[], &[("GCE_METADATA_HOST", &server.tokens.host())]).unwrap();
    works(&store);
    assert_eq!(server.tokens.take_asked().len(), 1);
    server.tokens.set_lifetime(3600);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut asked = 0;
    for _ in 0..100 {
        runtime.block_on(seam::real().sleep(Duration::from_millis(100)));
        asked += server.tokens.take_asked().len();
        if asked > 0 {
            break;
        }
    }
    assert_eq!(asked, 1, "nobody asked for it, and it was fetched");
    block_on(store.get(PATH)).unwrap();
    assert_eq!(server.tokens.take_asked().len(), 0);
}

#[test]
fn a_source_that_fails_is_named_and_nothing_of_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    for (status, kind) in [(400, ErrorKind::Denied), (503, ErrorKind::Unavailable)] {
        let server = GcsServer::start();
        let key = server.tokens.authorized_user();
        let secret = key["refresh_token"].as_str().unwrap();
        let answer =
            json!({"error": "invalid_grant", "error_description": "Token has been revoked.", "token": secret, "id": "hunter2"});
        server.tokens.fail(status, answer);
        let store = server.open_as(&[("google_application_credentials", &file(&folder, &key))], &[]).unwrap();
        for error in refusals(&store) {
            let text = format!("{} {error:?} {store:?}", error.render());
            assert_eq!(error.kind(), kind, "{text}");
            assert!(text.contains("google_application_credentials"), "{text}");
            assert!(text.contains("invalid_grant: Token has been revoked."), "{text}");
            assert!(!text.contains(secret) && !text.contains("hunter2") && !text.contains("client-secret-of"), "{text}");
        }
        assert!(!server.tokens.take_asked().is_empty());
    }
}

#[test]
fn a_source_that_comes_back_is_asked_again() {
    let server = GcsServer::start();
    let folder = tempfile::tempdir().unwrap();
    let mut key = server.tokens.authorized_user();
    let right = key.to_string();
    key["refresh_token"] = json!("revoked");
    let path = file(&folder, &key);
    let store = server.open_as(&[("google_application_credentials", &path)], &[]).unwrap();
    assert!(refusals(&store).iter().all(|error| error.kind() == ErrorKind::Denied));
    std::fs::write(&path, right).unwrap();
    works(&store);
}

#[test]
fn a_private_key_is_in_no_message() {
    let server = GcsServer::start();
    let body: Vec<&str> = private_key().lines().filter(|line| !line.starts_with('-')).collect();
    let shows_key = |text: &str| body.iter().any(|line| text.contains(line)) || text.contains("BEGIN PRIVATE");
    // A key that is cut off, one of another form, one whose member is of another type.
    let mut cut = server.tokens.service_account();
    cut["private_key"] = json!(private_key().replace("-----END", "!!"));
    let mut wrong = server.tokens.service_account();
    wrong["private_key_id"] = json!({ "x": private_key() });
    let mut twisted = server.tokens.service_account();
    twisted["private_key"] = json!(private_key().replace("PRIVATE KEY", "RSA PRIVATE KEY"));
    for key in [cut, wrong, twisted] {
        let store = server.open_as(&[("google_service_account_key", &key.to_string())], &[]).unwrap();
        for error in refusals(&store) {
            let text = format!("{} {error:?} {store:?}", error.render());
            assert!(!shows_key(&text), "{text}");
            assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config), "{text}");
        }
    }
    let store = server.open("root");
    assert!(!shows_key(&format!("{store:?} {:?}", server.options())));
}

#[test]
fn a_machine_without_credentials_says_what_to_set() {
    let server = GcsServer::start();
    // Nobody listens there.
    let store = server.open_as(&[], &[("GCE_METADATA_HOST", "127.0.0.1:1")]).unwrap();
    for error in refusals(&store) {
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(
            error.render().contains("no Google credentials") && error.render().contains("GOOGLE_APPLICATION_CREDENTIALS"),
            "{}",
            error.render()
        );
    }
}
