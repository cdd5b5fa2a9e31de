//! What is particular to S3: answers, credentials, the probe, uploads in parts, and writers over a network that loses answers.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::fixture::block_on;
use crate::store::s3_server::{Fault, Operation, S3Server, SECRET};
use crate::store::{self, PutAnswer, PutTry, Remote, Store, Upload, put_if_absent, s3};
use crate::{Error, ErrorKind, Result, seam};

const PATH: &str = "t/_delta_log/00000000000000000001.json";

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Puts once against a server whose first conditional put has this fault, and returns the answer with the conditional puts it saw.
fn put_with(fault: Fault) -> (PutTry, usize) {
    let server = S3Server::start();
    let store = server.open_with("root", &[("timeout", "400ms")]);
    let mut faults = vec![fault].into_iter();
    server.set_rule(move |call| match call.operation {
        Operation::ConditionalPut => faults.next().unwrap_or(Fault::Pass),
        _ => Fault::Pass,
    });
    let answer = block_on(store.put_once(PATH, bytes("x")));
    let puts = server.take_calls().iter().filter(|call| call.operation == Operation::ConditionalPut).count();
    (answer, puts)
}

#[test]
fn only_200_says_ours_and_nothing_is_sent_twice() {
    assert!(matches!(put_with(Fault::Pass), (PutTry::Created, 1)));
    for fault in [
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::AppliedAnswer(500, "InternalError"),
        Fault::AppliedAnswer(503, "SlowDown"),
        Fault::Answer(503, "SlowDown"),
        Fault::AppliedAnswer(429, "TooManyRequests"),
        Fault::Answer(409, "ConditionalRequestConflict"),
        Fault::AppliedAnswer(409, "ConditionalRequestConflict"),
        Fault::Answer(400, "RequestTimeout"),
        Fault::Answer(408, ""),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
    ] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Unclear(_)) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
    for fault in [Fault::Answer(412, "PreconditionFailed"), Fault::AppliedAnswer(412, "PreconditionFailed"), Fault::Twice] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Exists) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
}

#[test]
fn what_cannot_have_been_applied_is_refused_and_says_what_to_do() {
    for (status, code, words) in [
        (400, "AuthorizationHeaderMalformed", "aws_region"),
        (301, "PermanentRedirect", "aws_region"),
        (401, "Unauthorized", "no permission to write"),
        (403, "AccessDenied", "s3:PutObject"),
        (403, "InvalidAccessKeyId", "aws_access_key_id"),
        (403, "RequestTimeTooSkewed", "clock"),
        (404, "NoSuchBucket", "there is no bucket"),
        (501, "NotImplemented", "single_writer = true"),
    ] {
        let (answer, puts) = put_with(Fault::Answer(status, code));
        let PutTry::Refused(error) = answer else { panic!("{status} {code}: {answer:?}") };
        assert_eq!((error.kind(), puts), (ErrorKind::Denied, 1), "{code}");
        assert!(error.render().contains(words) && !error.render().contains(SECRET), "{}", error.render());
    }
}

#[test]
fn fresh_credentials_are_tried_once_when_the_old_ones_have_expired() {
    assert!(matches!(put_with(Fault::Answer(400, "ExpiredToken")), (PutTry::Created, 2)));
    let server = S3Server::start();
    let store = server.open("root");
    block_on(store.put(PATH, bytes("x"))).unwrap();
    server.take_calls();
    server.set_rule(|_| Fault::Answer(400, "ExpiredToken"));
    let PutTry::Refused(error) = block_on(store.put_once(PATH, bytes("x"))) else { panic!("is refused") };
    let read = block_on(store.get(PATH)).unwrap_err();
    for error in [error, read] {
        assert!(error.render().contains("renew the credentials") && !error.render().contains(SECRET), "{}", error.render());
    }
    assert_eq!(server.take_calls().len(), 4);
}

#[test]
fn answers_to_reads_and_deletions_are_typed_too() {
    let server = S3Server::start();
    let store = server.open("root");
    let all = |words: &str, kind: ErrorKind| {
        let errors: [(&str, Error); 6] = [
            ("get", block_on(store.get(PATH)).unwrap_err()),
            ("list", block_on(store.list("t/", None)).unwrap_err()),
            ("put", block_on(store.put(PATH, bytes("x"))).unwrap_err()),
            ("delete", block_on(store.delete(PATH)).unwrap_err()),
            ("create", store.create_file(PATH).and_then(|upload| upload.finish()).unwrap_err()),
            ("open", store.open_file(PATH).unwrap_err()),
        ];
        for (name, error) in errors {
            assert_eq!(error.kind(), kind, "{name}: {}", error.render());
            assert!(error.render().contains(words), "{name}: {}", error.render());
            assert!(!error.render().contains(SECRET), "{}", error.render());
        }
    };
    server.set_rule(|_| Fault::Answer(403, "AccessDenied"));
    all("no permission to", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(403, "RequestTimeTooSkewed"));
    all("clock", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(301, "PermanentRedirect"));
    all("is not in the region `eu-central-1`", ErrorKind::Denied);
    let store = server.open_with("root", &[("max_retries", "2")]);
    server.set_rule(|_| Fault::Answer(503, "SlowDown"));
    assert_eq!(block_on(store.get(PATH)).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(block_on(store.list("t/", None)).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_bucket_that_is_not_there_is_no_empty_table() {
    let server = S3Server::start();
    let url = store::normalise_destination("s3a://no-such-lake/x").unwrap();
    let store = store::open(&url, &server.options()).unwrap();
    for error in [
        block_on(store.get(PATH)).unwrap_err(),
        block_on(store.list("t/", None)).unwrap_err(),
        block_on(store.put(PATH, bytes("x"))).unwrap_err(),
        block_on(store.probe()).unwrap_err(),
    ] {
        assert!(
            error.kind() == ErrorKind::Denied && error.to_string().contains("there is no bucket `no-such-lake`"),
            "{}",
            error.render()
        );
    }
}

#[test]
fn a_wrong_key_is_named_and_no_secret_is_shown() {
    let server = S3Server::start();
    let store = server.open_with("root", &[("aws_secret_access_key", "hunter2hunter2"), ("aws_session_token", "hunter3hunter3")]);
    let PutTry::Refused(put) = block_on(store.put_once(PATH, bytes("x"))) else { panic!("is refused") };
    let get = block_on(store.get(PATH)).unwrap_err();
    for error in [put, get] {
        assert!(error.render().contains("the secret access key is wrong"), "{}", error.render());
        assert!(!format!("{} {error:?} {store:?}", error.render()).contains("hunter"), "{error:?}");
    }
}

#[test]
fn the_text_of_a_failed_answer_is_cut_down_for_the_kernel_too() {
    let server = S3Server::with_rule(|_| Fault::Answer(400, "ExpiredToken"));
    let (objects, _) = server.open("root").kernel_access("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(objects.get_opts(&"x".into(), object_store::GetOptions::default())).unwrap_err();
    assert!(error.to_string().contains("ExpiredToken") && !format!("{error:?}").contains(SECRET), "{error:?}");
}

#[test]
fn tls_works_with_both_crypto_providers_linked() {
    let server = S3Server::start();
    let endpoint = server.endpoint().replace("http://", "https://");
    let store = server.open_with("root", &[("aws_endpoint_url", &endpoint), ("max_retries", "0"), ("timeout", "2s")]);
    // The server speaks no TLS: an error, and no panic about providers.
    assert_eq!(block_on(store.get(PATH)).unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(matches!(block_on(store.put_once(PATH, bytes("x"))), PutTry::Unclear(_)));
}

#[test]
fn the_probe_refuses_a_store_that_ignores_the_condition() {
    let server = S3Server::start();
    server.ignore_conditions();
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(
        error.render().contains("ignores the condition") && error.render().contains("single_writer = true"),
        "{}",
        error.render()
    );
    let mut options = server.options();
    options.single_writer = true;
    let store = s3::open(&server.url("root"), &options).unwrap();
    block_on(store.probe()).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap(), []);
}

#[test]
fn a_501_is_said_at_once() {
    let answer_501 = |call: &store::s3_server::Call| match call.operation {
        Operation::ConditionalPut => Fault::Answer(501, "NotImplemented"),
        _ => Fault::Pass,
    };
    let server = S3Server::with_rule(answer_501);
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.render().contains("501"), "{}", error.render());
    let puts = server.take_calls().iter().filter(|call| call.operation == Operation::ConditionalPut).count();
    assert_eq!(puts, 1);
    let mut options = server.options();
    options.single_writer = true;
    let store = s3::open(&server.url("root"), &options).unwrap();
    block_on(store.probe()).unwrap();
    assert!(matches!(block_on(store.put_once(PATH, bytes("one"))), PutTry::Created));
    assert!(matches!(block_on(store.put_once(PATH, bytes("two"))), PutTry::Exists));
    assert_eq!(block_on(store.get(PATH)).unwrap(), Some(bytes("one")));
}

#[test]
fn the_probe_is_done_once_and_needs_no_right_to_delete() {
    let server = S3Server::with_rule(|call| match call.operation {
        Operation::Delete => Fault::Answer(403, "AccessDenied"),
        _ => Fault::Pass,
    });
    block_on(server.open("root").probe()).unwrap();
    assert!(server.take_calls().iter().any(|call| call.path.contains("/root/_delta_load/_probe/")));
    block_on(server.open("another").probe()).unwrap();
    assert_eq!(server.take_calls(), []);
}

#[test]
fn the_probe_gets_past_lost_answers() {
    for fault in [Fault::DropAfter, Fault::AppliedAnswer(503, "SlowDown"), Fault::Answer(409, ""), Fault::Twice] {
        let server = S3Server::start();
        let mut count = 0;
        server.set_rule(move |call| {
            count += usize::from(call.operation == Operation::ConditionalPut);
            if call.operation == Operation::ConditionalPut && count <= 2 { fault } else { Fault::Pass }
        });
        block_on(server.open("root").probe()).unwrap();
    }
}

/// Bytes that differ from place to place.
fn long(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ (index >> 11)) as u8).collect()
}

fn write_long(store: &Remote, path: &str, whole: &[u8]) -> Result<Box<dyn Upload>> {
    let mut upload = store.create_file(path)?;
    for piece in whole.chunks(1_000_003) {
        upload.write_all(piece).map_err(|error| store::write_failure(&error).expect("is typed"))?;
    }
    Ok(upload)
}

#[test]
fn a_large_file_goes_in_parts_several_at_a_time() {
    let server = S3Server::start();
    let store = server.open("root");
    for length in [5 << 20, (5 << 20) + 1, 23_456_789] {
        let (path, whole) = (format!("t/{length}"), long(length));
        write_long(&store, &path, &whole).unwrap().finish().unwrap();
        assert!(block_on(store.get(&path)).unwrap().unwrap() == whole, "{length}");
    }
    assert_eq!(server.open_uploads(), 0);
    let calls = server.take_calls();
    assert_eq!(calls.iter().filter(|call| call.operation == Operation::ConditionalPut).count(), 0);
    assert_eq!(calls.iter().filter(|call| call.operation == Operation::Multipart).count(), (2 + 1) + (2 + 2) + (2 + 5));
}

#[test]
fn a_small_file_costs_one_request_and_no_file_overwrites() {
    let server = S3Server::start();
    let store = server.open("root");
    write_long(&store, "t/a", b"small").unwrap().finish().unwrap();
    assert_eq!(server.take_calls().iter().map(|call| call.operation).collect::<Vec<_>>(), [Operation::ConditionalPut]);
    for whole in [long(10), long(12 << 20)] {
        let error = write_long(&store, "t/a", &whole).and_then(Upload::finish).unwrap_err();
        assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("exists already"), "{}", error.render());
    }
    assert_eq!((server.open_uploads(), block_on(store.get("t/a")).unwrap()), (0, Some(bytes("small"))));
}

#[test]
fn a_large_file_that_is_given_up_leaves_no_parts() {
    let server = S3Server::start();
    let store = server.open("root");
    let whole = long(12 << 20);
    write_long(&store, "t/a", &whole).unwrap().abort();
    drop(write_long(&store, "t/b", &whole).unwrap());
    assert_eq!((server.open_uploads(), block_on(store.list("", None)).unwrap()), (0, vec![]));
}

#[test]
fn a_part_that_is_refused_is_a_typed_error_and_leaves_no_parts() {
    let server = S3Server::start();
    let store = server.open("root");
    let parts = AtomicUsize::new(0);
    server.set_rule(move |call| match call.operation {
        Operation::Multipart if parts.fetch_add(1, Ordering::Relaxed) == 2 => Fault::Answer(403, "AccessDenied"),
        _ => Fault::Pass,
    });
    let error = write_long(&store, "t/a", &long(40 << 20)).and_then(Upload::finish).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Denied && error.to_string().contains("no permission to write `t/a`"),
        "{}",
        error.render()
    );
    assert_eq!((server.open_uploads(), block_on(store.list("", None)).unwrap()), (0, vec![]));
}

#[test]
fn a_completion_whose_answer_is_lost_has_happened() {
    let server = S3Server::start();
    let store = server.open("root");
    let requests = AtomicUsize::new(0);
    server.set_rule(move |call| match call.operation {
        // Begun, two parts, completed.
        Operation::Multipart if requests.fetch_add(1, Ordering::Relaxed) == 3 => Fault::DropAfter,
        _ => Fault::Pass,
    });
    let whole = long(7 << 20);
    write_long(&store, "t/a", &whole).unwrap().finish().unwrap();
    assert!(block_on(store.get("t/a")).unwrap().unwrap() == whole);
}

#[test]
fn a_listing_of_many_pages_is_whole_and_in_the_order_of_bytes() {
    let server = S3Server::start();
    let store = server.open("root");
    let mut names: Vec<String> = (0..120).map(|number| format!("t/{number:03}{}", ["", "/x", "-y"][number % 3])).collect();
    for name in &names {
        block_on(store.put(name, bytes("x"))).unwrap();
    }
    names.sort_unstable();
    let listed =
        |after: Option<&str>| block_on(store.list("t/", after)).unwrap().into_iter().map(|entry| entry.path).collect::<Vec<_>>();
    assert_eq!(listed(None), names);
    assert_eq!(listed(Some(&names[57])), names[58..]);
}

#[test]
fn stores_at_the_root_of_a_bucket_work() {
    let server = S3Server::start();
    let store = server.open("");
    block_on(store.put("t/a", bytes("x"))).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap()[0].path, "t/a");
    assert_eq!(store.url().as_str(), format!("s3://{}/", server.bucket));
    let (_, url) = store.kernel_access("").unwrap();
    assert_eq!(url.as_str(), "delta:///");
}

#[test]
fn put_if_absent_settles_every_fault() {
    for fault in [
        Fault::DropAfter,
        Fault::DropBefore,
        Fault::AppliedAnswer(412, "PreconditionFailed"),
        Fault::Answer(412, "PreconditionFailed"),
        Fault::AppliedAnswer(409, ""),
        Fault::Answer(409, ""),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
        Fault::Twice,
    ] {
        let server = S3Server::start();
        let store = server.open_with("root", &[("timeout", "400ms")]);
        let mut faults = vec![fault].into_iter();
        server.set_rule(move |call| match call.operation {
            Operation::ConditionalPut => faults.next().unwrap_or(Fault::Pass),
            _ => Fault::Pass,
        });
        let seam = seam::real();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let put = put_if_absent(&store, PATH, bytes("ours"), seam.elapsed() + Duration::from_secs(30), &seam);
        assert!(matches!(runtime.block_on(put), Ok(PutAnswer::Mine)), "{fault:?}");
        assert_eq!(block_on(store.get(PATH)).unwrap(), Some(bytes("ours")));
    }
}
