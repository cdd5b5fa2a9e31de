//! Checks of an S3 server that answers in every wrong way, of local disk and of memory.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use super::*;
use crate::seam;
use crate::store::normalise_destination;
use crate::store::s3_server::{Call, Fault, Operation, S3Server, SECRET, seeded, seeded_reads};

/// The answer of a server that is not one of S3; it answers as long as the test runs.
fn web_server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).unwrap_or(0) > 0 {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    format!("http://{address}")
}

fn check_with(server: &S3Server, root: &str, more: &[(&str, &str)]) -> Check {
    let mut options = server.options();
    for (name, value) in more {
        match *name {
            "single_writer" => options.single_writer = true,
            name => drop(options.storage_options.insert(name.to_owned(), (*value).to_owned())),
        }
    }
    let check = check(&server.url(root), &options, &seam::real()).unwrap();
    for text in [check.render(false), check.to_json().to_string()] {
        assert!(!text.contains(SECRET), "{text}");
    }
    check
}

fn row<'a>(check: &'a Check, step: &str) -> &'a Row {
    check.rows.iter().find(|row| row.step == step).unwrap()
}

/// Returns the rows that are not good, each with its verdict.
fn odd(check: &Check) -> Vec<(&'static str, Verdict)> {
    let odd = check.rows.iter().filter(|row| row.verdict != Verdict::Good);
    odd.map(|row| (row.step, row.verdict)).collect()
}

/// Asserts that the check stopped at `step`, said `words` and gave a hint, and that nothing after it was tried.
#[track_caller]
fn assert_stopped(check: &Check, step: &str, words: &[&str]) {
    let shown = check.render(false);
    let at = check.rows.iter().position(|row| row.step == step).unwrap();
    let (before, after) = check.rows.split_at(at);
    assert!(before.iter().all(|row| row.verdict == Verdict::Good), "{shown}");
    assert_eq!(after[0].verdict, Verdict::Failed, "{shown}");
    assert!(after[0].hint.is_some() && words.iter().all(|word| shown.contains(word)), "{words:?} in\n{shown}");
    assert!(after[1..].iter().all(|row| row.verdict == Verdict::NotTried && row.text.contains(step)), "{shown}");
    assert_eq!(check.rows.len(), 12, "{shown}");
}

/// Answers operations that `is` picks with 403.
fn deny(is: impl Fn(Operation) -> bool + Send + 'static) -> impl FnMut(&Call) -> Fault + Send + 'static {
    move |call| if is(call.operation) { Fault::Answer(403, "AccessDenied") } else { Fault::Pass }
}

#[test]
fn a_good_bucket_is_good_and_nothing_is_left_in_it() {
    let server = S3Server::start();
    let check = check_with(&server, "a lake/50% é", &[]);
    assert_eq!(odd(&check), [], "{}", check.render(false));
    let steps: Vec<&str> = check.rows.iter().map(|row| row.step).collect();
    assert_eq!(
        steps,
        [
            "configuration",
            "credentials",
            "endpoint",
            "clock",
            "list",
            "put",
            "get",
            "put-if-absent",
            "atomic",
            "multipart",
            "delete",
            "table"
        ]
    );
    assert!(
        row(&check, "configuration").text.contains(&server.bucket) && row(&check, "configuration").text.contains("eu-central-1")
    );
    assert!(row(&check, "credentials").text.contains("key id `AKIDTESTTEST` from `storage_options`"));
    assert!(row(&check, "clock").text.contains("agree"), "{}", row(&check, "clock").text);
    assert!(row(&check, "multipart").text.contains("2 parts"));
    assert_eq!(check.to_json()["outcome"], "ok");
    let store = server.open("");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(crate::store::Store::list(&store, "", None)).unwrap(), []);
    assert_eq!(server.open_uploads(), 0);
    assert!(server.take_calls().iter().filter(|call| call.operation == Operation::ConditionalPut).count() >= 2 + 8 * 5);
}

#[test]
fn lost_and_late_answers_do_not_make_a_good_bucket_a_bad_one() {
    for seed in 0..4 {
        let server = S3Server::start();
        server.set_rule(seeded(seed, 20, Duration::from_millis(400)));
        let check = check_with(&server, "root", &[("timeout", "400ms")]);
        assert!(!check.has_failed(), "seed {seed}\n{}", check.render(false));
    }
    let server = S3Server::with_rule(seeded_reads(1, 30));
    assert_eq!(odd(&check_with(&server, "root", &[])), []);
}

#[test]
fn each_right_that_is_missing_is_a_row_of_its_own() {
    use Verdict::{Failed, NotTried, Warning};
    let server = S3Server::with_rule(deny(|operation| operation == Operation::List));
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("list", Failed), ("table", NotTried)], "{}", check.render(false));
    assert!(row(&check, "list").hint.as_ref().unwrap().contains("s3:ListBucket"));

    let server = S3Server::with_rule(deny(|operation| matches!(operation, Operation::Get | Operation::Head)));
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("get", Failed), ("multipart", Failed), ("table", NotTried)], "{}", check.render(false));
    assert!(row(&check, "get").hint.as_ref().unwrap().contains("s3:GetObject"));
    assert!(row(&check, "put-if-absent").text.contains("could not be read back"));
    assert_eq!(check.left_behind, [""; 0]);

    let is_put = |operation| matches!(operation, Operation::Put | Operation::ConditionalPut | Operation::Multipart);
    let server = S3Server::with_rule(deny(is_put));
    let check = check_with(&server, "root", &[]);
    let expected = [("put", Failed), ("put-if-absent", Failed), ("atomic", NotTried), ("multipart", Failed)];
    assert_eq!(odd(&check), expected, "{}", check.render(false));
    assert!(row(&check, "put").hint.as_ref().unwrap().contains("s3:PutObject"));
    assert!(row(&check, "get").text.contains("nothing could be put to read back"));

    let server = S3Server::with_rule(deny(|operation| operation == Operation::Delete));
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("delete", Warning)], "{}", check.render(false));
    let delete = row(&check, "delete");
    assert!(delete.hint.as_ref().unwrap().contains("s3:DeleteObject") && !check.has_failed());
    server.set_rule(|_| Fault::Pass);
    let store = server.open("root");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let left = runtime.block_on(crate::store::Store::list(&store, "", None)).unwrap();
    let left: Vec<String> = left.iter().map(|entry| format!("{}{}", server.url("root"), entry.path)).collect();
    assert_eq!(check.left_behind, left);
    assert!(left.len() == 8 && left.iter().all(|url| url.contains("/root/_delta_load/_probe/")), "{left:?}");
    assert!(delete.text.contains("8 objects are left behind"), "{}", delete.text);
}

#[test]
fn what_holds_for_every_request_is_told_once() {
    for (status, code, words) in [
        (301, "PermanentRedirect", ["is not in the region `eu-central-1`", "aws_region"]),
        (400, "AuthorizationHeaderMalformed", ["is not in the region `eu-central-1`", "aws_region"]),
        (400, "ExpiredToken", ["the session token has expired", "renew the credentials"]),
        (403, "InvalidAccessKeyId", ["does not know the access key id", "aws_access_key_id"]),
        (403, "RequestTimeTooSkewed", ["the clock of this machine", "NTP"]),
    ] {
        let server = S3Server::with_rule(move |_| Fault::Answer(status, code));
        assert_stopped(&check_with(&server, "root", &[]), "list", &words);
    }
    let server = S3Server::start();
    assert_stopped(
        &check_with(&server, "root", &[("aws_secret_access_key", "hunter2hunter2")]),
        "list",
        &["the secret access key is wrong"],
    );
    let url = normalise_destination("s3://no-such-lake/x").unwrap();
    let check = check(&url, &server.options(), &seam::real()).unwrap();
    assert_stopped(&check, "list", &["there is no bucket `no-such-lake`", "create the bucket"]);
}

#[test]
fn an_endpoint_that_is_none_is_told_from_a_bucket() {
    let server = S3Server::start();
    let at = |endpoint: &str| check_with(&server, "root", &[("aws_endpoint_url", endpoint)]);
    assert_stopped(&at("http://127.0.0.1:1"), "endpoint", &["no answer came from `http://127.0.0.1:1`", "aws_endpoint_url"]);
    for (answer, words) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nserver: nginx\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html></html>",
            ["is not an S3 service (status 200, text/html of `nginx`)", "aws_endpoint_url"],
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\nconnection: close\r\n\r\nnot found",
            ["is not an S3 service (status 404)", "aws_endpoint_url"],
        ),
        (
            "HTTP/1.1 301 Moved Permanently\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            ["is not an S3 service (a redirect)", "aws_endpoint_url"],
        ),
    ] {
        assert_stopped(&at(&web_server(answer)), "endpoint", &words);
    }
    // The server speaks no TLS.
    let endpoint = server.endpoint().replace("http://", "https://");
    assert_stopped(&at(&endpoint), "endpoint", &["no answer came from", "http or https"]);
}

#[test]
fn credentials_that_cannot_be_had_stop_the_check() {
    let server = S3Server::start();
    let mut options = server.options();
    for name in ["aws_access_key_id", "aws_secret_access_key"] {
        options.storage_options.remove(name);
    }
    options.storage_options.insert("aws_profile".to_owned(), "no-such-profile".to_owned());
    let check = check(&server.url("root"), &options, &seam::real()).unwrap();
    assert_stopped(&check, "credentials", &["no AWS credentials that can be used", "aws_access_key_id"]);
}

#[test]
fn a_store_that_ignores_the_condition_is_refused_unless_there_is_one_writer() {
    let server = S3Server::start();
    server.ignore_conditions();
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("put-if-absent", Verdict::Failed), ("atomic", Verdict::NotTried)], "{}", check.render(false));
    let found = row(&check, "put-if-absent");
    assert!(found.text.contains("ignores the condition") && found.hint.as_ref().unwrap().contains("single_writer = true"));
    let check = check_with(&server, "root", &[("single_writer", "")]);
    assert_eq!(odd(&check), [("put-if-absent", Verdict::Warning), ("atomic", Verdict::NotTried)], "{}", check.render(false));
    assert!(!check.has_failed());
}

#[test]
fn a_501_is_said_and_one_writer_may_go_without() {
    let server = S3Server::with_rule(|call| match call.operation {
        Operation::ConditionalPut => Fault::Answer(501, "NotImplemented"),
        _ => Fault::Pass,
    });
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("put-if-absent", Verdict::Failed), ("atomic", Verdict::NotTried)], "{}", check.render(false));
    assert!(row(&check, "put-if-absent").text.contains("501"));
    let check = check_with(&server, "root", &[("single_writer", "")]);
    assert_eq!(odd(&check), [("put-if-absent", Verdict::Warning), ("atomic", Verdict::NotTried)], "{}", check.render(false));
    assert_eq!(check.left_behind, [""; 0]);
}

#[test]
fn a_store_that_looks_first_and_writes_then_is_found_out() {
    let server = S3Server::start();
    server.look_before_put();
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("atomic", Verdict::Failed)], "{}", check.render(false));
    assert!(row(&check, "atomic").text.contains("of 8 writers were told that they created the same object"));
    assert_eq!(odd(&check_with(&server, "root", &[("single_writer", "")])), [("atomic", Verdict::Warning)]);
}

#[test]
fn clocks_that_differ_are_told() {
    // The first answer alone: the client of commits takes its time from the server's answers.
    let at_first = |seconds: i64| {
        let mut faults = vec![Fault::Ahead(seconds)].into_iter();
        move |_: &Call| faults.next().unwrap_or(Fault::Pass)
    };
    let server = S3Server::with_rule(at_first(400));
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("clock", Verdict::Warning)], "{}", check.render(false));
    assert!(row(&check, "clock").text.contains("ahead of this machine's"));
    server.set_rule(at_first(-1_000));
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("clock", Verdict::Failed)], "{}", check.render(false));
    assert!(row(&check, "clock").text.contains("behind this machine's"));
}

#[test]
fn objects_that_are_changed_or_lost_on_the_way_are_found() {
    let server = S3Server::start();
    server.set_rule(|call| match call.operation {
        Operation::Get if call.path.ends_with(".put") => Fault::Answer(404, "NoSuchKey"),
        _ => Fault::Pass,
    });
    let check = check_with(&server, "root", &[]);
    assert_eq!(odd(&check), [("get", Verdict::Failed), ("table", Verdict::NotTried)], "{}", check.render(false));
    assert!(row(&check, "get").text.contains("was written, and is not there"));
}

#[test]
fn what_was_written_before_the_credentials_ran_out_is_named() {
    let server = S3Server::start();
    server.set_rule(|call| match call.operation {
        Operation::Head | Operation::Get | Operation::Delete => Fault::Answer(400, "ExpiredToken"),
        _ => Fault::Pass,
    });
    let check = check_with(&server, "root", &[]);
    assert_eq!(row(&check, "get").verdict, Verdict::Failed, "{}", check.render(false));
    assert_eq!(row(&check, "atomic").verdict, Verdict::NotTried, "{}", check.render(false));
    assert_eq!(row(&check, "delete").verdict, Verdict::Warning, "{}", check.render(false));
    assert!(check.left_behind.len() == 1 && check.left_behind[0].ends_with(".put"), "{:?}", check.left_behind);
}

#[test]
fn wrong_options_leave_nothing_to_try() {
    let server = S3Server::start();
    let mut options = server.options();
    options.storage_options.remove("aws_allow_http");
    let error = check(&server.url("root"), &options, &seam::real()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_table_at_the_root_is_told_with_what_it_asks() {
    let server = S3Server::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let make = |root: &str, protocol: serde_json::Value| {
        let schema = json!({"type": "struct", "fields": [{"name": "day", "type": "string", "nullable": true, "metadata": {}}]})
            .to_string();
        let metadata = json!({"metaData": {"id": "i", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                              "partitionColumns": ["day"], "configuration": {}}});
        let commit = format!("{}\n{metadata}\n", json!({"protocol": protocol}));
        let path = "_delta_log/00000000000000000000.json";
        runtime.block_on(crate::store::Store::put(&server.open(root), path, commit.into())).unwrap();
    };
    make("plain", json!({"minReaderVersion": 1, "minWriterVersion": 2}));
    let check = check_with(&server, "plain", &[]);
    assert_eq!(odd(&check), [], "{}", check.render(false));
    assert!(row(&check, "table").text.contains("version 0, 1 column, partitioned by `day`"), "{}", row(&check, "table").text);
    make("odd", json!({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["telepathy"]}));
    let check = check_with(&server, "odd", &[]);
    assert_eq!(odd(&check), [("table", Verdict::Failed)], "{}", check.render(false));
    assert!(row(&check, "table").text.starts_with("version 0: ") && row(&check, "table").text.contains("`telepathy`"));
}

#[test]
fn local_disk_and_memory_are_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a lake/50%");
    let url = normalise_destination(root.to_str().unwrap()).unwrap();
    let local = check(&url, &Options::default(), &seam::real()).unwrap();
    assert_eq!(odd(&local), [], "{}", local.render(false));
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0, "not even a folder is left");
    let memory = check(&normalise_destination("memory://").unwrap(), &Options::default(), &seam::real()).unwrap();
    assert_eq!(odd(&memory), [], "{}", memory.render(false));
}
