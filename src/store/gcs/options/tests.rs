use std::collections::BTreeMap;

use object_store::ClientConfigKey;

use super::*;
use crate::store::remote::options::ATTEMPT;

fn parse_with(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Settings> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    parse(&Url::parse("gs://lake/a%20b/50%25/").unwrap(), &options, find, &Redactor::default())
}

fn settings(options: &[(&str, &str)]) -> Settings {
    parse_with(options, &[]).unwrap()
}

fn problem(options: &[(&str, &str)]) -> String {
    let error = parse_with(options, &[]).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Config);
    error.render()
}

const UNSIGNED: (&str, &str) = ("google_skip_signature", "true");

#[test]
fn a_url_is_bucket_and_prefix() {
    let settings = settings(&[]);
    assert_eq!((settings.bucket.as_str(), settings.prefix.as_str()), ("lake", "a b/50%"));
    assert_eq!(settings.endpoint, "https://storage.googleapis.com");
    assert_eq!(settings.source, Some(Source::Metadata { host: None }));
    assert_eq!(settings.attempt, ATTEMPT);
}

#[test]
fn names_of_other_programs_mean_the_same() {
    for name in ["google_base_url", "base_url", "endpoint"] {
        assert_eq!(settings(&[(name, "https://gcs.example.com/")]).endpoint, "https://gcs.example.com", "{name}");
    }
    for name in ["google_skip_signature", "skip_signature"] {
        assert_eq!(settings(&[(name, "true")]).source, None, "{name}");
    }
    let key = r#"{"client_email": "e", "private_key": "p", "private_key_id": "i"}"#;
    for name in ["google_service_account_key", "service_account_key"] {
        assert!(matches!(settings(&[(name, key)]).source, Some(Source::Text { .. })), "{name}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key).unwrap();
    let path = file.path().to_str().unwrap();
    for name in ["google_service_account", "service_account", "google_service_account_path", "service_account_path"] {
        assert!(matches!(settings(&[(name, path)]).source, Some(Source::File { .. })), "{name}");
    }
    assert_eq!(settings(&[("google_bucket_name", "lake")]).bucket, "lake");
    assert_eq!(settings(&[("google_timeout", "2")]).attempt, Duration::from_secs(2));
}

#[test]
fn the_environment_comes_after_the_options() {
    let variables = [("GOOGLE_BASE_URL", "https://a"), ("STORAGE_EMULATOR_HOST", "b:1"), ("GCE_METADATA_HOST", "m")];
    let of_environment = parse_with(&[], &variables).unwrap();
    assert_eq!(
        (of_environment.endpoint.as_str(), of_environment.source),
        ("https://a", Some(Source::Metadata { host: Some("m".to_owned()) }))
    );
    assert_eq!(parse_with(&[("endpoint", "https://c")], &variables).unwrap().endpoint, "https://c");
    let emulator = parse_with(&[], &variables[1..]).unwrap();
    assert_eq!((emulator.endpoint.as_str(), emulator.source), ("http://b:1", None));
    assert_eq!(parse_with(&[], &[("STORAGE_EMULATOR_HOST", "https://b")]).unwrap().endpoint, "https://b");
    assert_eq!(parse_with(&[], &[("GOOGLE_SKIP_SIGNATURE", "1")]).unwrap().source, None);
    let key = r#"{"client_email": "e", "private_key": "p", "private_key_id": "i"}"#;
    let signed = parse_with(&[("service_account_key", key)], &[("GOOGLE_SKIP_SIGNATURE", "1")]).unwrap();
    assert!(signed.source.is_some());
}

#[test]
fn wrong_options_are_named_all_at_once_and_without_secrets() {
    let text = problem(&[("timeout", "soon"), ("http1_only", "maybe"), UNSIGNED]);
    for words in ["`timeout` is `soon`", "`http1_only` is `maybe`"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(problem(&[("endpoint", "https://a"), ("base_url", "https://b")]).contains("the same option with different values"));
    assert!(problem(&[("google_bucket", "other")]).contains("bucket is `lake`"));
    assert!(problem(&[("endpoint", "http://x")]).contains("`allow_http`"));
    settings(&[("endpoint", "http://x"), UNSIGNED]);
    settings(&[("endpoint", "http://x"), ("allow_http", "true")]);
    assert!(problem(&[("endpoint", "x")]).contains("is not a URL"));
    assert!(problem(&[("endpoint", "ftp://x")]).contains("has the scheme `ftp`"));
    assert!(!problem(&[("endpoint", "https://u:hunter2@x")]).contains("hunter2"));
    let key = r#"{"client_email": "e", "private_key": "hunter2", "private_key_id": "i"}"#;
    let text = problem(&[("google_service_account_key", key), UNSIGNED]);
    assert!(
        text.contains("`google_skip_signature` and `google_service_account_key` exclude each other") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn wrong_keys_are_named_by_where_they_come_from_and_not_shown() {
    for (key, words) in [
        ("hunter2", "is not JSON"),
        ("{\"private_key\": \"hunter2", "is not JSON"),
        ("[\"hunter2\"]", "is no JSON object"),
        ("{\"private_key\": \"hunter2\"}", "has no `client_email`"),
        (r#"{"type": "service_account", "client_email": "e", "private_key": ""}"#, "has no `private_key`"),
        (r#"{"type": "authorized_user", "client_secret": "hunter2", "client_id": "c"}"#, "has no `refresh_token`"),
        (r#"{"type": "gdch_service_account", "private_key": "hunter2"}"#, "has the type `gdch_service_account`"),
        (r#"{"type": 3}"#, "has no `type`"),
        (
            r#"{"client_email": "e", "private_key": "hunter2", "private_key_id": "i", "universe_domain": "example.com"}"#,
            "universe `example.com`",
        ),
    ] {
        let text = problem(&[("google_service_account_key", key)]);
        assert!(text.contains(words) && text.contains("`google_service_account_key`"), "{key}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(problem(&[("google_application_credentials", "/no/such/file")]).contains("`/no/such/file`"));
    let text = problem(&[("google_service_account", "{\"private_key\": \"hunter2\"}")]);
    assert!(text.contains("is JSON text") && !text.contains("hunter2"), "{text}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{}").unwrap();
    let path = file.path().to_str().unwrap();
    assert!(problem(&[("google_application_credentials", path)]).contains("has no `type`"));
    let both = [("google_application_credentials", path), ("service_account_key", "{\"disable_oauth\": true}")];
    assert!(parse_with(&both, &[]).is_err());
}

#[test]
fn options_that_cannot_be_honoured_are_refused_by_name() {
    for (name, value) in [
        ("proxy_url", "http://p"),
        ("google_proxy_excludes", "x"),
        ("proxy_ca_certificate", "x"),
        ("allow_invalid_certificates", "true"),
        ("http2_only", "true"),
        ("token", "x"),
        ("access_key", "x"),
        ("concurrency_limit", "3"),
    ] {
        assert!(problem(&[(name, value)]).contains(&format!("`{name}`")), "{name}");
    }
    settings(&[("allow_invalid_certificates", "false"), ("http2_only", "off"), ("disable_tagging", "true")]);
}

#[test]
fn times_and_retries_reach_the_client() {
    let settings = settings(&[
        ("timeout", "2"),
        ("connect_timeout", "500ms"),
        ("max_retries", "3"),
        ("user_agent", "me"),
        ("default_content_type", "x/y"),
    ]);
    assert_eq!((settings.attempt, settings.retry.max_retries), (Duration::from_secs(2), 3));
    assert_eq!((settings.user_agent.as_deref(), settings.content_type.as_deref()), (Some("me"), Some("x/y")));
    for (key, value) in [(ClientConfigKey::ConnectTimeout, "500ms"), (ClientConfigKey::UserAgent, "me")] {
        assert_eq!(settings.client.get_config_value(&key).as_deref(), Some(value), "{key:?}");
    }
}
