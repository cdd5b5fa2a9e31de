//! What every store does with objects.

use std::io::{Read, Write};

use bytes::Bytes;

use super::fixture::Fixture;
use crate::ErrorKind;
use crate::store::{PutTry, Source};

super::for_every_store!(
    a_second_create_meets_the_first,
    what_is_put_is_read_and_replaced,
    odd_names_stay_what_they_are,
    a_listing_is_sorted_and_begins_after_a_path,
    deleting_twice_is_fine,
    an_upload_is_there_once_it_is_finished,
    an_upload_never_overwrites,
    an_upload_that_is_given_up_leaves_nothing,
    paths_that_lead_elsewhere_are_refused,
    a_probe_leaves_nothing_behind,
    the_root_ends_with_a_slash,
);

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn a_second_create_meets_the_first(fixture: &Fixture) {
    fixture.run(async {
        assert!(matches!(fixture.store.put_once("t/1.json", bytes("one")).await, PutTry::Created));
        assert!(matches!(fixture.store.put_once("t/1.json", bytes("two")).await, PutTry::Exists));
    });
    assert_eq!(fixture.get("t/1.json"), Some(bytes("one")));
}

fn what_is_put_is_read_and_replaced(fixture: &Fixture) {
    fixture.run(async {
        let store = &fixture.store;
        assert_eq!(store.get("a/b").await.unwrap(), None);
        assert_eq!(store.head("a/b").await.unwrap(), None);
        store.put("a/b", bytes("one")).await.unwrap();
        store.put("a/b", bytes("three")).await.unwrap();
        assert_eq!(store.get("a/b").await.unwrap(), Some(bytes("three")));
        let entry = store.head("a/b").await.unwrap().unwrap();
        assert_eq!((entry.path.as_str(), entry.size), ("a/b", 5));
        assert!(entry.modified_ms > 1_600_000_000_000, "{entry:?}");
        store.make_durable("a/b").await.unwrap();
        assert_eq!(store.list("", None).await.unwrap(), [entry]);
    });
}

fn odd_names_stay_what_they_are(fixture: &Fixture) {
    let names = ["my table/é=x%2Fy/a b.json", "50%/%41/~3a", "a=1/b=__HIVE_DEFAULT_PARTITION__/x+y&z", "日本/🦀#?;:,'\"\\<>|*"];
    fixture.run(async {
        for name in names {
            assert!(matches!(fixture.store.put_once(name, bytes("x")).await, PutTry::Created), "{name}");
            assert_eq!(fixture.store.get(name).await.unwrap(), Some(bytes("x")), "{name}");
        }
        let listed = fixture.store.list("", None).await.unwrap();
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), sorted);
    });
}

fn a_listing_is_sorted_and_begins_after_a_path(fixture: &Fixture) {
    fixture.run(async {
        let store = &fixture.store;
        for name in ["t/_log/2", "t/_log/1", "t/_log/10", "t/_log/sub/x", "t/_log2/1", "t/other", "u"] {
            store.put(name, bytes("x")).await.unwrap();
        }
        let paths = async |prefix: &str, after: Option<&str>| {
            let entries = store.list(prefix, after).await.unwrap();
            entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
        };
        assert_eq!(paths("t/_log/", None).await, ["t/_log/1", "t/_log/10", "t/_log/2", "t/_log/sub/x"]);
        assert_eq!(paths("t/_log/", Some("t/_log/10")).await, ["t/_log/2", "t/_log/sub/x"]);
        assert_eq!(paths("t/_log/1", None).await, ["t/_log/1", "t/_log/10"]);
        assert_eq!(paths("t/_log", Some("t/_log/z")).await, ["t/_log2/1"]);
        assert_eq!(paths("nowhere/", None).await, [""; 0]);
        assert_eq!(paths("", Some("t/other")).await, ["u"]);
    });
}

fn deleting_twice_is_fine(fixture: &Fixture) {
    fixture.run(async {
        fixture.store.put("a/b", bytes("x")).await.unwrap();
        fixture.store.delete("a/b").await.unwrap();
        fixture.store.delete("a/b").await.unwrap();
        fixture.store.delete("never/there").await.unwrap();
        assert_eq!(fixture.store.get("a/b").await.unwrap(), None);
    });
}

fn an_upload_is_there_once_it_is_finished(fixture: &Fixture) {
    let mut upload = fixture.store.create_file("t/p=a b/part-1.parquet").unwrap();
    upload.write_all(b"some ").unwrap();
    upload.write_all(b"bytes").unwrap();
    upload.finish().unwrap();
    assert_eq!(fixture.get("t/p=a b/part-1.parquet"), Some(bytes("some bytes")));
    let mut text = String::new();
    match fixture.store.open_file("t/p=a b/part-1.parquet").unwrap() {
        Source::File(mut file) => file.read_to_string(&mut text).map(drop).unwrap(),
        Source::Bytes(bytes) => text = String::from_utf8(bytes.to_vec()).unwrap(),
    }
    assert_eq!(text, "some bytes");
    assert!(fixture.store.open_file("t/absent").is_err());
}

fn an_upload_never_overwrites(fixture: &Fixture) {
    fixture.run(fixture.store.put("t/a", bytes("old"))).unwrap();
    let error = fixture.store.create_file("t/a").and_then(|upload| upload.finish()).expect_err("is refused");
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(fixture.get("t/a"), Some(bytes("old")));
}

fn an_upload_that_is_given_up_leaves_nothing(fixture: &Fixture) {
    let mut upload = fixture.store.create_file("t/a").unwrap();
    upload.write_all(b"x").unwrap();
    upload.abort();
    let mut upload = fixture.store.create_file("t/b").unwrap();
    upload.write_all(b"x").unwrap();
    drop(upload);
    assert_eq!(fixture.run(fixture.store.list("", None)).unwrap(), []);
}

fn paths_that_lead_elsewhere_are_refused(fixture: &Fixture) {
    fixture.run(async {
        for path in ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\0b"] {
            assert!(matches!(fixture.store.put_once(path, bytes("x")).await, PutTry::Refused(_)), "{path}");
            assert_eq!(fixture.store.get(path).await.unwrap_err().kind(), ErrorKind::Internal, "{path}");
            assert!(fixture.store.put(path, bytes("x")).await.is_err(), "{path}");
            assert!(fixture.store.delete(path).await.is_err(), "{path}");
            assert!(fixture.store.create_file(path).is_err(), "{path}");
        }
    });
}

fn a_probe_leaves_nothing_behind(fixture: &Fixture) {
    fixture.run(fixture.store.probe()).unwrap();
    fixture.run(fixture.store.probe()).unwrap();
    assert_eq!(fixture.run(fixture.store.list("", None)).unwrap(), []);
}

fn the_root_ends_with_a_slash(fixture: &Fixture) {
    assert!(fixture.store.url().path().ends_with('/'));
    let (_, url) = fixture.store.kernel_access("my table").unwrap();
    assert!(url.path().ends_with('/'), "{url}");
}
