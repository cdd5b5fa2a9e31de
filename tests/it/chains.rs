//! Credentials from each source that the AWS chain knows, against stand-ins of their endpoints; proxies; certificates of one's own.
//!
//! The bucket takes only requests that are signed with the keys and carry the session token that the source gave out.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::bucket::{Bucket, SCHEMA, messages, row};
use crate::command::{Call, finish};
use crate::loopback::{AUTHORITY, Proxy, StandIn, with_tls};
use crate::store::s3_server::{Fault, KEY_ID, Operation, SECRET};

const TOKEN: &str = "session-token-of-the-test";
const FAR: &str = "2099-01-01T00:00:00Z";

/// Lets only requests with the session token in.
fn demand_token(bucket: &Bucket) {
    bucket.server.set_rule(|call| match call.header("x-amz-security-token") {
        TOKEN => Fault::Pass,
        _ => Fault::Answer(403, "AccessDenied"),
    });
}

/// A call that knows of no credentials, not even those of a metadata service.
fn bare(bucket: &Bucket, options: &BTreeMap<String, String>) -> Call {
    let home = bucket.workplace.path("").to_str().unwrap().to_owned();
    bucket.call(options, json!({})).env("HOME", &home).env("AWS_EC2_METADATA_DISABLED", "true")
}

fn loads(bucket: &Bucket, call: Call) {
    let ran = call.stdin(messages(0..3)).run();
    assert_eq!((ran.expect(0).states(), bucket.rows()), (vec![r#"{"at":2}"#], vec![0, 1, 2]));
    assert!(!ran.stderr.contains(SECRET) && !ran.stderr.contains(TOKEN), "{}", ran.stderr);
}

fn credentials_of(action: &str, token: &str, expiration: &str) -> String {
    format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><AssumedRoleUser>\
         <AssumedRoleId>A:b</AssumedRoleId><Arn>arn:aws:sts::1:assumed-role/loader/s</Arn></AssumedRoleUser><Credentials>\
         <AccessKeyId>{KEY_ID}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>{token}</SessionToken>\
         <Expiration>{expiration}</Expiration></Credentials></{action}Result><ResponseMetadata><RequestId>r</RequestId>\
         </ResponseMetadata></{action}Response>"
    )
}

fn token_service(action: &'static str) -> StandIn {
    StandIn::start(move |_| (200, credentials_of(action, TOKEN, FAR)))
}

/// Writes the AWS config file and returns its path.
fn config_file(bucket: &Bucket, text: &str) -> String {
    bucket.workplace.write("aws/config", text);
    bucket.workplace.path("aws/config").to_str().unwrap().to_owned()
}

#[test]
fn a_profile_assumes_a_role_with_the_keys_of_another() {
    let (bucket, service) = (Bucket::new(), token_service("AssumeRole"));
    demand_token(&bucket);
    let config = config_file(
        &bucket,
        "[profile base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = hunter2hunter2\n\
         [profile loader]\nrole_arn = arn:aws:iam::1:role/loader\nsource_profile = base\nrole_session_name = nightly\n",
    );
    let mut options = bucket.options();
    options.insert("aws_profile".to_owned(), "loader".to_owned());
    let call = bare(&bucket, &options).env("AWS_CONFIG_FILE", &config).env("AWS_ENDPOINT_URL_STS", &service.url());
    loads(&bucket, call);
    let asked = &service.seen()[0];
    assert!(asked.body.contains("Action=AssumeRole&") && asked.body.contains("role%2Floader") && asked.body.contains("nightly"));
    assert!(asked.header("authorization").contains("Credential=AKIDBASE/"), "{asked:?}");
}

#[test]
fn the_option_assumes_a_role_with_the_keys_of_the_options() {
    let (bucket, service) = (Bucket::new(), token_service("AssumeRole"));
    demand_token(&bucket);
    let mut options = bucket.options();
    for (name, value) in [
        ("aws_access_key_id", "AKIDBASE"),
        ("aws_secret_access_key", "hunter2hunter2"),
        ("aws_role_arn", "arn:aws:iam::1:role/loader"),
        ("aws_role_session_name", "by-option"),
        ("aws_endpoint_url_sts", &service.url()),
    ] {
        options.insert(name.to_owned(), value.to_owned());
    }
    loads(&bucket, bare(&bucket, &options));
    let asked = &service.seen()[0];
    assert!(asked.body.contains("Action=AssumeRole&") && asked.body.contains("by-option"), "{asked:?}");
    assert!(asked.header("authorization").contains("Credential=AKIDBASE/"), "{asked:?}");
}

#[test]
fn a_web_identity_is_exchanged_by_variables_and_by_options() {
    for is_by_option in [false, true] {
        let (bucket, service) = (Bucket::new(), token_service("AssumeRoleWithWebIdentity"));
        demand_token(&bucket);
        bucket.workplace.write("identity", "the-web-identity");
        let file = bucket.workplace.path("identity").to_str().unwrap().to_owned();
        let mut options = bucket.options();
        let role = [("aws_web_identity_token_file", file.as_str()), ("aws_role_arn", "arn:aws:iam::1:role/pod")];
        if is_by_option {
            options.extend(role.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        }
        let mut call = bare(&bucket, &options).env("AWS_ENDPOINT_URL_STS", &service.url());
        if !is_by_option {
            for (name, value) in role {
                call = call.env(&name.to_ascii_uppercase(), value);
            }
        }
        loads(&bucket, call);
        let asked = &service.seen()[0];
        assert!(asked.body.contains("WebIdentityToken=the-web-identity") && asked.body.contains("role%2Fpod"), "{asked:?}");
        assert_eq!(asked.header("authorization"), "", "the token stands for itself");
    }
}

/// What containers and machines are given.
fn json_credentials() -> String {
    json!({"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z", "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET,
           "Token": TOKEN, "Expiration": FAR})
    .to_string()
}

#[test]
fn a_container_asks_its_agent_with_its_own_token() {
    let bucket = Bucket::new();
    demand_token(&bucket);
    let agent = StandIn::start(|request| match request.header("authorization") {
        "the-agents-token" => (200, json_credentials()),
        _ => (401, String::new()),
    });
    let call = bare(&bucket, &bucket.options())
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/creds", agent.url()))
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "the-agents-token");
    loads(&bucket, call);
    assert_eq!(agent.seen()[0].target, "/creds");
}

#[test]
fn a_machine_asks_version_2_of_its_metadata_service() {
    let bucket = Bucket::new();
    demand_token(&bucket);
    let service = StandIn::start(|request| match (request.method.as_str(), request.target.as_str()) {
        ("PUT", "/latest/api/token") => (200, "the-metadata-token".to_owned()),
        ("GET", _) if request.header("x-aws-ec2-metadata-token") != "the-metadata-token" => (401, String::new()),
        ("GET", "/latest/meta-data/iam/security-credentials/") => (200, "the-role".to_owned()),
        ("GET", "/latest/meta-data/iam/security-credentials/the-role") => (200, json_credentials()),
        _ => (404, String::new()),
    });
    let home = bucket.workplace.path("").to_str().unwrap().to_owned();
    let call =
        bucket.call(&bucket.options(), json!({})).env("HOME", &home).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &service.url());
    loads(&bucket, call);
    assert!(
        service.seen().iter().all(|request| request.method == "PUT" || !request.header("x-aws-ec2-metadata-token").is_empty())
    );
}

#[test]
fn single_sign_on_turns_the_cached_token_into_credentials() {
    let bucket = Bucket::new();
    demand_token(&bucket);
    let portal = StandIn::start(|request| {
        let credentials = json!({"roleCredentials": {"accessKeyId": KEY_ID, "secretAccessKey": SECRET, "sessionToken": TOKEN,
            "expiration": 4_070_908_800_000_i64}});
        match request.header("x-amz-sso_bearer_token") {
            "the-cached-token" => (200, credentials.to_string()),
            _ => (401, String::new()),
        }
    });
    // Named by the SHA-1 of the session's name.
    let cached = json!({"accessToken": "the-cached-token", "expiresAt": FAR, "region": "eu-central-1", "startUrl": "https://sso.test/start"});
    bucket.workplace.write(".aws/sso/cache/2931599a987d92e6d52276330a8a59f885f09258.json", cached.to_string());
    let config = config_file(
        &bucket,
        "[profile people]\nsso_session = delta-load-test\nsso_account_id = 123456789012\nsso_role_name = Loader\n\
         [sso-session delta-load-test]\nsso_region = eu-central-1\nsso_start_url = https://sso.test/start\n\
         sso_registration_scopes = sso:account:access\n",
    );
    let call = bare(&bucket, &bucket.options())
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_PROFILE", "people")
        .env("AWS_ENDPOINT_URL_SSO", &portal.url());
    loads(&bucket, call);
    let asked = &portal.seen()[0];
    assert!(asked.target.contains("role_name=Loader") && asked.target.contains("account_id=123456789012"), "{asked:?}");
}

#[test]
fn a_process_prints_credentials() {
    let bucket = Bucket::new();
    demand_token(&bucket);
    let printed =
        json!({"Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "SessionToken": TOKEN, "Expiration": FAR});
    bucket.workplace.write("printed.json", printed.to_string());
    let printed = bucket.workplace.path("printed.json");
    let config = config_file(&bucket, &format!("[profile process]\ncredential_process = cat \"{}\"\n", printed.display()));
    let call = bare(&bucket, &bucket.options())
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_PROFILE", "process")
        .env("PATH", "/usr/bin:/bin");
    loads(&bucket, call);
}

/// A token service whose tokens are numbered; each expires after so long.
fn numbered(expires_after: Duration) -> (StandIn, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let given = Arc::clone(&count);
    let service = StandIn::start(move |_| {
        let number = given.fetch_add(1, Ordering::SeqCst) + 1;
        let expiry = chrono::Utc::now() + expires_after;
        let expiry = expiry.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        (200, credentials_of("AssumeRole", &format!("{TOKEN}-{number}"), &expiry))
    });
    (service, count)
}

/// Starts a load under a role, and feeds it a row with its STATE each 700 ms.
fn load_slowly(bucket: &Bucket, service: &StandIn, rows: std::ops::Range<i64>) -> crate::command::Ran {
    let mut options = bucket.options();
    for (name, value) in [
        ("aws_access_key_id", "AKIDBASE"),
        ("aws_secret_access_key", "hunter2hunter2"),
        ("aws_role_arn", "arn:aws:iam::1:role/loader"),
        ("aws_endpoint_url_sts", &service.url()),
    ] {
        options.insert(name.to_owned(), value.to_owned());
    }
    let settings = json!({"batch_size_rows": 1, "state_interval_seconds": 0});
    let (child, mut stdin) = bucket.call(&options, settings).env("AWS_EC2_METADATA_DISABLED", "true").feed();
    writeln!(stdin, "{SCHEMA}").unwrap();
    for n in rows {
        write!(stdin, "{}", row(n)).unwrap();
        stdin.flush().unwrap();
        std::thread::sleep(Duration::from_millis(700));
    }
    drop(stdin);
    finish(child)
}

#[test]
fn credentials_are_fetched_anew_before_they_expire_for_commits_and_data_alike() {
    let bucket = Bucket::new();
    // Four minutes before its end a token is no longer used for new requests: this one holds for some two seconds.
    let (service, count) = numbered(Duration::from_secs(243));
    let ran = load_slowly(&bucket, &service, 0..8);
    ran.expect(0);
    assert_eq!(bucket.rows(), (0..8).collect::<Vec<_>>());
    assert!(count.load(Ordering::SeqCst) >= 2, "asked once");
    let calls = bucket.server.take_calls();
    for (operation, end) in
        [(Operation::ConditionalPut, ".json"), (Operation::ConditionalPut, ".parquet"), (Operation::Head, ".json")]
    {
        let of = calls.iter().filter(|call| call.operation == operation && call.path.ends_with(end));
        let mut tokens: Vec<&str> = of.map(|call| call.header("x-amz-security-token")).collect();
        assert!(tokens.is_sorted(), "no old token after a new one: {tokens:?}");
        tokens.dedup();
        assert!(tokens.len() >= 2, "{operation:?} of {end}: {tokens:?}");
    }
}

#[test]
fn a_token_that_the_store_takes_for_expired_is_replaced_in_the_middle_of_a_load() {
    let bucket = Bucket::new();
    let (service, count) = numbered(Duration::from_secs(3600));
    let mut commits = 0;
    bucket.server.set_rule(move |call| {
        commits += usize::from(call.path.contains("/a/_delta_log/") && call.operation == Operation::ConditionalPut);
        match call.header("x-amz-security-token") == format!("{TOKEN}-1") && commits >= 3 {
            true => Fault::Answer(400, "ExpiredToken"),
            false => Fault::Pass,
        }
    });
    let ran = load_slowly(&bucket, &service, 0..5);
    ran.expect(0);
    assert_eq!(bucket.rows(), (0..5).collect::<Vec<_>>());
    assert!(count.load(Ordering::SeqCst) >= 2, "the old token was used to the end");
    assert_eq!(bucket.log().len(), 5);
}

#[test]
fn a_source_that_refuses_says_so_without_what_it_was_sent() {
    let bucket = Bucket::new();
    let service = StandIn::start(|_| {
        (403, "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>".to_owned())
    });
    let mut options = bucket.options();
    for (name, value) in [
        ("aws_access_key_id", "AKIDBASE"),
        ("aws_secret_access_key", "hunter2hunter2"),
        ("aws_role_arn", "arn:aws:iam::1:role/loader"),
        ("aws_endpoint_url_sts", &service.url()),
    ] {
        options.insert(name.to_owned(), value.to_owned());
    }
    let ran = bare(&bucket, &options).stdin(messages(0..1)).run();
    ran.expect(1).says("no AWS credentials that can be used").says("AccessDenied");
    assert!(ran.states().is_empty() && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

fn keys(bucket: &Bucket, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut options = bucket.server.storage_options();
    options.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    options
}

fn address(bucket: &Bucket) -> std::net::SocketAddr {
    bucket.server.endpoint().trim_start_matches("http://").parse().unwrap()
}

#[test]
fn a_proxy_carries_commits_and_data() {
    let bucket = Bucket::new();
    let proxy = Proxy::start(address(&bucket));
    // A name that nobody but the proxy could resolve.
    let options = keys(
        &bucket,
        &[("aws_endpoint_url", "http://s3.lake.invalid"), ("proxy_url", &format!("http://me:hunter2hunter2@{}", proxy.address))],
    );
    loads(&bucket, bare(&bucket, &options));
    let seen = proxy.seen();
    assert!(seen.iter().all(|head| head.contains("http://s3.lake.invalid/")), "{seen:?}");
    // base64 of me:hunter2hunter2
    assert!(
        seen.iter().all(|head| head.to_ascii_lowercase().contains("proxy-authorization: basic bwu6ahvudgvymmh1bnrlcji")),
        "{seen:?}"
    );
    // A proxy that is not there is said, without its password.
    let options = keys(
        &bucket,
        &[
            ("aws_endpoint_url", "http://s3.lake.invalid"),
            ("proxy_url", "http://me:hunter2hunter2@127.0.0.1:1"),
            ("max_retries", "1"),
        ],
    );
    let ran = bare(&bucket, &options).stdin(messages(3..4)).run();
    ran.expect(75);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn a_certificate_of_ones_own_is_trusted_by_the_file_that_names_its_authority() {
    let bucket = Bucket::new();
    let tls = with_tls(address(&bucket));
    let mut options = keys(&bucket, &[("aws_endpoint_url", &format!("https://{tls}")), ("max_retries", "1")]);
    options.remove("aws_allow_http");
    bucket.workplace.write("authority.pem", AUTHORITY);
    let file = bucket.workplace.path("authority.pem").to_str().unwrap().to_owned();
    // Not trusted: nothing is written.
    let ran = bare(&bucket, &options).stdin(messages(0..3)).run();
    assert!(ran.code != Some(0) && bucket.server.take_calls().is_empty(), "{}", ran.stderr);
    loads(&bucket, bare(&bucket, &options).env("AWS_CA_BUNDLE", &file));
    let ran = bare(&bucket, &options).env("AWS_CA_BUNDLE", "/no/such.pem").stdin(messages(0..1)).run();
    ran.expect(2).says("AWS_CA_BUNDLE").says("/no/such.pem");
}
