use std::collections::BTreeMap;
use std::time::Duration;

use object_store::ClientConfigKey;

use super::*;
use crate::store::remote::options::ATTEMPT;

fn parse_with(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Settings> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    parse(&Url::parse("s3://lake/a%20b/50%25/").unwrap(), &options, find, &Redactor::default())
}

fn settings(options: &[(&str, &str)]) -> Settings {
    parse_with(options, &[]).unwrap()
}

fn problem(options: &[(&str, &str)]) -> String {
    let error = parse_with(options, &[]).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Config);
    error.to_string()
}

#[test]
fn a_url_is_bucket_and_prefix() {
    let settings = settings(&[]);
    assert_eq!((settings.bucket.as_str(), settings.prefix.as_str()), ("lake", "a b/50%"));
    assert!(matches!(settings.keys, Keys::Chain { profile: None }) && settings.endpoint.is_none() && !settings.is_virtual_hosted);
    assert_eq!(settings.attempt, ATTEMPT);
}

#[test]
fn names_of_other_programs_mean_the_same() {
    for (name, value) in [("region", "eu"), ("aws_default_region", "eu"), ("region_name", "eu")] {
        assert_eq!(settings(&[(name, value)]).region.as_deref(), Some("eu"), "{name}");
    }
    for name in ["endpoint_url", "aws_endpoint", "aws_endpoint_url_s3", "endpoint"] {
        assert_eq!(settings(&[(name, "https://s3.example.com/")]).endpoint.as_deref(), Some("https://s3.example.com"), "{name}");
    }
    assert!(settings(&[("aws_allow_http", "true"), ("endpoint", "http://x:1")]).allow_http);
    assert!(
        settings(&[("s3_url_style", "vhost")]).is_virtual_hosted
            && settings(&[("virtual_hosted_style_request", "1")]).is_virtual_hosted
    );
    let Keys::Given { id, secret, token } = settings(&[("access_key_id", "i"), ("secret_access_key", "s"), ("token", "t")]).keys
    else {
        panic!()
    };
    assert_eq!((id.as_str(), secret.as_str(), token.as_deref()), ("i", "s", Some("t")));
    assert!(matches!(settings(&[("profile", "p")]).keys, Keys::Chain { profile: Some(name) } if name == "p"));
}

#[test]
fn the_environment_comes_after_the_options() {
    let variables = [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_S3", "http://b"), ("AWS_ALLOW_HTTP", "true")];
    assert_eq!(parse_with(&[], &variables).unwrap().endpoint.as_deref(), Some("http://b"));
    assert_eq!(parse_with(&[("endpoint", "https://c")], &variables).unwrap().endpoint.as_deref(), Some("https://c"));
    assert!(parse_with(&[], &variables[..1]).unwrap_err().to_string().contains("aws_allow_http"));
}

#[test]
fn wrong_options_are_named_all_at_once_and_without_secrets() {
    let text = problem(&[("timeout", "soon"), ("http1_only", "maybe"), ("aws_secret_access_key", "hunter2")]);
    for words in ["`timeout` is `soon`", "`http1_only` is `maybe`", "`aws_secret_access_key` is set, `aws_access_key_id` is not"]
    {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("hunter2"));
    assert!(problem(&[("aws_region", "a"), ("region", "b")]).contains("the same option with different values"));
    assert!(problem(&[("aws_session_token", "t")]).contains("needs `aws_access_key_id`"));
    assert!(problem(&[("aws_bucket", "other")]).contains("bucket is `lake`"));
    assert!(problem(&[("endpoint", "http://x")]).contains("set the storage option `aws_allow_http`"));
    assert!(problem(&[("endpoint", "x")]).contains("is not a URL"));
    assert!(!problem(&[("endpoint", "https://u:hunter2@x")]).contains("hunter2"));
    assert!(problem(&[("endpoint", "https://storage.googleapis.com")]).contains("gs://"));
    assert!(problem(&[("aws_endpoint_url_sts", "https://x")]).contains("aws_role_arn"));
    assert!(problem(&[("aws_sse_kms_key_id", "k")]).contains("aws_server_side_encryption"));
}

#[test]
fn options_that_cannot_be_honoured_are_refused_by_name() {
    for (name, value) in [
        ("aws_s3_express", "true"),
        ("imdsv1_fallback", "true"),
        ("aws_sse_customer_key_base64", "AAAA"),
        ("aws_metadata_endpoint", "http://x"),
        ("aws_container_credentials_full_uri", "http://x"),
        ("aws_sts_regional_endpoints", "legacy"),
        ("concurrency_limit", "3"),
    ] {
        assert!(problem(&[(name, value)]).contains(&format!("`{name}`")), "{name}");
    }
    settings(&[("aws_s3_express", "false"), ("aws_disable_tagging", "true"), ("aws_force_credential_load", "true")]);
}

#[test]
fn times_and_retries_reach_the_client() {
    let settings = settings(&[
        ("timeout", "2"),
        ("connect_timeout", "500ms"),
        ("max_retries", "3"),
        ("retry_timeout", "1m"),
        ("init_backoff", "5ms"),
        ("backoff_config.base", "3"),
        ("proxy_url", "http://p"),
        ("user_agent", "me"),
        ("default_content_type", "x/y"),
    ]);
    assert_eq!(settings.attempt, Duration::from_secs(2));
    assert_eq!((settings.retry.max_retries, settings.retry.retry_timeout), (3, Duration::from_secs(60)));
    assert_eq!((settings.retry.backoff.init_backoff, settings.retry.backoff.base), (Duration::from_millis(5), 3.0));
    for (key, value) in
        [(ClientConfigKey::ConnectTimeout, "500ms"), (ClientConfigKey::ProxyUrl, "http://p"), (ClientConfigKey::UserAgent, "me")]
    {
        assert_eq!(settings.client.get_config_value(&key).as_deref(), Some(value), "{key:?}");
    }
    assert_eq!(settings.requests.content_type.as_deref(), Some("x/y"));
}

#[test]
fn what_is_asked_of_requests_reaches_both_clients() {
    let requests = settings(&[
        ("aws_server_side_encryption", "aws:kms"),
        ("aws_sse_kms_key_id", "key"),
        ("aws_sse_bucket_key_enabled", "true"),
        ("aws_request_payer", "true"),
        ("aws_checksum_algorithm", "SHA256"),
        ("aws_unsigned_payload", "true"),
    ])
    .requests;
    assert_eq!(requests.as_client_config().len(), 6);
    assert_eq!(
        (requests.encryption.as_deref(), requests.kms_key_id.as_deref(), requests.has_bucket_key),
        (Some("aws:kms"), Some("key"), Some(true))
    );
}

#[test]
fn a_role_has_a_session_name() {
    let role = settings(&[("aws_role_arn", "arn:aws:iam::1:role/x"), ("aws_endpoint_url_sts", "https://sts")]).role.unwrap();
    assert_eq!((role.session.as_str(), role.token_file), ("delta-load", None));
}
