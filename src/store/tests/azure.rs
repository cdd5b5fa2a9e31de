//! What is particular to Azure: answers, credentials, the probe, uploads in blocks, and secrets that are shown nowhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::fixture::block_on;
use crate::store::azure_server::{ACCOUNT, AzureServer, CLIENT, CLIENT_SECRET, Fault, Issued, KEY, Operation, SECRET, TENANT};
use crate::store::remote::runtime;
use crate::store::{self, Options, PutAnswer, PutTry, Remote, Store, Upload, azure, put_if_absent};
use crate::{Error, ErrorKind, Result, seam};

const PATH: &str = "t/_delta_log/00000000000000000001.json";
const NEVER: &str = "2999-01-01T00:00:00Z";

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn conditional_puts(server: &AzureServer) -> usize {
    server.take_calls().iter().filter(|call| call.operation == Operation::ConditionalPut).count()
}

/// Puts once against a server whose first conditional put has this fault, and returns the answer with the conditional puts it saw.
fn put_with(fault: Fault) -> (PutTry, usize) {
    let server = AzureServer::start();
    let store = server.open_with("root", &[("timeout", "400ms")]);
    let mut faults = vec![fault].into_iter();
    server.set_rule(move |call| match call.operation {
        Operation::ConditionalPut => faults.next().unwrap_or(Fault::Pass),
        _ => Fault::Pass,
    });
    let answer = block_on(store.put_once(PATH, bytes("x")));
    (answer, conditional_puts(&server))
}

#[test]
fn only_201_says_ours_and_nothing_is_sent_twice() {
    assert!(matches!(put_with(Fault::Pass), (PutTry::Created, 1)));
    for fault in [
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::AppliedAnswer(500, "InternalError"),
        Fault::AppliedAnswer(500, "OperationTimedOut"),
        Fault::AppliedAnswer(503, "ServerBusy"),
        Fault::Answer(503, "ServerBusy"),
        Fault::AppliedAnswer(429, "TooManyRequests"),
        Fault::Answer(409, "LeaseAlreadyPresent"),
        Fault::AppliedAnswer(409, "LeaseAlreadyPresent"),
        Fault::Answer(400, "Md5Mismatch"),
        Fault::Answer(408, ""),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
    ] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Unclear(_)) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
    for fault in [
        Fault::Answer(409, "BlobAlreadyExists"),
        Fault::AppliedAnswer(409, "BlobAlreadyExists"),
        Fault::Answer(412, "ConditionNotMet"),
        Fault::Twice,
    ] {
        let (answer, puts) = put_with(fault);
        assert!(matches!(answer, PutTry::Exists) && puts == 1, "{fault:?}: {answer:?}, {puts} puts");
    }
}

#[test]
fn what_cannot_have_been_applied_is_refused_and_says_what_to_do() {
    for (status, code, words) in [
        (400, "InvalidHeaderValue", "refused to write"),
        (301, "", "refused to write"),
        (401, "NoAuthenticationInformation", "azure_storage_account_key"),
        (403, "AuthenticationFailed", "did not accept the account key"),
        (403, "AuthorizationPermissionMismatch", "Storage Blob Data Contributor"),
        (403, "AuthorizationFailure", "network rules"),
        (403, "KeyBasedAuthenticationNotPermitted", "allows no keys"),
        (404, "ContainerNotFound", "there is no container"),
        (409, "ContainerBeingDeleted", "there is no container"),
        (501, "NotImplemented", "single_writer = true"),
    ] {
        let (answer, puts) = put_with(Fault::Answer(status, code));
        let PutTry::Refused(error) = answer else { panic!("{status} {code}: {answer:?}") };
        assert_eq!((error.kind(), puts), (ErrorKind::Denied, 1), "{code}");
        assert!(error.render().contains(words) && !error.render().contains(SECRET), "{}", error.render());
    }
}

#[test]
fn answers_to_reads_and_deletions_are_typed_too() {
    let server = AzureServer::start();
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
            assert!(!error.render().contains(SECRET), "{}", error.render());
        }
    };
    server.set_rule(|_| Fault::Answer(403, "AuthorizationPermissionMismatch"));
    all(&store, "no permission to", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(403, "AuthenticationFailed"));
    all(&store, "did not accept the account key", ErrorKind::Denied);
    server.set_rule(|_| Fault::Answer(404, "ContainerNotFound"));
    all(&store, "there is no container", ErrorKind::Denied);
    let store = server.open_with("root", &[("max_retries", "2")]);
    server.set_rule(|_| Fault::Answer(503, "ServerBusy"));
    all(&store, "cannot", ErrorKind::Unavailable);
    server.set_rule(|_| Fault::DropBefore);
    all(&store, "cannot", ErrorKind::Unavailable);
}

#[test]
fn a_container_that_is_not_there_is_no_empty_table() {
    let server = AzureServer::start();
    for text in ["az://no-such-lake/x".to_owned(), format!("abfss://no-such-lake@{ACCOUNT}.dfs.core.windows.net/x")] {
        let url = store::normalise_destination(&text).unwrap();
        let store = store::open(&url, &server.options()).unwrap();
        for error in [
            block_on(store.get(PATH)).unwrap_err(),
            block_on(store.head(PATH)).unwrap_err(),
            block_on(store.list("t/", None)).unwrap_err(),
            block_on(store.put(PATH, bytes("x"))).unwrap_err(),
            block_on(store.delete(PATH)).unwrap_err(),
            block_on(store.probe()).unwrap_err(),
        ] {
            assert!(
                error.kind() == ErrorKind::Denied && error.to_string().contains("there is no container `no-such-lake`"),
                "{}",
                error.render()
            );
        }
    }
}

#[test]
fn a_key_a_signature_a_connection_string_and_a_token_all_work() {
    let server = AzureServer::start();
    let sas = server.sas("rwdlc", NEVER);
    let with_key = format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={}", server.service());
    let with_sas = format!("BlobEndpoint={};SharedAccessSignature={sas}", server.service());
    let identity = [("azure_client_id", CLIENT), ("azure_tenant_id", TENANT), ("azure_client_secret", CLIENT_SECRET)];
    let authority = server.endpoint();
    for (index, more) in [
        vec![("account_key", KEY)],
        vec![("sas_token", &sas)],
        vec![("azure_storage_connection_string", &with_key)],
        vec![("connection_string", &with_sas)],
        [&identity[..], &[("azure_authority_host", authority.as_str())]].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let store = server.open_without_key("root", &more);
        let path = format!("t/{index} é");
        assert!(matches!(block_on(store.put_once(&path, bytes("one"))), PutTry::Created), "{more:?}");
        assert!(matches!(block_on(store.put_once(&path, bytes("two"))), PutTry::Exists), "{more:?}");
        assert_eq!(block_on(store.get(&path)).unwrap(), Some(bytes("one")));
        assert_eq!(block_on(store.list("t/", None)).unwrap().len(), 1);
        block_on(store.delete(&path)).unwrap();
        assert_eq!(block_on(store.head(&path)).unwrap(), None);
    }
}

#[test]
fn a_signature_says_which_permission_it_lacks() {
    let server = AzureServer::start();
    let open = |permissions: &str| server.open_without_key("root", &[("sas_token", &server.sas(permissions, NEVER))]);
    let PutTry::Refused(error) = block_on(open("rl").put_once(PATH, bytes("x"))) else { panic!("is refused") };
    assert!(error.render().contains("permissions `c` and `w`"), "{}", error.render());
    assert!(matches!(block_on(open("c").put_once(PATH, bytes("x"))), PutTry::Created));
    for (error, words) in [
        (block_on(open("cwl").get(PATH)).unwrap_err(), "permission `r`"),
        (block_on(open("rcw").list("t/", None)).unwrap_err(), "permission `l`"),
        (block_on(open("rcwl").delete(PATH)).unwrap_err(), "permission `d`"),
    ] {
        assert!(error.kind() == ErrorKind::Denied && error.render().contains(words), "{}", error.render());
    }
}

#[test]
fn tokens_are_fetched_anew_before_they_expire_and_when_the_store_refuses_them() {
    let server = AzureServer::start();
    let authority = server.endpoint();
    let store = server.open_without_key(
        "root",
        &[
            ("azure_client_id", CLIENT),
            ("azure_tenant_id", TENANT),
            ("azure_client_secret", CLIENT_SECRET),
            ("azure_authority_host", &authority),
        ],
    );
    for number in 0..3 {
        block_on(store.put(&format!("t/{number}"), bytes("x"))).unwrap();
    }
    assert_eq!(server.issued(), [Issued::Secret], "one token for many requests");
    server.revoke_tokens();
    assert!(matches!(block_on(store.put_once("t/a", bytes("x"))), PutTry::Created));
    server.revoke_tokens();
    assert_eq!(block_on(store.get("t/a")).unwrap(), Some(bytes("x")));
    assert_eq!(server.issued().len(), 3);
    // A token of two seconds is good for one: a load longer than that goes on.
    server.let_tokens_live(2);
    server.revoke_tokens();
    let seam = seam::real();
    let end = seam.elapsed() + Duration::from_millis(3500);
    let mut number = 0;
    while seam.elapsed() < end {
        assert!(matches!(block_on(store.put_once(&format!("u/{number}"), bytes("x"))), PutTry::Created));
        assert_eq!(block_on(store.get(&format!("u/{number}"))).unwrap(), Some(bytes("x")));
        number += 1;
        let seam = seam.clone();
        runtime::wait(async move { seam.sleep(Duration::from_millis(50)).await }).unwrap();
    }
    let issued = server.issued().len();
    assert!((5..=14).contains(&issued), "{issued} tokens");
}

#[test]
fn an_identity_that_gets_no_token_is_denied_without_its_secret() {
    let server = AzureServer::start();
    let authority = server.endpoint();
    let options = [
        ("azure_client_id", CLIENT),
        ("azure_tenant_id", TENANT),
        ("azure_client_secret", "hunter2/hunter2"),
        ("azure_authority_host", &authority),
    ];
    let store = server.open_without_key("root", &options);
    let PutTry::Refused(put) = block_on(store.put_once(PATH, bytes("x"))) else { panic!("is refused") };
    for error in [put, block_on(store.get(PATH)).unwrap_err()] {
        let shown = format!("{} {error:?} {store:?}", error.render());
        assert!(error.kind() == ErrorKind::Denied && shown.contains("AADSTS7000215"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

/// Returns what a failed put and a failed read show, and the store.
fn shown(store: &Remote) -> String {
    let put = match block_on(store.put_once(PATH, bytes("x"))) {
        PutTry::Refused(error) | PutTry::Unclear(error) => error,
        answer => panic!("{answer:?}"),
    };
    let reads = [
        block_on(store.get(PATH)).unwrap_err(),
        block_on(store.list("t/", None)).unwrap_err(),
        block_on(store.delete(PATH)).unwrap_err(),
    ];
    std::iter::once(put).chain(reads).map(|error| format!("{} {error:?} {store:?}\n", error.render())).collect()
}

#[test]
fn a_key_and_a_signature_are_in_no_error_of_a_connection_or_an_answer() {
    let server = AzureServer::start();
    let sas = server.sas("rwdlc", NEVER);
    let signature = sas.rsplit_once("sig=").unwrap().1.to_owned();
    let plain = percent_encoding::percent_decode_str(&signature).decode_utf8().unwrap().into_owned();
    let token = "hunter2/hunter2+hunter2";
    // Nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!("http://{free}/{ACCOUNT}");
    for credential in [("azure_storage_account_key", KEY), ("azure_storage_sas_token", &sas), ("azure_storage_token", token)] {
        let few = [credential, ("max_retries", "1"), ("timeout", "500ms")];
        let unreachable = server.open_without_key("root", &[&few[..], &[("azure_storage_endpoint", nowhere.as_str())]].concat());
        let mut texts = vec![shown(&unreachable)];
        let store = server.open_without_key("root", &few);
        for fault in [
            Fault::Answer(403, "AuthenticationFailed"),
            Fault::Answer(500, "InternalError"),
            Fault::DropBefore,
            Fault::Stall(Duration::from_millis(900)),
        ] {
            server.set_rule(move |_| fault);
            texts.push(shown(&store));
        }
        for text in texts {
            for secret in [&signature, &plain, KEY, token, SECRET, "Bearer"] {
                assert!(!text.contains(secret), "{}: {text}", credential.0);
            }
        }
    }
}

#[test]
fn the_signature_of_a_commit_is_in_no_error_of_the_sdk() {
    // The SDK's own error of a connection holds the address whole; ours is made of it.
    let store = AzureServer::start().open_with("root", &[("timeout", "500ms")]);
    let PutTry::Unclear(error) = block_on(store.put_once(PATH, bytes("x"))) else { panic!("nobody listens any more") };
    let shown = format!("{} {error:?}", error.render());
    assert!(shown.contains("no answer came to the put"), "{shown}");
    assert!(!shown.contains("sig=") || shown.contains("sig=***"), "{shown}");
}

#[test]
fn the_text_of_a_failed_answer_is_cut_down_for_the_kernel_too() {
    let server = AzureServer::with_rule(|_| Fault::Answer(403, "AuthenticationFailed"));
    let (objects, _) = server.open("root").kernel_access("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(objects.get_opts(&"x".into(), object_store::GetOptions::default())).unwrap_err();
    assert!(error.to_string().contains("AuthenticationFailed") && !format!("{error:?}").contains(SECRET), "{error:?}");
}

#[test]
fn the_kernel_lists_from_a_name_on() {
    use futures::TryStreamExt;
    let server = AzureServer::start();
    let store = server.open("root");
    for number in 0..5 {
        block_on(store.put(&format!("t/_delta_log/{number}.json"), bytes("x"))).unwrap();
    }
    let (objects, _) = store.kernel_access("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The server, like the emulator, knows no "from": it lists all.
    let listed = objects.list_with_offset(Some(&"_delta_log".into()), &"_delta_log/2.json".into());
    let listed: Vec<_> = runtime.block_on(listed.try_collect()).unwrap();
    let names: Vec<&str> = listed.iter().map(|meta: &object_store::ObjectMeta| meta.location.as_ref()).collect();
    assert_eq!(names, ["_delta_log/3.json", "_delta_log/4.json"]);
}

#[test]
fn the_probe_refuses_a_store_that_ignores_the_condition() {
    let server = AzureServer::start();
    server.ignore_conditions();
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(
        error.render().contains("container `lake-") && error.render().contains("ignores the condition"),
        "{}",
        error.render()
    );
    let options = Options { single_writer: true, ..server.options() };
    let store = azure::open(&server.url("root"), &options).unwrap();
    block_on(store.probe()).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap(), []);
}

#[test]
fn a_501_is_said_at_once() {
    let server = AzureServer::with_rule(|call| match call.operation {
        Operation::ConditionalPut => Fault::Answer(501, "NotImplemented"),
        _ => Fault::Pass,
    });
    let error = block_on(server.open("root").probe()).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.render().contains("501"), "{}", error.render());
    assert_eq!(conditional_puts(&server), 1);
    let store = azure::open(&server.url("root"), &Options { single_writer: true, ..server.options() }).unwrap();
    block_on(store.probe()).unwrap();
    assert!(matches!(block_on(store.put_once(PATH, bytes("one"))), PutTry::Created));
    assert!(matches!(block_on(store.put_once(PATH, bytes("two"))), PutTry::Exists));
    assert_eq!(block_on(store.get(PATH)).unwrap(), Some(bytes("one")));
}

#[test]
fn the_probe_is_done_once_gets_past_lost_answers_and_needs_no_right_to_delete() {
    let server = AzureServer::start();
    let mut puts = 0;
    server.set_rule(move |call| match call.operation {
        Operation::Delete => Fault::Answer(403, "AuthorizationPermissionMismatch"),
        Operation::ConditionalPut => {
            puts += 1;
            [Fault::DropAfter, Fault::AppliedAnswer(503, "ServerBusy"), Fault::Pass][puts.min(3) - 1]
        }
        _ => Fault::Pass,
    });
    block_on(server.open("root").probe()).unwrap();
    assert!(server.take_calls().iter().any(|call| call.path.contains("/root/_delta_load/_probe/")));
    block_on(server.open("another").probe()).unwrap();
    assert_eq!(server.take_calls(), []);
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
fn a_large_file_goes_in_blocks_several_at_a_time() {
    let server = AzureServer::start();
    let store = server.open("root");
    for length in [5 << 20, (5 << 20) + 1, 23_456_789] {
        let (path, whole) = (format!("t/{length}"), long(length));
        write_long(&store, &path, &whole).unwrap().finish().unwrap();
        assert!(block_on(store.get(&path)).unwrap().unwrap() == whole, "{length}");
    }
    assert_eq!(server.open_uploads(), 0);
    let calls = server.take_calls();
    let count = |operation: Operation| calls.iter().filter(|call| call.operation == operation).count();
    assert_eq!((count(Operation::ConditionalPut), count(Operation::Multipart)), (0, (1 + 1) + (2 + 1) + (5 + 1)));
}

#[test]
fn a_large_file_that_is_given_up_leaves_no_blocks() {
    let server = AzureServer::start();
    let store = server.open("root");
    let whole = long(12 << 20);
    write_long(&store, "t/a", &whole).unwrap().abort();
    drop(write_long(&store, "t/b", &whole).unwrap());
    assert_eq!((server.open_uploads(), block_on(store.list("", None)).unwrap()), (0, vec![]));
}

#[test]
fn a_block_that_is_refused_is_a_typed_error_and_leaves_no_blocks() {
    let server = AzureServer::start();
    let store = server.open("root");
    let parts = AtomicUsize::new(0);
    server.set_rule(move |call| match call.operation {
        Operation::Multipart if parts.fetch_add(1, Ordering::Relaxed) == 2 => {
            Fault::Answer(403, "AuthorizationPermissionMismatch")
        }
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
    let server = AzureServer::start();
    let store = server.open("root");
    let requests = AtomicUsize::new(0);
    server.set_rule(move |call| match call.operation {
        // Two blocks, put together.
        Operation::Multipart if requests.fetch_add(1, Ordering::Relaxed) == 2 => Fault::DropAfter,
        _ => Fault::Pass,
    });
    let whole = long(7 << 20);
    write_long(&store, "t/a", &whole).unwrap().finish().unwrap();
    assert!(block_on(store.get("t/a")).unwrap().unwrap() == whole);
}

#[test]
fn a_listing_of_many_pages_is_whole_and_in_the_order_of_bytes() {
    let server = AzureServer::start();
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
fn stores_at_the_root_of_a_container_work() {
    let server = AzureServer::start();
    let store = server.open("");
    block_on(store.put("t/a", bytes("x"))).unwrap();
    assert_eq!(block_on(store.list("", None)).unwrap()[0].path, "t/a");
    assert_eq!(store.url().as_str(), format!("az://{}/", server.container));
    let (_, url) = store.kernel_access("").unwrap();
    assert_eq!(url.as_str(), "delta:///");
}

#[test]
fn put_if_absent_settles_every_fault() {
    for fault in [
        Fault::DropAfter,
        Fault::DropBefore,
        Fault::AppliedAnswer(409, "BlobAlreadyExists"),
        Fault::Answer(409, "BlobAlreadyExists"),
        Fault::AppliedAnswer(500, "OperationTimedOut"),
        Fault::Answer(500, "OperationTimedOut"),
        Fault::AppliedAnswer(503, "ServerBusy"),
        Fault::Stall(Duration::from_millis(900)),
        Fault::Slow(Duration::from_millis(900)),
        Fault::Twice,
    ] {
        let server = AzureServer::start();
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

#[test]
fn the_environment_names_account_and_credentials() {
    let server = AzureServer::start();
    let endpoint = server.service();
    let variables = |name: &str| match name {
        "AZURE_STORAGE_ACCOUNT" => Some(ACCOUNT.to_owned()),
        "AZURE_STORAGE_KEY" => Some(KEY.to_owned()),
        "AZURE_STORAGE_ENDPOINT" => Some(endpoint.clone()),
        _ => None,
    };
    let options = Options { storage_options: BTreeMap::new(), single_writer: false };
    let store = azure::open_with(&server.url("root"), &options, &variables, &seam::real()).unwrap();
    block_on(store.put(PATH, bytes("x"))).unwrap();
    assert!(matches!(block_on(store.put_once(PATH, bytes("x"))), PutTry::Exists));
}
