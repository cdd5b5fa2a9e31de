//! Secrets are in no log, error or commit, whatever goes wrong and however much is logged.

use serde_json::json;

use crate::bucket::{Bucket, SCHEMA, row};
use crate::command::Ran;
use crate::loopback::{Proxy, StandIn};
use crate::store::s3_server::{Fault, KEY_ID, Operation, SECRET, seeded};

const BASE: &str = "BASESECRET0hunter2";
const SESSION: &str = "SESSIONTOKEN0hunter2/+=";
const IDENTITY: &str = "WEBIDENTITY0hunter2";
const PROXY: &str = "PROXYPASSWORD0hunter2";
const AGENT: &str = "AGENTTOKEN0hunter2";

/// The forms in which a secret may come out.
fn forms(secret: &str) -> Vec<String> {
    use base64::Engine;
    let encoded = percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string();
    let base64 = base64::engine::general_purpose::STANDARD.encode(secret);
    vec![secret.to_owned(), encoded, base64]
}

/// Looks for every secret in what a run printed and left behind.
fn clean(what: &str, ran: &Ran, bucket: &Bucket) {
    let proxy_header = format!("me:{PROXY}");
    let secrets = [SECRET, BASE, SESSION, IDENTITY, PROXY, AGENT, &proxy_header];
    let objects = bucket.server.backend().objects();
    for form in secrets.into_iter().flat_map(forms) {
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let at =
                text.find(&form).map(|at| &text[text[..at].rfind('\n').unwrap_or(0)..(at + form.len() + 80).min(text.len())]);
            assert!(at.is_none(), "{what}: {name} holds {form}: {at:?}");
        }
        for (key, bytes) in &objects {
            assert!(!key.contains(&form), "{what}: the name {key}");
            assert!(!bytes.windows(form.len()).any(|window| window == form.as_bytes()), "{what}: {key} holds {form}");
        }
    }
}

/// Where the keys of a run come from.
#[derive(Debug, Clone, Copy)]
enum From {
    Options,
    Role,
    Identity,
    Agent,
}

fn run(bucket: &Bucket, from: From, level: &str, more: &[(&str, &str)]) -> Ran {
    let service = StandIn::start(|request| {
        let action = if request.body.contains("WebIdentity") { "AssumeRoleWithWebIdentity" } else { "AssumeRole" };
        let body = format!(
            "<{action}Response><{action}Result><Credentials><AccessKeyId>{KEY_ID}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>\
             <SessionToken>{SESSION}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></{action}Result></{action}Response>"
        );
        (200, body)
    });
    let agent = StandIn::start(|_| {
        let given =
            json!({"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": SESSION, "Expiration": "2099-01-01T00:00:00Z"});
        (200, given.to_string())
    });
    let mut options = bucket.options();
    let mut set = |name: &str, value: &str| options.insert(name.to_owned(), value.to_owned());
    set("max_retries", "6");
    match from {
        From::Options => {
            set("aws_access_key_id", KEY_ID);
            set("aws_secret_access_key", SECRET);
            set("aws_session_token", SESSION);
        }
        From::Role => {
            set("aws_access_key_id", "AKIDBASE");
            set("aws_secret_access_key", BASE);
            set("aws_role_arn", "arn:aws:iam::1:role/loader");
            set("aws_endpoint_url_sts", &service.url());
        }
        From::Identity | From::Agent => {}
    }
    for (name, value) in more {
        set(name, value);
    }
    bucket.workplace.write("identity", IDENTITY);
    let identity = bucket.workplace.path("identity").to_str().unwrap().to_owned();
    let settings =
        json!({"batch_size_rows": 2, "state_interval_seconds": 0, "commit_timeout_seconds": 5, "clean_up_batch_files": true});
    let mut call = bucket.call(&options, settings).env("AWS_EC2_METADATA_DISABLED", "true").env("LOGLEVEL", level);
    call = match from {
        From::Identity => call
            .env("AWS_WEB_IDENTITY_TOKEN_FILE", &identity)
            .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod")
            .env("AWS_ENDPOINT_URL_STS", &service.url()),
        From::Agent => call
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/creds", agent.url()))
            .env("AWS_CONTAINER_AUTHORIZATION_TOKEN", AGENT),
        From::Options | From::Role => call,
    };
    let rows: String = (0..30).map(row).collect();
    call.stdin(format!("{SCHEMA}\n{rows}")).run()
}

#[test]
fn no_secret_comes_out_of_a_load_with_faults_at_any_log_level() {
    for (index, from) in [From::Options, From::Role, From::Identity, From::Agent].into_iter().enumerate() {
        for level in ["debug", "notset"] {
            let bucket = Bucket::new();
            // Every failed answer of the server repeats the secret key in its text.
            bucket.server.set_rule(seeded(index as u64 + 1, 20, std::time::Duration::from_millis(100)));
            let ran = run(&bucket, from, level, &[]);
            clean(&format!("{from:?} at {level}"), &ran, &bucket);
            assert!(!bucket.log().is_empty(), "{from:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn no_secret_comes_out_of_what_ends_a_load() {
    for (status, code) in [
        (403, "AccessDenied"),
        (403, "SignatureDoesNotMatch"),
        (400, "ExpiredToken"),
        (400, "InvalidToken"),
        (503, "SlowDown"),
        (301, "PermanentRedirect"),
    ] {
        for is_from_the_start in [true, false] {
            let bucket = Bucket::new();
            bucket.server.set_rule(move |call| {
                let is_commit = call.operation == Operation::ConditionalPut && call.path.contains("/a/_delta_log/");
                if is_from_the_start || is_commit { Fault::Answer(status, code) } else { Fault::Pass }
            });
            let ran = run(&bucket, From::Role, "notset", &[]);
            assert_ne!(ran.code, Some(0), "{code}: {}", ran.stderr);
            clean(&format!("{status} {code}"), &ran, &bucket);
        }
    }
}

#[test]
fn no_password_of_a_proxy_comes_out() {
    let bucket = Bucket::new();
    let server = bucket.server.endpoint().trim_start_matches("http://").parse().unwrap();
    let proxy = Proxy::start(server);
    let through = format!("http://me:{PROXY}@{}", proxy.address);
    bucket.server.set_rule(seeded(5, 20, std::time::Duration::from_millis(100)));
    let ran = run(&bucket, From::Options, "notset", &[("proxy_url", &through), ("aws_endpoint_url", "http://s3.lake.invalid")]);
    clean("a proxy", &ran, &bucket);
    assert!(!proxy.seen().is_empty());
    let nobody = format!("http://me:{PROXY}@127.0.0.1:1");
    for wrong in [nobody.as_str(), "me:PROXYPASSWORD0hunter2@nonsense", "http://me:PROXYPASSWORD0hunter2@[half"] {
        let ran = run(&bucket, From::Options, "notset", &[("proxy_url", wrong), ("aws_endpoint_url", "http://s3.lake.invalid")]);
        assert_ne!(ran.code, Some(0));
        clean(wrong, &ran, &bucket);
    }
}

#[test]
fn no_secret_of_a_wrong_config_comes_out() {
    let bucket = Bucket::new();
    let ran = run(&bucket, From::Options, "notset", &[("aws_secret_access_kee", BASE)]);
    clean("a mistyped name", &ran, &bucket);
    ran.expect(2);
    let ran = run(&bucket, From::Options, "notset", &[("aws_endpoint_url", "http://me:PROXYPASSWORD0hunter2@127.0.0.1:1")]);
    clean("a password in the endpoint", &ran, &bucket);
    ran.expect(2);
    let config = json!({"destination": format!("s3://AKID:{BASE}@bucket/x")});
    let ran = bucket.workplace.target(config).stdin("").run();
    clean("keys in the destination", &ran, &bucket);
    ran.expect(2);
    // A BATCH file by an address that holds a signature or keys.
    for entry in [
        format!("s3://AKID:{BASE}@bucket/x"),
        format!("https://host/c/x?sig={BASE}"),
        format!("s3://{}/x?X-Amz-Signature={BASE}", bucket.server.bucket),
    ] {
        let batch = json!({"type": "BATCH", "stream": "a", "encoding": {"format": "jsonl"}, "manifest": [entry]});
        let options = bucket.server.storage_options();
        let ran = bucket.call(&options, json!({})).env("LOGLEVEL", "debug").stdin(format!("{SCHEMA}\n{batch}\n")).run();
        ran.expect(1);
        clean("a BATCH file", &ran, &bucket);
    }
}
