//! What only local disk has: temporary files, directories, file systems that cannot do all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::fixture::Fixture;
use crate::ErrorKind;
use crate::store::{Local, Options, PutTry, Store, normalise_destination, open};

fn root(fixture: &Fixture) -> PathBuf {
    fixture.store.url().to_file_path().unwrap()
}

/// Returns the names of all files below `folder`, hidden ones too.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in fs::read_dir(folder).into_iter().flatten() {
        let path = child.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn open_path(path: &Path) -> crate::Result<Arc<dyn Store>> {
    open(&normalise_destination(path.to_str().unwrap())?, &Options::default())
}

#[test]
fn opening_writes_nothing() {
    let fixture = Fixture::local();
    assert!(!root(&fixture).exists());
    assert_eq!(fixture.run(fixture.store.list("", None)).unwrap(), []);
    assert!(!root(&fixture).exists());
}

#[test]
fn temporary_files_are_gone_whatever_comes_out() {
    let fixture = Fixture::local();
    fixture.run(async {
        assert!(matches!(fixture.store.put_once("t/1", Bytes::from_static(b"a")).await, PutTry::Created));
        assert!(matches!(fixture.store.put_once("t/1", Bytes::from_static(b"b")).await, PutTry::Exists));
        fixture.store.put("t/2", Bytes::from_static(b"c")).await.unwrap();
        fs::create_dir_all(root(&fixture).join("t/folder/x")).unwrap();
        assert!(fixture.store.put("t/folder", Bytes::from_static(b"d")).await.is_err());
    });
    assert_eq!(files(&root(&fixture)), [root(&fixture).join("t/1"), root(&fixture).join("t/2")]);
}

#[test]
fn temporary_files_of_a_crash_are_neither_listed_nor_in_the_way() {
    let fixture = Fixture::local();
    fs::create_dir_all(root(&fixture).join("t")).unwrap();
    for count in 0..3 {
        fs::write(root(&fixture).join(format!("t/.delta-load-{}-{count}.tmp", std::process::id())), "x").unwrap();
    }
    fixture.run(async {
        assert!(matches!(fixture.store.put_once("t/1", Bytes::from_static(b"a")).await, PutTry::Created));
        let listed = fixture.store.list("t/", None).await.unwrap();
        assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["t/1"]);
    });
}

#[test]
fn a_directory_that_was_removed_is_made_again() {
    let fixture = Fixture::local();
    fixture.run(async {
        fixture.store.put("a/b/c/1", Bytes::from_static(b"a")).await.unwrap();
        fs::remove_dir_all(root(&fixture).join("a")).unwrap();
        assert!(matches!(fixture.store.put_once("a/b/c/1", Bytes::from_static(b"b")).await, PutTry::Created));
    });
    fs::remove_dir_all(root(&fixture).join("a")).unwrap();
    fixture.store.create_file("a/b/c/2").unwrap().finish().unwrap();
    assert_eq!(files(&root(&fixture)), [root(&fixture).join("a/b/c/2")]);
}

#[test]
fn checksums_of_hadoop_do_not_outlive_the_file_they_are_for() {
    let fixture = Fixture::local();
    let checksum = root(&fixture).join("t/._last_checkpoint.crc");
    fixture.run(async {
        for round in 0..3 {
            fixture.store.put("t/_last_checkpoint", Bytes::from_static(b"x")).await.unwrap();
            fs::write(&checksum, "crc").unwrap();
            match round {
                0 => fixture.store.put("t/_last_checkpoint", Bytes::from_static(b"y")).await.unwrap(),
                1 => fixture.store.delete("t/_last_checkpoint").await.unwrap(),
                _ => {
                    fs::remove_file(root(&fixture).join("t/_last_checkpoint")).unwrap();
                    assert!(matches!(fixture.store.put_once("t/_last_checkpoint", Bytes::new()).await, PutTry::Created));
                }
            }
            assert!(!checksum.exists(), "round {round}");
        }
    });
}

#[test]
fn a_file_in_the_place_of_a_directory_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    for path in ["file", "file/lake"] {
        let error = open_path(&folder.path().join(path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.render().contains("is not a directory"), "{}", error.render());
    }
    let fixture = Fixture::local();
    fixture.run(async {
        fixture.store.put("t", Bytes::from_static(b"x")).await.unwrap();
        let PutTry::Refused(error) = fixture.store.put_once("t/1", Bytes::from_static(b"x")).await else { panic!("is refused") };
        assert!(error.render().contains("a part of that path is a file"), "{}", error.render());
        assert!(fixture.store.create_file("t/1").is_err());
    });
}

#[test]
fn a_directory_without_rights_is_denied_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(folder.path().join("x"), "x").is_ok() {
        return; // root may write everywhere; an unprivileged user is tested from outside
    }
    let fixture = Fixture::memory();
    let store = open_path(&folder.path().join("lake")).unwrap();
    let error = fixture.run(store.probe()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.hint_text().is_some_and(|hint| hint.contains("write to")), "{}", error.render());
}

#[test]
fn links_to_files_are_listed_and_links_to_directories_are_not_followed() {
    let fixture = Fixture::local();
    fixture.run(async {
        fixture.store.put("t/1", Bytes::from_static(b"x")).await.unwrap();
        symlink(root(&fixture).join("t/1"), root(&fixture).join("t/2")).unwrap();
        symlink(root(&fixture), root(&fixture).join("t/round")).unwrap();
        symlink("nowhere", root(&fixture).join("t/3")).unwrap();
        let listed = fixture.store.list("", None).await.unwrap();
        assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["t/1", "t/2"]);
    });
}

#[test]
fn a_single_writer_does_without_hard_links() {
    // The rename that stands in for a link must neither overwrite nor leave a temporary file.
    let folder = tempfile::tempdir().unwrap();
    let url = normalise_destination(folder.path().to_str().unwrap()).unwrap();
    let store = Local::open(&url, &Options { single_writer: true, ..Options::default() }).unwrap();
    let fixture = Fixture::memory();
    store.lose_hard_links();
    fixture.run(async {
        store.probe().await.unwrap();
        assert!(matches!(store.put_once("1", Bytes::from_static(b"a")).await, PutTry::Created));
        assert!(matches!(store.put_once("1", Bytes::from_static(b"b")).await, PutTry::Exists));
    });
    assert_eq!(files(folder.path()), [folder.path().join("1")]);
}

#[test]
fn without_hard_links_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let url = normalise_destination(folder.path().to_str().unwrap()).unwrap();
    let store = Local::open(&url, &Options::default()).unwrap();
    store.lose_hard_links();
    let fixture = Fixture::memory();
    fixture.run(async {
        assert_eq!(store.probe().await.unwrap_err().kind(), ErrorKind::Denied);
        let PutTry::Refused(error) = store.put_once("t/1", Bytes::from_static(b"a")).await else { panic!("is refused") };
        assert!(error.render().contains("makes no hard links") && error.render().contains("single_writer"), "{}", error.render());
    });
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn the_kernel_reads_a_log_at_an_odd_place() {
    use delta_kernel::Snapshot;
    use delta_kernel_default_engine::DefaultEngineBuilder;
    use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
    let log = concat!(
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
        "\n",
        r#"{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","#,
        r#""partitionColumns":[],"configuration":{}}}"#,
        "\n"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for fixture in [Fixture::local(), Fixture::memory()] {
        for table in ["plain", "my täble/50%25 %41/a=1+#?"] {
            let commit = |number: u64| format!("{table}/_delta_log/{number:020}.json");
            fixture.run(async {
                fixture.store.put_once(&commit(0), Bytes::from_static(log.as_bytes())).await;
                for number in 1..12 {
                    fixture.store.put_once(&commit(number), Bytes::from_static(b"{\"commitInfo\":{}}\n")).await;
                }
            });
            let (objects, url) = fixture.store.kernel_access(table).unwrap();
            let _inside = runtime.enter();
            let executor = Arc::new(TokioMultiThreadExecutor::new(runtime.handle().clone()));
            let engine = DefaultEngineBuilder::new(objects).with_task_executor(executor).build();
            let snapshot = Snapshot::builder_for(url.clone()).build(&engine).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(snapshot.version(), 11, "{url}");
        }
    }
}
