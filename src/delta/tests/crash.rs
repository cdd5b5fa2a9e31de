//! Crash points: a process that dies, or fails, before or after each stage leaves a table that reads right and goes on.

use std::process::Command;

use super::*;

const FOLDER: &str = "DELTA_LOAD_TEST_FOLDER";

/// What the other process does: versions 0 to 2 with a checkpoint due at 2. Nothing without the variable.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = local(std::path::Path::new(&folder));
    let mut table = open(&store, "t").await;
    for number in 0..=2 {
        let mut one = append(&format!("f{number}"), &a_long());
        one.new_table.properties.insert("delta.checkpointInterval".to_owned(), "2".to_owned());
        match table.append(one, TIMEOUT).await {
            Ok(Outcome::Committed { .. }) => {}
            Ok(Outcome::Unknown { .. } | Outcome::DoneBefore { .. }) | Err(_) => return,
        }
        for warning in table.after_commit().await {
            println!("warning: {warning}");
        }
    }
    println!("done");
}

/// Runs the child with a fail point; returns what it printed.
fn run(folder: &std::path::Path, fail_point: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().expect("is known"))
        .args(["--exact", "delta::tests::crash::child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env("DELTA_LOAD_FAIL_POINT", fail_point)
        .output()
        .expect("runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_leaves_a_table_that_goes_on() {
    for (point, committed) in [
        ("commit:before_put=kill@3", 2),
        ("store:before_put=kill@3", 2),
        ("store:after_put=kill@3", 3),
        ("commit:after_put=kill@3", 3),
        ("checkpoint:before=kill", 3),
        ("checkpoint:before_rename=kill", 3),
        ("checkpoint:after=kill", 3),
        ("hint:before=kill", 3),
        ("hint:after=kill", 3),
        ("crc:before=kill", 3),
        ("crc:after=kill", 3),
    ] {
        let directory = tempfile::tempdir().expect("is made");
        let (is_success, text) = run(directory.path(), point);
        assert!(!is_success && !text.contains("done"), "{point}: {text}");
        goes_on(&local(directory.path()), committed, point).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_after_the_commit_is_a_warning() {
    for (point, what) in [
        ("checkpoint:before=error", "checkpoint of"),
        ("checkpoint:before_rename=error", "checkpoint of"),
        ("checkpoint:after=error", "checkpoint of"),
        ("hint:before=error", "_last_checkpoint of"),
        ("hint:after=error", "_last_checkpoint of"),
        ("crc:before=error", ".crc of"),
        ("crc:after=error", ".crc of"),
    ] {
        let directory = tempfile::tempdir().expect("is made");
        let (is_success, text) = run(directory.path(), point);
        assert!(is_success && text.contains("done"), "{point}: {text}");
        assert!(text.contains(&format!("warning: {what} version 2")), "{point}: {text}");
        let store = local(directory.path());
        let leftover = log_files(&store, "t").await.into_iter().find(|(path, _)| path.ends_with(".tmp"));
        assert!(leftover.is_none(), "{point}: {leftover:?}");
        goes_on(&store, 3, point).await;
    }
}

/// The table holds the first `committed` files, takes two commits more, and gets its checkpoint.
async fn goes_on(store: &Arc<dyn Store>, committed: u64, point: &str) {
    let mut expected: BTreeSet<String> = (0..committed).map(|number| format!("f{number}")).collect();
    assert_eq!(kernel_files(store, "t").await, expected, "{point}");
    let mut table = open(store, "t").await;
    for number in 0..2 {
        let path = format!("again{number}");
        commit(&mut table, append(&path, &a_long())).await;
        expected.insert(path);
        assert_eq!(table.after_commit().await, Vec::<String>::new(), "{point}");
    }
    assert_eq!(kernel_files(store, "t").await, expected, "{point}");
    let last = if committed == 2 { 2 } else { 4 };
    let hint = store.get("t/_delta_log/_last_checkpoint").await.expect("is read").expect("is there");
    let hint: Value = serde_json::from_slice(&hint).expect("is JSON");
    assert_eq!(hint["version"], last, "{point}");
    assert!(store.head(&log_name::checksum("t", last)).await.expect("is read").is_some(), "{point}");
}
