//! The conflict matrix, races, and unclear answers.

use super::*;
use crate::store::faulty::{Fault, Faulty, Method};

/// A table at version 0 with the column `a`, opened before `winner` is committed as version 1.
async fn beside(winner: &[Value]) -> (Arc<dyn Store>, Table) {
    let store = memory();
    foreign(&store, "t", 0, &[foreign_protocol(1, 2, &[]), foreign_metadata("the-id", &a_long(), &[], json!({}))]).await;
    let table = open(&store, "t").await;
    foreign(&store, "t", 1, winner).await;
    (store, table)
}

#[tokio::test(flavor = "multi_thread")]
async fn adds_removes_and_what_is_unknown_do_not_conflict() {
    let remove = json!({"remove": {"path": "f", "deletionTimestamp": 1, "dataChange": true}});
    let mut compaction = foreign_add("c");
    compaction["add"]["dataChange"] = json!(false);
    let compacted = json!({"remove": {"path": "f", "deletionTimestamp": 1, "dataChange": false}});
    for winner in [
        vec![json!({"commitInfo": {"operation": "WRITE", "txnId": "another"}}), foreign_add("f")],
        vec![remove],
        vec![compaction, compacted],
        vec![
            json!({"txn": {"appId": "x", "version": 1}}),
            json!({"domainMetadata": {"domain": "d", "configuration": "", "removed": false}}),
        ],
        vec![json!({"telepathy": {"x": 1}}), json!({"commitInfo": "not even an object"}), json!({})],
        vec![],
    ] {
        let (store, mut table) = beside(&winner).await;
        let outcome = table.append(append("x", &a_long()), TIMEOUT).await.expect("commits");
        assert!(matches!(outcome, Outcome::Committed { version: 2, attempts: 2, rows: 1, bytes: 100 }), "{outcome:?}");
        assert_eq!(commit_info(&store, "t", 2).await["readVersion"], 1);
        assert_eq!(actions(&store, "t", 2).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_winner_with_our_txn_id_is_our_commit() {
    let store = memory();
    foreign(&store, "t", 0, &[foreign_protocol(1, 2, &[]), foreign_metadata("the-id", &a_long(), &[], json!({}))]).await;
    let mut table = Table::open(store.clone(), "t", counted()).await.expect("opens");
    // Other bytes (a store that rewrites what it stores), the same transaction.
    foreign(&store, "t", 1, &[json!({"commitInfo": {"txnId": id(0)}}), foreign_add("x")]).await;
    assert_eq!(commit(&mut table, append("x", &a_long())).await, 1);
    assert_eq!(table.version(), Some(1));
    assert!(store.get(&log_name::commit("t", 2)).await.expect("is read").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_properties_and_features_of_others_are_followed() {
    let properties = json!({"delta.checkpointInterval": "7", "delta.enableDeletionVectors": "true"});
    let (store, mut table) =
        beside(&[foreign_protocol(3, 7, &["deletionVectors"]), foreign_metadata("the-id", &a_long(), &[], properties)]).await;
    assert_eq!(commit(&mut table, append("x", &a_long())).await, 2);
    assert_eq!(actions(&store, "t", 2).await.len(), 2, "neither protocol nor metaData again");
    assert_eq!(table.properties()["delta.checkpointInterval"], "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_others_make_unwritable_is_refused_by_name() {
    for winner in [
        vec![foreign_protocol(1, 7, &["telepathy"])],
        vec![foreign_protocol(3, 7, &["telepathy"])],
        vec![
            foreign_protocol(1, 4, &[]),
            foreign_metadata("the-id", &a_long(), &[], json!({"delta.constraints.telepathy": "a > 0"})),
        ],
    ] {
        let (store, mut table) = beside(&winner).await;
        let error = table.append(append("x", &a_long()), TIMEOUT).await.expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::Table);
        assert!(error.message().contains("telepathy"), "{error}");
        assert!(error.render().contains("memory:///t"), "{}", error.render());
        assert!(store.get(&log_name::commit("t", 2)).await.expect("is read").is_none());
        assert_eq!(table.version(), Some(0), "as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_table_is_a_conflict() {
    let (_, mut table) = beside(&[foreign_metadata("another-id", &a_long(), &[], json!({}))]).await;
    let error = table.append(append("x", &a_long()), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("another-id") && error.message().contains("the-id"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_partition_columns_are_a_conflict() {
    let theirs = schema(&[("a", DataType::Long), ("p", DataType::Long)]);
    let (_, mut table) = beside(&[foreign_metadata("the-id", &theirs, &["p"], json!({}))]).await;
    let error = table.append(append("x", &a_long()), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("`p`") && error.message().contains("no column"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_both_writers_are_kept() {
    let theirs = schema(&[("a", DataType::Long), ("t", DataType::String)]);
    let winner = [foreign_metadata("the-id", &theirs, &[], json!({"x": "y"}))];
    // We bring no column.
    let (store, mut table) = beside(&winner).await;
    assert_eq!(commit(&mut table, append("x", &a_long())).await, 2);
    assert_eq!(actions(&store, "t", 2).await.len(), 2);
    assert_eq!(table.schema(), Some(&theirs));
    // We bring another one: last.
    let (store, mut table) = beside(&winner).await;
    let ours = schema(&[("a", DataType::Long), ("o", DataType::Double)]);
    assert_eq!(commit(&mut table, append("x", &ours)).await, 2);
    let both = schema(&[("a", DataType::Long), ("t", DataType::String), ("o", DataType::Double)]);
    assert_eq!(table.schema(), Some(&both));
    assert_eq!(table.properties()["x"], "y");
    assert_eq!(open(&store, "t").await.schema(), Some(&both));
    // Cuts that were made before we knew: what they lack stays, and what they bring still comes.
    assert_eq!(commit(&mut table, append("y", &ours)).await, 3);
    let more = schema(&[("a", DataType::Long), ("o", DataType::Double), ("m", DataType::Long)]);
    assert_eq!(commit(&mut table, append("z", &more)).await, 4);
    let all = schema(&[("a", DataType::Long), ("t", DataType::String), ("o", DataType::Double), ("m", DataType::Long)]);
    assert_eq!(table.schema(), Some(&all));
    assert_eq!(actions(&store, "t", 3).await.len(), 2);
    let nothing = Append { schema: Some(more), ..Append::default() };
    let outcome = table.append(nothing, TIMEOUT).await.expect("is fine");
    assert!(matches!(outcome, Outcome::Committed { version: 4, attempts: 0, .. }), "{outcome:?}");
    // We bring the same one: nothing to change.
    let (store, mut table) = beside(&winner).await;
    assert_eq!(commit(&mut table, append("x", &theirs)).await, 2);
    assert_eq!(actions(&store, "t", 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_differs_in_case_alone_is_a_conflict() {
    // To readers that go by case the column of our files would be null.
    let theirs = schema(&[("a", DataType::Long), ("New", DataType::Long)]);
    let (_, mut table) = beside(&[foreign_metadata("the-id", &theirs, &[], json!({}))]).await;
    let ours = schema(&[("a", DataType::Long), ("new", DataType::Long)]);
    let error = table.append(append("x", &ours), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("`new`") && error.message().contains("New long"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_partitioned_otherwise_is_refused() {
    let store = memory();
    let mut table = open(&store, "t").await;
    let mut wanted = append("x", &schema(&[("a", DataType::Long), ("p", DataType::Long)]));
    wanted.new_table.partition_columns = vec!["p".to_owned()];
    assert_eq!(table.append(wanted.clone(), TIMEOUT).await.expect_err("is refused").kind(), ErrorKind::Internal);
    wanted.files[0].partition_values = vec![("p".to_owned(), Some("1".to_owned()))];
    assert_eq!(commit(&mut table, wanted).await, 0);
    let text = commit_text(&store, "t", 0).await;
    assert!(text.contains(r#""partitionValues":{"p":"1"}"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_changes_a_column_is_refused() {
    let (_, mut table) = beside(&[]).await;
    let error = table.append(append("x", &schema(&[("a", DataType::String)])), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Schema);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_the_files_do_not_fit_is_a_conflict_with_both_named() {
    let required =
        TableSchema { fields: vec![field("a", DataType::Long), Field { nullable: false, ..field("r", DataType::Long) }] };
    let strict = TableSchema { fields: vec![Field { nullable: false, ..field("a", DataType::Long) }] };
    for (theirs, ours, needles) in [
        (schema(&[("a", DataType::String)]), a_long(), vec!["`a`", "long", "string"]),
        (schema(&[("b", DataType::Long)]), a_long(), vec!["`a`", "a long", "b long"]),
        (Arc::new(required), a_long(), vec!["`r`"]),
        (Arc::new(strict), a_long(), vec!["`a`", "null"]),
        (
            schema(&[("a", DataType::Long), ("n", DataType::Long)]),
            schema(&[("a", DataType::Long), ("n", DataType::String)]),
            vec!["`n`"],
        ),
    ] {
        let (store, mut table) = beside(&[foreign_metadata("the-id", &theirs, &[], json!({}))]).await;
        let error = table.append(append("x", &ours), TIMEOUT).await.expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        for needle in needles {
            assert!(error.message().contains(needle), "{needle}: {error}");
        }
        assert!(store.get(&log_name::commit("t", 2)).await.expect("is read").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_appears_while_we_create_it_is_taken_as_it_is() {
    let ours = schema(&[("a", DataType::Long), ("o", DataType::Long)]);
    let theirs = schema(&[("t", DataType::Long), ("a", DataType::Long)]);
    let create = |protocol: Value, partition_columns: &'static [&'static str]| {
        let theirs = theirs.clone();
        let ours = ours.clone();
        async move {
            let store = memory();
            let mut table = open(&store, "t").await;
            foreign(&store, "t", 0, &[protocol, foreign_metadata("theirs", &theirs, partition_columns, json!({}))]).await;
            foreign(&store, "t", 1, &[foreign_add("f")]).await;
            let result = table.append(append("x", &ours), TIMEOUT).await;
            (store, table, result)
        }
    };
    let (store, table, result) = create(foreign_protocol(1, 2, &[]), &[]).await;
    assert!(matches!(result, Ok(Outcome::Committed { version: 2, .. })), "{result:?}");
    assert_eq!(table.id(), Some("theirs"));
    let merged = schema(&[("t", DataType::Long), ("a", DataType::Long), ("o", DataType::Long)]);
    assert_eq!(table.schema(), Some(&merged));
    let written = actions(&store, "t", 2).await;
    assert!(!written.iter().any(|action| matches!(action, Action::Protocol(_))), "{written:?}");
    let Action::MetaData(raw) = &written[1] else { panic!("no metaData") };
    assert_eq!(raw["id"], "theirs");
    assert_eq!(open(&store, "t").await.schema(), Some(&merged));

    let (_, table, result) = create(foreign_protocol(1, 2, &[]), &["t"]).await;
    assert_eq!(result.expect_err("is refused").kind(), ErrorKind::Conflict);
    assert_eq!(table.version(), None);
    let (_, _, result) = create(foreign_protocol(1, 7, &["clustering"]), &[]).await;
    assert!(result.expect_err("is refused").message().contains("clustering"));

    let store = memory();
    let mut table = open(&store, "t").await;
    foreign(&store, "t", 0, &[foreign_add("f")]).await;
    let error = table.append(append("x", &ours), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_dropped_is_a_conflict_and_nothing_is_left_there() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("x", &a_long())).await;
    store.delete(&log_name::commit("t", 0)).await.expect("is deleted");
    let error = table.append(append("y", &a_long()), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(store.list("t/", None).await.expect("lists").is_empty());
    // Dropped and made again, to the same length of the log.
    foreign(&store, "t", 0, &[foreign_protocol(1, 2, &[]), foreign_metadata("another", &a_long(), &[], json!({}))]).await;
    let error = table.append(append("y", &a_long()), TIMEOUT).await.expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("another"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cleaned_past_us_is_followed() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("x", &a_long())).await;
    let mut other = open(&store, "t").await;
    for number in 1..=12 {
        commit(&mut other, append(&format!("o{number}"), &a_long())).await;
        other.after_commit().await;
    }
    for version in 0..10 {
        store.delete(&log_name::commit("t", version)).await.expect("is deleted");
    }
    assert_eq!(commit(&mut table, append("y", &a_long())).await, 13);
    assert_eq!(kernel_files(&store, "t").await.len(), 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_lose_nothing_and_double_nothing() {
    let directory = tempfile::tempdir().expect("is made");
    for store in [memory(), local(directory.path())] {
        let mut tasks = Vec::new();
        for writer in 0..8 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let mut table = open(&store, "t").await;
                let mut versions = Vec::new();
                for number in 0..20 {
                    versions.push(commit(&mut table, append(&format!("w{writer}-{number}"), &a_long())).await);
                    assert_eq!(table.after_commit().await, Vec::<String>::new());
                }
                versions
            }));
        }
        let mut versions = BTreeSet::new();
        for task in tasks {
            for version in task.await.expect("runs") {
                assert!(versions.insert(version), "version {version} was given twice");
            }
        }
        assert_eq!(versions, (0..160).collect());
        let expected: BTreeSet<String> =
            (0..8).flat_map(|writer| (0..20).map(move |number| format!("w{writer}-{number}"))).collect();
        assert_eq!(kernel_files(&store, "t").await, expected);
        for version in 1..160 {
            assert_eq!(actions(&store, "t", version).await.len(), 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_comes_is_unknown_and_names_the_version() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("x", &a_long())).await;
    let commit_path = log_name::commit("t", 1);
    let faulty: Arc<dyn Store> = Arc::new(Faulty::new(store.clone(), crate::seam::real(), move |call| match call.method {
        Method::PutOnce => Fault::AppliedUnclear,
        Method::Get if call.path == commit_path => Fault::NotAppliedUnclear,
        _ => Fault::Pass,
    }));
    let mut table = Table::open(faulty, "t", counted()).await.expect("opens");
    let outcome = table.append(append("y", &a_long()), Duration::from_millis(300)).await.expect("is an outcome");
    let Outcome::Unknown { version, txn_id, error } = outcome else { panic!("{outcome:?}") };
    assert_eq!((version, txn_id.as_str()), (1, id(0).as_str()));
    assert!(error.message().contains("version 1") && error.message().contains(&txn_id), "{error}");
    assert_eq!((table.version(), error.exit_code()), (Some(0), 1));
    assert_eq!(commit_info(&store, "t", 1).await["txnId"], txn_id.as_str(), "it did land");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclear_answer_is_settled_by_reading_back() {
    for fault in [Fault::AppliedUnclear, Fault::NotAppliedUnclear, Fault::AppliedExists, Fault::NotAppliedExists] {
        let store = memory();
        let faulty: Arc<dyn Store> = Arc::new(Faulty::scripted(store.clone(), crate::seam::real(), [fault, fault]));
        let mut table = open(&faulty, "t").await;
        assert_eq!(commit(&mut table, append("x", &a_long())).await, 0, "{fault:?}");
        assert_eq!(commit(&mut table, append("y", &a_long())).await, 1, "{fault:?}");
        assert_eq!(kernel_files(&store, "t").await, names(&["x", "y"]));
    }
}
