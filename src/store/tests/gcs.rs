//! What is particular to Google Cloud Storage: answers, the probe, uploads in parts. Credentials have a file of their own.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt};

use super::fixture::block_on;
use crate::store::gcs_server::{Call, Fault, GcsServer, Operation};
use crate::store::{self, Options, PutAnswer, PutTry, Remote, Store, Upload, put_if_absent};
use crate::{Error, ErrorKind, Result, seam};

const PATH: &str = "t/_delta_log/00000000000000000001.json";

/// What every token of the tests begins with, a signed one too.
const TOKENS: [&str; 2] = ["ya29.", "eyJ"];

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn shows_no_token(text: &str) -> bool {
    TOKENS.iter().all(|token| !text.contains(token))
}

/// The fault for the first conditional put, none for what comes after.
fn first_put(fault: Fault) -> impl FnMut(&Call) -> Fault + Send + 'static {
    let mut faults = vec![fault].into_iter();
    move |call| match call.operation {
        Operation::ConditionalPut => faults.next().unwrap_or(Fault::Pass),
        _ => Fault::Pass,
    }
}

fn puts(server: &GcsServer) -> usize {
    server.take_calls().iter().filter(|call| call.operation == Operation::ConditionalPut).count()
}

/// Puts once against a server whose first conditional put has this fault, and returns the answer with the conditional puts it saw.
fn put_with(fault: Fault) -> (PutTry, usize) {
    let server = GcsServer::start();
    let store = server.open_with("root", &[("timeout", "400ms")]);
    server.set_rule(first_put(fault));
    (block_on(store.put_once(PATH, bytes("x"))), puts(&server))
}

#[test]
fn only_200_says_ours_and_nothing_is_sent_twice() {
    assert!(matches!(put_with(Fault::Pass), (PutTry::Created, 1)));
    for fault in [
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::AppliedAnswer(500, "backendError"),
        Fault::AppliedAnswer(503, "backendError"),
        Fault::Answer(503, "backendError"),
        Fault::AppliedAnswer(429, "rateLimitExceeded"),
        Fault::Answer(403, "rateLimitExceeded"),
        Fault::Answer(409, "conflict"),
        Fault::AppliedAnswer(409, "conflict"),
        Fault::Answer(400, "badDigest"),
        Fault::Answer(408, ""),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
    ] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Unclear(_)) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
    for fault in [Fault::Answer(412, "conditionNotMet"), Fault::AppliedAnswer(412, "conditionNotMet"), Fault::Twice] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Exists) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
}

#[test]
fn what_cannot_have_been_applied_is_refused_and_says_what_to_do() {
    for (status, code, words) in [
        (400, "invalid", "refused to write"),
        (403, "forbidden", "storage.objects.create"),
        (404, "notFound", "there is no bucket"),
        (405, "methodNotAllowed", "refused to write"),
        (501, "notImplemented", "single_writer = true"),
    ] {
        let (answer, puts) = put_with(Fault::Answer(status, code));
        let PutTry::Refused(error) = answer else { panic!("{status} {code}: {answer:?}") };
        assert_eq!((error.kind(), puts), (ErrorKind::Denied, 1), "{code}");
        assert!(error.render().contains(words) && shows_no_token(&error.render()), "{}", error.render());
    }
}

#[test]
fn an_object_of_any_length_is_one_request() {
    let server = GcsServer::start();
    let store = server.open("root");
    let whole = Bytes::from(long(20 << 20));
    assert!(matches!(block_on(store.put_once(PATH, whole.clone())), PutTry::Created));
    assert_eq!(server.take_calls().len(), 1);
    assert!(block_on(store.get(PATH)).unwrap() == Some(whole));
    assert!(matches!(block_on(store.put_once("t/empty", Bytes::new())), PutTry::Created));
    assert_eq!(block_on(store.get("t/empty")).unwrap(), Some(Bytes::new()));
}

#[test]
fn a_fresh_token_is_tried_once_when_the_old_one_has_expired() {
    assert!(matches!(put_with(Fault::Answer(401, "authError")), (PutTry::Created, 2)));
    let server = GcsServer::start();
    let store = server.open("root");
    server.set_rule(|_| Fault::Answer(401, "authError"));
    let PutTry::Refused(error) = block_on(store.put_once(PATH, bytes("x"))) else { panic!("is refused") };
    let read = block_on(store.get(PATH)).unwrap_err();
    for error in [error, read] {
        assert!(error.render().contains("renew the credentials") && shows_no_token(&error.render()), "{}", error.render());
    }
    assert_eq!(server.take_calls().len(), 4);
}

#[test]
fn answers_to_reads_and_deletions_are_typed_too() {
    let server = GcsServer::start();
    let store = server.open("root");
    let all = |store: &Remote, words: &str, kind: ErrorKind| {
        let mut errors: Vec<(&str, Error)> = vec![
            ("get", block_on(store.get(PATH)).unwrap_err()),
            ("list", block_on(store.list("t/", None)).unwrap_err()),
            ("put", block_on(store.put(PATH, bytes("x"))).unwrap_err()),
            ("delete", block_on(store.delete(PATH)).unwrap_err()),
            ("open", store.open_file(PATH).unwrap_err()),
        ];
        if kind == ErrorKind::Denied {
            // Where another try may go better, a file is sent for minutes.
            errors.push(("create", store.create_file(PATH).and_then(|upload| upload.finish()).unwrap_err()));
        }
        for (name, error) in errors {
            assert_eq!(error.kind(), kind, "{name}: {}", error.render());
            assert!(error.render().contains(words), "{name}: {}", error.render());
            assert!(shows_no_token(&format!("{} {error:?}", error.render())), "{error:?}");
        }
    };
    server.set_rule(|_| Fault::Answer(403, "AccessDenied"));
    all(&store, "no permission to", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(400, "InvalidArgument"));
    all(&store, "refused to", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(503, "ServiceUnavailable"));
    all(&server.open_with("root", &[("max_retries", "2")]), "cannot ", ErrorKind::Unavailable);
}

#[test]
fn a_bucket_that_is_not_there_is_no_empty_table() {
    let server = GcsServer::start();
    let url = store::normalise_destination("gcs://no-such-lake/x").unwrap();
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
fn the_text_of_a_failed_answer_is_cut_down_for_the_kernel_too() {
    let server = GcsServer::with_rule(|_| Fault::Answer(400, "InvalidArgument"));
    let (objects, _) = server.open("root").kernel_access("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(objects.get_opts(&"x".into(), object_store::GetOptions::default())).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("InvalidArgument") && text.contains("a test says so to ***") && shows_no_token(&text), "{text}");
}

#[test]
fn objects_are_neither_copied_nor_renamed() {
    let server = GcsServer::start();
    let (objects, _) = server.open("root").kernel_access("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        objects.put(&"a".into(), "x".into()).await.unwrap();
        for refused in [
            objects.copy(&"a".into(), &"b".into()).await,
            objects.copy_if_not_exists(&"a".into(), &"b".into()).await,
            objects.rename(&"a".into(), &"b".into()).await,
            objects.rename_if_not_exists(&"a".into(), &"b".into()).await,
        ] {
            assert!(matches!(refused, Err(object_store::Error::NotSupported { .. })), "{refused:?}");
        }
    });
}

#[test]
fn tls_works_with_both_crypto_providers_linked() {
    let server = GcsServer::start();
    let endpoint = server.endpoint().replace("http://", "https://");
    let store = server.open_with("root", &[("google_base_url", &endpoint), ("max_retries", "0"), ("timeout", "2s")]);
    // The server speaks no TLS: an error, and no panic about providers.
    assert_eq!(block_on(store.get(PATH)).unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(matches!(block_on(store.put_once(PATH, bytes("x"))), PutTry::Unclear(_)));
}

#[test]
fn the_probe_refuses_a_store_that_ignores_the_condition() {
    let server = GcsServer::start();
    server.ignore_conditions();
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(
        error.render().contains("ignores the condition") && error.render().contains("single_writer = true"),
        "{}",
        error.render()
    );
    let options = Options { single_writer: true, ..server.options() };
    let store = store::open(&server.url("root"), &options).unwrap();
    block_on(store.probe()).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap(), []);
}

#[test]
fn a_501_is_said_at_once() {
    let server = GcsServer::with_rule(|call| match call.operation {
        Operation::ConditionalPut => Fault::Answer(501, "notImplemented"),
        _ => Fault::Pass,
    });
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.render().contains("501"), "{}", error.render());
    assert_eq!(puts(&server), 1);
    let options = Options { single_writer: true, ..server.options() };
    let store = store::open(&server.url("root"), &options).unwrap();
    block_on(store.probe()).unwrap();
    assert!(matches!(block_on(store.put_once(PATH, bytes("one"))), PutTry::Created));
    assert!(matches!(block_on(store.put_once(PATH, bytes("two"))), PutTry::Exists));
    assert_eq!(block_on(store.get(PATH)).unwrap(), Some(bytes("one")));
}

#[test]
fn the_probe_is_done_once_and_needs_no_right_to_delete() {
    let server = GcsServer::with_rule(|call| match call.operation {
        Operation::Delete => Fault::Answer(403, "AccessDenied"),
        _ => Fault::Pass,
    });
    block_on(server.open("root").probe()).unwrap();
    let decoded = |call: &Call| percent_encoding::percent_decode_str(&call.path).decode_utf8_lossy().into_owned();
    assert!(server.take_calls().iter().any(|call| decoded(call).contains("/root/_delta_load/_probe/")));
    block_on(server.open("another").probe()).unwrap();
    assert_eq!(server.take_calls(), []);
}

#[test]
fn the_probe_gets_past_lost_answers() {
    for fault in [Fault::DropAfter, Fault::AppliedAnswer(503, "backendError"), Fault::Answer(429, ""), Fault::Twice] {
        let server = GcsServer::start();
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
    let server = GcsServer::start();
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
fn a_large_file_that_is_given_up_leaves_no_parts() {
    let server = GcsServer::start();
    let store = server.open("root");
    let whole = long(12 << 20);
    write_long(&store, "t/a", &whole).unwrap().abort();
    drop(write_long(&store, "t/b", &whole).unwrap());
    assert_eq!((server.open_uploads(), block_on(store.list("", None)).unwrap()), (0, vec![]));
}

#[test]
fn a_part_that_is_refused_is_a_typed_error_and_leaves_no_parts() {
    let server = GcsServer::start();
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
    let server = GcsServer::start();
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
    let server = GcsServer::start();
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
    let server = GcsServer::start();
    let store = server.open("");
    block_on(store.put("t/a", bytes("x"))).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap()[0].path, "t/a");
    assert_eq!(store.url().as_str(), format!("gs://{}/", server.bucket));
    let (_, url) = store.kernel_access("").unwrap();
    assert_eq!(url.as_str(), "delta:///");
}

#[test]
fn put_if_absent_settles_every_fault() {
    for fault in [
        Fault::DropAfter,
        Fault::DropBefore,
        Fault::AppliedAnswer(412, "conditionNotMet"),
        Fault::Answer(412, "conditionNotMet"),
        Fault::AppliedAnswer(503, "backendError"),
        Fault::Answer(429, ""),
        Fault::AppliedAnswer(401, "authError"),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
        Fault::Twice,
    ] {
        let server = GcsServer::start();
        let store = server.open_with("root", &[("timeout", "400ms")]);
        server.set_rule(first_put(fault));
        let seam = seam::real();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let put = put_if_absent(&store, PATH, bytes("ours"), seam.elapsed() + Duration::from_secs(30), &seam);
        assert!(matches!(runtime.block_on(put), Ok(PutAnswer::Mine)), "{fault:?}");
        assert_eq!(block_on(store.get(PATH)).unwrap(), Some(bytes("ours")));
    }
}
