//! What differs from attempt to attempt: in-commit timestamps, row ids, `txn`. And what is written after such commits.

use super::*;

fn tracked_protocol() -> Value {
    json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 7,
        "writerFeatures": ["rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly", "invariants"]}})
}

fn rows(path: &str, rows: u64) -> AddFile {
    AddFile { rows, statistics: json!({"numRecords": rows}).to_string(), ..file(path, &a_long()) }
}

fn of(files: Vec<AddFile>) -> Append {
    Append { files, ..Append::default() }
}

fn properties(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The ranges of row ids in a table, from its log.
async fn ids(store: &Arc<dyn Store>, versions: std::ops::Range<Version>) -> Vec<(String, i64, u64)> {
    let mut found = Vec::new();
    for version in versions {
        for action in actions(store, "t", version).await {
            if let Action::Add(add) = action {
                let statistics: Value = serde_json::from_str(add.stats.as_deref().unwrap_or_default()).expect("is JSON");
                assert_eq!(add.rest["defaultRowCommitVersion"], version);
                found.push((
                    add.path,
                    add.rest["baseRowId"].as_i64().expect("has one"),
                    statistics["numRecords"].as_u64().expect("has it"),
                ));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_tracks_rows_and_times_from_its_first_version() {
    let store = memory();
    let mut table = open(&store, "t").await;
    let mut first = of(vec![rows("f0", 3), rows("f1", 0), rows("f2", 5)]);
    first.schema = Some(a_long());
    first.new_table.properties = properties(&[("delta.enableRowTracking", "true"), ("delta.enableInCommitTimestamps", "true")]);
    commit(&mut table, first).await;
    let created = actions(&store, "t", 0).await;
    let Action::Protocol(protocol) = &created[1] else { panic!("no protocol") };
    assert_eq!((protocol.min_reader_version, protocol.min_writer_version, &protocol.reader_features), (1, 7, &None));
    let keys: Vec<&str> = table.properties().keys().map(String::as_str).collect();
    assert!(keys.contains(&"delta.rowTracking.materializedRowIdColumnName"), "{keys:?}");
    assert!(keys.contains(&"delta.rowTracking.materializedRowCommitVersionColumnName"), "{keys:?}");
    let column = table.properties()["delta.rowTracking.materializedRowIdColumnName"].clone();
    commit(&mut table, of(vec![rows("g0", 2)])).await;
    // Opened anew, the mark is the log's.
    let mut table = open(&store, "t").await;
    commit(&mut table, of(vec![rows("h0", 1), rows("h1", 1)])).await;
    let expected = [("f0", 0, 3), ("f1", 3, 0), ("f2", 3, 5), ("g0", 8, 2), ("h0", 10, 1), ("h1", 11, 1)];
    assert_eq!(ids(&store, 0..3).await, expected.map(|(path, first, count)| (path.to_owned(), first, count)));
    assert_eq!(table.properties()["delta.rowTracking.materializedRowIdColumnName"], column);
    let mut last = 0;
    for version in 0..3 {
        let info = commit_info(&store, "t", version).await;
        assert_eq!(info.keys().next().map(String::as_str), Some("inCommitTimestamp"));
        let timestamp = info["inCommitTimestamp"].as_i64().expect("is a number");
        assert!(timestamp > last && timestamp >= info["timestamp"].as_i64().expect("is a number"));
        last = timestamp;
        assert_eq!(info["tags"]["delta.rowTracking.preserved"], "true");
    }
    let before_ms = crate::seam::real().now_us() / 1000;
    assert!(last <= before_ms + 2, "{last} is not from the clock ({before_ms})");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_change_or_nothing_at_all_takes_no_row_id() {
    let store = memory();
    foreign(&store, "t", 0, &[
        json!({"commitInfo": {"inCommitTimestamp": 5, "operation": "CREATE TABLE"}}),
        tracked_protocol(),
        foreign_metadata("i", &a_long(), &[], json!({"delta.enableInCommitTimestamps": "true"})),
        json!({"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{\"rowIdHighWaterMark\":41}", "removed": false}}),
    ]).await;
    let mut table = open(&store, "t").await;
    let wider = schema(&[("a", DataType::Long), ("b", DataType::Long)]);
    commit(&mut table, Append { schema: Some(wider), ..Append::default() }).await;
    let kinds = actions(&store, "t", 1).await;
    assert!(!kinds.iter().any(|action| matches!(action, Action::DomainMetadata(_))), "{kinds:?}");
    assert!(commit_info(&store, "t", 1).await["inCommitTimestamp"].as_i64().is_some_and(|timestamp| timestamp > 5));
    commit(&mut table, of(vec![rows("f", 2)])).await;
    assert_eq!(ids(&store, 2..3).await, [("f".to_owned(), 42, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_tracking_is_suspended_gets_no_ids() {
    let store = memory();
    foreign(
        &store,
        "t",
        0,
        &[tracked_protocol(), foreign_metadata("i", &a_long(), &[], json!({"delta.rowTrackingSuspended": "true"}))],
    )
    .await;
    let mut table = open(&store, "t").await;
    commit(&mut table, of(vec![rows("f", 2)])).await;
    let written = actions(&store, "t", 1).await;
    let Action::Add(add) = &written[1] else { panic!("no add: {written:?}") };
    assert!(add.rest.is_empty() && written.len() == 2, "{written:?}");
    assert!(commit_info(&store, "t", 1).await["tags"].get("delta.rowTracking.preserved").is_none());
    // Somebody takes the suspension back.
    foreign(&store, "t", 2, &[foreign_metadata("i", &a_long(), &[], json!({"delta.rowTrackingSuspended": "false"}))]).await;
    commit(&mut table, of(vec![rows("g", 2)])).await;
    assert_eq!(ids(&store, 3..4).await, [("g".to_owned(), 0, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_give_each_row_an_id_of_its_own_and_each_version_a_later_time() {
    let store = memory();
    let mut first = Append { schema: Some(a_long()), ..Append::default() };
    first.new_table.properties = properties(&[("delta.enableRowTracking", "true"), ("delta.enableInCommitTimestamps", "true")]);
    commit(&mut open(&store, "t").await, first).await;
    let mut tasks = Vec::new();
    for writer in 0..6_u64 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let mut table = open(&store, "t").await;
            for number in 0..10 {
                commit(
                    &mut table,
                    of(vec![rows(&format!("w{writer}-{number}"), writer + 1), rows(&format!("v{writer}-{number}"), 1)]),
                )
                .await;
                assert_eq!(table.after_commit().await, Vec::<String>::new());
            }
        }));
    }
    for task in tasks {
        task.await.expect("runs");
    }
    let mut ranges: Vec<(i64, i64)> =
        ids(&store, 1..61).await.into_iter().map(|(_, first, rows)| (first, first + rows as i64)).collect();
    ranges.sort_unstable();
    assert_eq!((ranges.len(), ranges[0].0, ranges[119].1), (120, 0, 10 * (1 + 2 + 3 + 4 + 5 + 6) + 60));
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0), "no id twice, none left out");
    let mut last = 0;
    for version in 0..=60 {
        let timestamp = commit_info(&store, "t", version).await["inCommitTimestamp"].as_i64().expect("is a number");
        assert!(timestamp > last, "version {version}");
        last = timestamp;
    }
    let table = open(&store, "t").await;
    let state = table.state.expect("is there");
    assert_eq!((state.in_commit_timestamp, state.row_id_high_water_mark), (Some(last), Some(ranges[119].1 - 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_and_checksum_keep_domains_times_and_transactions() {
    let directory = tempfile::tempdir().expect("is made");
    for store in [memory(), local(directory.path())] {
        let mut table = open(&store, "t").await;
        for number in 0..=10 {
            let mut one = of(vec![rows(&format!("f{number}"), 4)]);
            one.schema = (number == 0).then(a_long);
            one.new_table.properties =
                properties(&[("delta.enableRowTracking", "true"), ("delta.enableInCommitTimestamps", "true")]);
            one.txn = Some(Txn { app_id: format!("app {}", number % 2), version: number, last_updated: None });
            commit(&mut table, one).await;
            if number == 4 {
                // A domain of somebody else's.
                let domain = json!({"domainMetadata": {"domain": "theirs", "configuration": "{\"x\":1}", "removed": false}});
                foreign(
                    &store,
                    "t",
                    5,
                    &[json!({"commitInfo": {"inCommitTimestamp": 9_000_000_000_000_i64, "operation": "WRITE"}}), domain],
                )
                .await;
            }
            assert_eq!(table.after_commit().await, Vec::<String>::new());
        }
        let checksum = store.get(&log_name::checksum("t", 10)).await.expect("is read").expect("is there");
        let checksum: Value = serde_json::from_slice(&checksum).expect("is JSON");
        let timestamp = commit_info(&store, "t", 10).await["inCommitTimestamp"].clone();
        assert_eq!((&checksum["numFiles"], &checksum["inCommitTimestampOpt"]), (&json!(10), &timestamp));
        assert_eq!(timestamp, 9_000_000_000_005_i64);
        let domains = checksum["domainMetadata"].to_string();
        assert!(domains.contains("theirs") && domains.contains("rowIdHighWaterMark\\\":39"), "{domains}");
        assert_eq!(checksum["setTransactions"].as_array().map(Vec::len), Some(2), "{checksum}");
        // From here on only the checkpoint says what came before it.
        for version in 0..10 {
            store.delete(&log_name::commit("t", version)).await.expect("is deleted");
        }
        store.delete(&log_name::checksum("t", 10)).await.expect("is deleted");
        let mut table = open(&store, "t").await;
        let state = table.state.as_ref().expect("is there");
        assert_eq!((state.in_commit_timestamp, state.row_id_high_water_mark), (Some(9_000_000_000_006), Some(43)));
        let mut done = of(vec![rows("g", 1)]);
        done.txn = Some(Txn { app_id: "app 1".to_owned(), version: 9, last_updated: None });
        assert!(matches!(table.append(done.clone(), TIMEOUT).await, Ok(Outcome::DoneBefore { found: 9 })));
        done.txn = Some(Txn { app_id: "app 1".to_owned(), version: 10, last_updated: None });
        commit(&mut table, done).await;
        assert_eq!(ids(&store, 12..13).await, [("g".to_owned(), 44, 1)]);
        let written = actions(&store, "t", 11).await;
        assert!(written.iter().any(|action| matches!(action, Action::Add(add) if add.rest["baseRowId"] == 40)), "{written:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_txn_is_committed_once_whoever_asks() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("f0", &a_long())).await;
    let mut late = open(&store, "t").await;
    let with = |path: &str, version: i64| {
        let mut one = of(vec![rows(path, 1)]);
        one.txn = Some(Txn { app_id: "a".to_owned(), version, last_updated: None });
        one
    };
    commit(&mut table, with("f1", 1)).await;
    commit(&mut table, append("f2", &a_long())).await;
    // By the snapshot, and by a winner.
    for table in [&mut table, &mut late] {
        let outcome = table.append(with("again", 1), TIMEOUT).await.expect("is fine");
        assert!(matches!(outcome, Outcome::DoneBefore { found: 1 }), "{outcome:?}");
    }
    assert_eq!(late.version(), Some(0), "as it was");
    assert_eq!(commit(&mut late, with("f3", 2)).await, 3);
    // A `txn` alone is worth a version.
    let nothing = Append { txn: Some(Txn { app_id: "a".to_owned(), version: 3, last_updated: None }), ..Append::default() };
    assert_eq!(commit(&mut table, nothing).await, 4);
    assert_eq!(actions(&store, "t", 4).await.len(), 2);
    assert_eq!(kernel_files(&store, "t").await, names(&["f0", "f1", "f2", "f3"]));
}
