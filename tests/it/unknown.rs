//! A store that falls silent in the middle of a commit: what the target says, keeps and lets out, and how the next run goes on.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::bucket::{Bucket, SCHEMA, row};
use crate::command::{Ran, finish};
use crate::store::s3_server::{Fault, Operation};

/// Loads rows 0 and 1, each with its STATE and commit; from the put of version 1 on the bucket gives no answer, though that put lands if
/// `has_landed`.
fn fall_silent(bucket: &Bucket, has_landed: bool) -> Ran {
    let mut is_silent = false;
    bucket.server.set_rule(move |call| {
        let is_commit =
            call.operation == Operation::ConditionalPut && call.path.ends_with("/a/_delta_log/00000000000000000001.json");
        let is_first = is_commit && !is_silent;
        is_silent |= is_commit;
        match (is_silent, has_landed) {
            (false, _) => Fault::Pass,
            (true, true) if is_first => Fault::DropAfter,
            (true, true) => Fault::DropBefore,
            (true, false) => Fault::Answer(503, "SlowDown"),
        }
    });
    let mut options = bucket.server.storage_options();
    options.extend([("timeout", "300ms"), ("max_retries", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    let settings = json!({"batch_size_rows": 1, "state_interval_seconds": 0, "commit_timeout_seconds": 2});
    let (child, mut stdin) = bucket.call(&options, settings).feed();
    write!(stdin, "{SCHEMA}\n{}", row(0)).unwrap();
    stdin.flush().unwrap();
    let start = std::time::Instant::now();
    while bucket.log().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "version 0 did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A load that fails stops reading.
    drop(write!(stdin, "{}", row(1)));
    drop(stdin);
    finish(child)
}

/// Returns the `txnId` that stands in a message.
fn txn_id(text: &str) -> &str {
    let (_, rest) = text.split_once("txnId ").unwrap_or_else(|| panic!("no txnId in:\n{text}"));
    rest.get(..36).unwrap()
}

#[test]
fn a_commit_of_which_nobody_knows_is_said_and_nothing_of_it_is_taken_back() {
    for has_landed in [true, false] {
        let bucket = Bucket::new();
        let ran = fall_silent(&bucket, has_landed);
        // In append mode the tap's repeat would double the stretch if it landed: a person has to look.
        ran.expect(1);
        assert_eq!(ran.states(), [r#"{"at":0}"#], "no STATE of the unknown commit");
        let url = format!("s3://{}/lake/a", bucket.server.bucket);
        ran.says(&url).says("version 1").says("it is not known whether").says("compare the txnId").says("data files are kept");
        ran.says("a second time");
        assert_eq!(bucket.data_files().len(), 2, "the data files stay, landed or not");
        let log = bucket.log();
        assert_eq!(log.len(), if has_landed { 2 } else { 1 });
        if has_landed {
            assert_eq!(log[1].1[0]["commitInfo"]["txnId"], txn_id(&ran.stderr), "the message names the id that is in the log");
        }

        // The store answers again; the tap sends again what lies behind the last STATE that was out.
        bucket.server.set_rule(|_| Fault::Pass);
        let again = bucket
            .call(&bucket.server.storage_options(), json!({"state_interval_seconds": 0}))
            .stdin(format!("{SCHEMA}\n{}{}", row(1), row(2)))
            .run();
        again.expect(0);
        assert_eq!(again.states().last(), Some(&r#"{"at":2}"#));
        let (rows, versions): (Vec<i64>, Vec<u64>) = (bucket.rows(), bucket.log().iter().map(|(version, _)| *version).collect());
        match has_landed {
            true => assert_eq!((rows, versions), (vec![0, 1, 1, 2], vec![0, 1, 2]), "as the message said"),
            false => assert_eq!((rows, versions), (vec![0, 1, 2], vec![0, 1])),
        }
    }
}

#[test]
fn a_store_that_is_silent_before_the_first_put_may_be_asked_again() {
    let bucket = Bucket::new();
    let ran = bucket.call(&bucket.server.storage_options(), json!({})).stdin(format!("{SCHEMA}\n{}", row(0))).run();
    ran.expect(0);
    // Version 0 cannot be seen any more: nothing was sent, so nothing can have landed.
    bucket.server.set_rule(|call| match call.operation {
        Operation::Head => Fault::Answer(503, "SlowDown"),
        _ => Fault::Pass,
    });
    let mut options = bucket.server.storage_options();
    options.insert("max_retries".to_owned(), "1".to_owned());
    let ran = bucket.call(&options, json!({"commit_timeout_seconds": 1})).stdin(format!("{SCHEMA}\n{}", row(1))).run();
    ran.expect(75);
    assert!(ran.states().is_empty(), "{}", ran.stdout);
    assert_eq!(bucket.rows(), [0]);
}
