//! Creating, appending, schema changes, and what is written after a commit.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_and_appended_to() {
    let directory = tempfile::tempdir().expect("is made");
    for store in [memory(), local(directory.path())] {
        for path in ["", "orders", "a b/c+d=é"] {
            if path.is_empty() && store.url().scheme() == "file" {
                continue; // the other tables lie below it
            }
            let mut table = open(&store, path).await;
            assert_eq!((table.version(), table.id(), table.schema()), (None, None, None));
            assert_eq!(commit(&mut table, append("x.parquet", &a_long())).await, 0);
            assert_eq!(commit(&mut table, append("y z.parquet", &a_long())).await, 1);
            assert_eq!(commit(&mut table, Append { files: vec![file("w%20.parquet", &a_long())], ..Append::default() }).await, 2);
            assert_eq!(kernel_files(&store, path).await, names(&["x.parquet", "y%20z.parquet", "w%2520.parquet"]));
            let again = open(&store, path).await;
            assert_eq!((again.version(), again.id(), again.schema()), (Some(2), table.id(), table.schema()));
            assert_eq!(again.schema().map(|schema| schema.to_json()), Some(a_long().to_json()));
            let info = commit_info(&store, path, 2).await;
            assert_eq!((&info["readVersion"], &info["operation"]), (&json!(1), &json!("WRITE")));
            assert_eq!(actions(&store, path, 1).await.len(), 2, "a version after 0 has neither protocol nor metaData");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_is_created() {
    let store = memory();
    let mut table = open(&store, "t").await;
    let new_table = NewTable { partition_columns: vec!["p".to_owned()], ..NewTable::default() };
    let both = schema(&[("a", DataType::Long), ("p", DataType::String)]);
    assert_eq!(commit(&mut table, Append { schema: Some(both.clone()), new_table, ..Append::default() }).await, 0);
    assert_eq!(commit_info(&store, "t", 0).await["operation"], "CREATE TABLE");
    let mut table = open(&store, "t").await;
    assert_eq!(table.partition_columns(), ["p"]);
    // Nothing to do: nothing is written.
    let outcome = table.append(Append { schema: Some(both), ..Append::default() }, TIMEOUT).await.expect("is fine");
    assert!(matches!(outcome, Outcome::Committed { version: 0, attempts: 0, .. }), "{outcome:?}");
    assert!(table.after_commit().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_has_the_properties_and_the_lowest_protocol() {
    let store = memory();
    let mut table = open(&store, "t").await;
    let mut wanted = append("x", &schema(&[("t", DataType::TimestampNtz), ("u", DataType::Long)]));
    wanted.new_table.properties =
        [("delta.enableDeletionVectors", "true"), ("delta.dataSkippingNumIndexedCols", "3"), ("team", "data")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    commit(&mut table, wanted).await;
    let Some(Action::Protocol(protocol)) = actions(&store, "t", 0).await.into_iter().nth(1) else { panic!("no protocol") };
    assert_eq!((protocol.min_reader_version, protocol.min_writer_version), (3, 7));
    assert_eq!(protocol.reader_features, Some(vec!["deletionVectors".to_owned(), "timestampNtz".to_owned()]));
    let table = open(&store, "t").await;
    assert_eq!(table.statistics_columns().first_leaves, Some(3));
    assert_eq!(table.properties()["team"], "data");
    assert_eq!((table.compression(), table.is_type_widening_enabled()), (None, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_made_is_refused_before_anything_is_written() {
    let store = memory();
    let two = schema(&[("a", DataType::Long), ("l", DataType::Array { element: Box::new(DataType::Long), contains_null: true })]);
    for (partition_columns, property, needle) in [
        (vec!["b"], None, "`b`"),
        (vec!["l"], None, "nested"),
        (vec!["a", "a"], None, "twice"),
        (vec![], Some(("delta.enableTypeWidening", "true")), "typeWidening"),
        (vec![], Some(("delta.apendOnly", "true")), "delta.apendOnly"),
    ] {
        let mut table = open(&store, "t").await;
        let mut wanted = append("x", &two);
        wanted.new_table.partition_columns = partition_columns.into_iter().map(str::to_owned).collect();
        wanted.new_table.properties = property.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let error = table.append(wanted, TIMEOUT).await.expect_err("is refused");
        assert!(error.message().contains(needle), "{error}");
    }
    let mut table = open(&store, "t").await;
    let mut wanted = append("x", &a_long());
    wanted.new_table.partition_columns = vec!["a".to_owned()];
    assert!(table.append(wanted, TIMEOUT).await.is_err(), "all columns are partition columns");
    assert!(table.append(append("x", &schema(&[])), TIMEOUT).await.is_err(), "no columns");
    assert!(store.list("", None).await.expect("lists").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_change_goes_with_the_data_and_keeps_all_else_word_for_word() {
    let metadata = json!({"metaData": {"mystery": {"deep": [1, 2.50]}, "id": "the-id", "name": "orders", "description": null,
        "format": {"provider": "parquet", "options": {"k": "v"}}, "schemaString": a_long().to_json(),
        "partitionColumns": [], "configuration": {"zeta": "1", "alpha": "2"}, "createdTime": 17}});
    // The commit with the metaData is the newest, is far behind, or is the winner of a race.
    for behind in [0, 1, 40] {
        let store = memory();
        foreign(&store, "t", 0, &[foreign_protocol(1, 2, &[]), metadata.clone()]).await;
        for version in 1..=behind {
            foreign(&store, "t", version, &[foreign_add(&format!("f{version}"))]).await;
        }
        let mut table = open(&store, "t").await;
        let wider = schema(&[("a", DataType::Long), ("b", DataType::String)]);
        assert_eq!(commit(&mut table, append("x", &wider)).await, behind + 1);
        let written = actions(&store, "t", behind + 1).await;
        let Action::MetaData(raw) = &written[1] else { panic!("no metaData: {written:?}") };
        let mut expected = metadata["metaData"].as_object().cloned().expect("is an object");
        expected.insert("schemaString".to_owned(), json!(wider.to_json()));
        assert_eq!(Value::Object(raw.clone()).to_string(), Value::Object(expected).to_string());
        assert!(matches!(written[2], Action::Add(_)));
        assert_eq!(table.schema(), Some(&wider));
        assert_eq!(commit(&mut table, append("y", &wider)).await, behind + 2);
        assert_eq!(actions(&store, "t", behind + 2).await.len(), 2);
        assert_eq!(open(&store, "t").await.schema(), Some(&wider));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_type_that_the_protocol_does_not_allow_is_refused() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("x", &a_long())).await;
    let wider = schema(&[("a", DataType::Long), ("t", DataType::TimestampNtz)]);
    let error = table.append(append("y", &wider), TIMEOUT).await.expect_err("is refused");
    assert!(error.message().contains("timestampNtz") && error.message().contains("`t`"), "{error}");
    assert_eq!(table.version(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_come_every_ten_commits_and_the_table_reads_the_same() {
    let directory = tempfile::tempdir().expect("is made");
    for store in [memory(), local(directory.path())] {
        let mut table = open(&store, "t").await;
        let mut expected = BTreeSet::new();
        for number in 0..=21 {
            let path = format!("f{number}");
            commit(&mut table, append(&path, &a_long())).await;
            expected.insert(path);
            assert_eq!(table.after_commit().await, Vec::<String>::new());
        }
        let log: Vec<String> = log_files(&store, "t").await.into_iter().map(|(path, _)| path).collect();
        let others: Vec<&str> =
            log.iter().filter_map(|path| path.strip_prefix("t/_delta_log/")).filter(|name| !name.ends_with("json")).collect();
        assert_eq!(
            others,
            [
                "00000000000000000010.checkpoint.parquet",
                "00000000000000000010.crc",
                "00000000000000000020.checkpoint.parquet",
                "00000000000000000020.crc",
                "_last_checkpoint"
            ]
        );
        let hint: Value = read_json(&store, "t/_delta_log/_last_checkpoint").await;
        assert_eq!((&hint["version"], &hint["numOfAddFiles"]), (&json!(20), &json!(21)));
        let checksum: Value = read_json(&store, "t/_delta_log/00000000000000000020.crc").await;
        assert_eq!((&checksum["numFiles"], &checksum["tableSizeBytes"]), (&json!(21), &json!(2100)));
        // The older commits may go: the checkpoint says the same.
        for version in 0..20 {
            store.delete(&log_name::commit("t", version)).await.expect("is deleted");
        }
        assert_eq!(kernel_files(&store, "t").await, expected);
        let mut table = open(&store, "t").await;
        let wider = schema(&[("a", DataType::Long), ("b", DataType::Long)]);
        assert_eq!(commit(&mut table, append("wider", &wider)).await, 22);
        assert_eq!(open(&store, "t").await.schema(), Some(&wider));
    }
}

async fn read_json(store: &Arc<dyn Store>, path: &str) -> Value {
    serde_json::from_slice(&store.get(path).await.expect("is read").expect("is there")).expect("is JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_property_rules_when_a_checkpoint_comes() {
    let store = memory();
    let mut table = open(&store, "t").await;
    let mut first = append("f", &a_long());
    first.new_table.properties.insert("delta.checkpointInterval".to_owned(), "2".to_owned());
    commit(&mut table, first).await;
    for number in 1..=3 {
        commit(&mut table, append(&format!("f{number}"), &a_long())).await;
        assert!(table.after_commit().await.is_empty());
    }
    let exists = |version: Version| log_name::checksum("t", version).replace(".crc", ".checkpoint.parquet");
    assert!(store.head(&exists(2)).await.expect("is read").is_some());
    assert!(store.head(&exists(1)).await.expect("is read").is_none());
    assert!(store.head(&exists(3)).await.expect("is read").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hint_never_goes_back() {
    let directory = tempfile::tempdir().expect("is made");
    let store = local(directory.path());
    let mut table = open(&store, "t").await;
    for number in 0..=10 {
        commit(&mut table, append(&format!("f{number}"), &a_long())).await;
    }
    let newer = r#"{"version":12,"size":3}"#;
    store.put("t/_delta_log/_last_checkpoint", newer.into()).await.expect("is put");
    let warnings = table.after_commit().await;
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(read_json(&store, "t/_delta_log/_last_checkpoint").await["version"], 12);
    store.put("t/_delta_log/_last_checkpoint", "{ not json".into()).await.expect("is put");
    store.put("t/_delta_log/._last_checkpoint.crc", "of the hint before".into()).await.expect("is put");
    store.delete("t/_delta_log/00000000000000000010.checkpoint.parquet").await.expect("is deleted");
    assert!(table.after_commit().await.is_empty());
    assert!(store.head("t/_delta_log/._last_checkpoint.crc").await.expect("is read").is_none());
    assert_eq!(read_json(&store, "t/_delta_log/_last_checkpoint").await["version"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checksum_counts_a_path_that_was_added_again_once() {
    let store = memory();
    let mut table = open(&store, "t").await;
    commit(&mut table, append("f0", &a_long())).await;
    for version in 1..=9 {
        // The same path again, under an operation that the kernel does not count.
        let info = json!({"commitInfo": {"operation": "COMPUTE STATS"}});
        foreign(&store, "t", version, &[info, foreign_add("f0")]).await;
    }
    assert_eq!(commit(&mut table, append("f10", &a_long())).await, 10);
    assert!(table.after_commit().await.is_empty());
    assert_eq!(read_json(&store, "t/_delta_log/00000000000000000010.crc").await["numFiles"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_after_the_commit_fails() {
    let directory = tempfile::tempdir().expect("is made");
    let store = local(directory.path());
    let mut table = open(&store, "t").await;
    for number in 0..=10 {
        commit(&mut table, append(&format!("f{number}"), &a_long())).await;
    }
    // A folder in the place of the hint: neither can it be read nor replaced.
    std::fs::create_dir_all(directory.path().join("t/_delta_log/_last_checkpoint/x")).expect("is made");
    let warnings = table.after_commit().await;
    assert!(warnings.iter().any(|warning| warning.starts_with("_last_checkpoint of version 10")), "{warnings:?}");
    // A table that is gone.
    std::fs::remove_dir_all(directory.path().join("t")).expect("is removed");
    let warnings = table.after_commit().await;
    assert!(warnings.iter().any(|warning| warning.starts_with("checkpoint of version 10")), "{warnings:?}");
    assert!(!warnings[0].contains('\n'));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_checkpoint_is_written_in_parts() {
    let directory = tempfile::tempdir().expect("is made");
    let store = local(directory.path());
    let mut table = open(&store, "t").await;
    let mut first = append("f", &a_long());
    first.new_table.properties.insert("delta.checkpointInterval".to_owned(), "2".to_owned());
    commit(&mut table, first).await;
    // All different, or a dictionary would make them small.
    let files = (0..20_000).map(|number| {
        let statistics = json!({"numRecords": 1, "note": format!("{number:0>600}")}).to_string();
        AddFile { statistics, ..file(&format!("g{number}"), &a_long()) }
    });
    commit(&mut table, Append { files: files.collect(), ..Append::default() }).await;
    commit(&mut table, append("h", &a_long())).await;
    assert_eq!(table.after_commit().await, Vec::<String>::new());
    let checkpoint = log_name::checksum("t", 2).replace(".crc", ".checkpoint.parquet");
    let size = store.head(&checkpoint).await.expect("is read").expect("is there").size;
    // The client sends what is above 10 MiB in parts.
    assert!(size > 11 << 20, "{size} bytes");
    assert_eq!(kernel_files(&store, "t").await.len(), 20_002);
    assert_eq!(read_json(&store, &log_name::checksum("t", 2)).await["numFiles"], 20_002);
}
