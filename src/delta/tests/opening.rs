//! What is opened, and what is refused before anything is written.

use super::*;

async fn table_of(lines: &[Value]) -> Arc<dyn Store> {
    let store = memory();
    foreign(&store, "t", 0, lines).await;
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_commits_is_no_table() {
    let store = memory();
    store.put("t/_delta_log/_last_checkpoint", "{}".into()).await.expect("is put");
    store.put("t/_delta_log/.00000000000000000000.json.crc", "x".into()).await.expect("is put");
    store.put("t/part-1.parquet", "x".into()).await.expect("is put");
    assert_eq!(open(&store, "t").await.version(), None);
    assert_eq!(open(&store, "nothing/here").await.version(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_we_do_not_write_is_refused_by_name_and_left_alone() {
    let plain = |configuration: Value| foreign_metadata("i", &a_long(), &[], configuration);
    let with_metadata = |key: &str| {
        let mut one = field("a", DataType::Long);
        one.metadata.insert(key.to_owned(), json!("x"));
        foreign_metadata("i", &TableSchema { fields: vec![one] }, &[], json!({}))
    };
    let typed = |name: &str| foreign_metadata("i", &schema(&[("v", DataType::Other(json!(name)))]), &[], json!({}));
    for (protocol, metadata, needles) in [
        (foreign_protocol(1, 7, &["rowTracking"]), plain(json!({})), vec!["rowTracking", "domainMetadata"]),
        (foreign_protocol(3, 7, &["telepathy"]), plain(json!({})), vec!["telepathy"]),
        (foreign_protocol(3, 7, &["catalogManaged"]), plain(json!({})), vec!["catalogManaged"]),
        (foreign_protocol(3, 7, &["v2Checkpoint"]), plain(json!({})), vec!["v2Checkpoint"]),
        (foreign_protocol(4, 7, &["timestampNtz"]), plain(json!({})), vec!["reader version 4"]),
        (foreign_protocol(1, 9, &[]), plain(json!({})), vec!["writer version 9"]),
        (foreign_protocol(1, 4, &[]), plain(json!({"delta.enableChangeDataFeed": "true"})), vec!["changeDataFeed"]),
        (foreign_protocol(1, 3, &[]), plain(json!({"delta.constraints.c": "a > 1"})), vec!["checkConstraints"]),
        (foreign_protocol(1, 2, &[]), with_metadata("delta.invariants"), vec!["invariants", "a"]),
        (foreign_protocol(1, 4, &[]), with_metadata("delta.generationExpression"), vec!["generatedColumns"]),
        (foreign_protocol(1, 6, &[]), with_metadata("delta.identity.start"), vec!["identityColumns"]),
        (foreign_protocol(3, 7, &["timestampNtz"]), typed("void"), vec!["`v`", "void"]),
        (foreign_protocol(3, 7, &["timestampNtz"]), typed("geometry(OGC:CRS84)"), vec!["`v`", "geometry"]),
        (foreign_protocol(3, 7, &["timestampNtz"]), typed("time(6)"), vec!["`v`", "time(6)"]),
        (
            foreign_protocol(1, 2, &[]),
            foreign_metadata("i", &schema(&[("z", DataType::TimestampNtz)]), &[], json!({})),
            vec!["`z`", "timestampNtz"],
        ),
    ] {
        let store = table_of(&[protocol.clone(), metadata]).await;
        let before = log_files(&store, "t").await;
        let error = try_open(&store, "t").await.expect_err(&format!("{protocol} is refused"));
        assert_eq!(error.kind(), ErrorKind::Table, "{error}");
        for needle in needles {
            assert!(error.message().contains(needle), "{needle}: {error}");
        }
        assert!(error.render().contains("memory:///t"), "{}", error.render());
        assert_eq!(log_files(&store, "t").await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_legacy_protocol_only_implies_is_no_hindrance() {
    let unused = json!({"delta.enableChangeDataFeed": "false", "delta.columnMapping.mode": "none", "delta.appendOnly": "true"});
    for (reader, writer) in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)] {
        let metadata = foreign_metadata("i", &a_long(), &[], unused.clone());
        let store = table_of(&[foreign_protocol(reader, writer, &[]), metadata]).await;
        let mut table = open(&store, "t").await;
        assert_eq!(commit(&mut table, append("x", &a_long())).await, 1);
        assert_eq!(kernel_files(&store, "t").await, names(&["x"]));
    }
    let both = ["timestampNtz", "deletionVectors", "vacuumProtocolCheck"];
    let store = table_of(&[foreign_protocol(3, 7, &both), foreign_metadata("i", &a_long(), &[], json!({}))]).await;
    let mut table = open(&store, "t").await;
    assert_eq!(commit(&mut table, append("x", &a_long())).await, 1);
    let wider = schema(&[("a", DataType::Long), ("t", DataType::TimestampNtz)]);
    assert_eq!(commit(&mut table, append("y", &wider)).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_log_is_refused() {
    let first = [foreign_protocol(1, 2, &[]), foreign_metadata("i", &a_long(), &[], json!({}))];
    let gap = table_of(&first).await;
    foreign(&gap, "t", 2, &[foreign_add("f")]).await;
    let no_metadata = table_of(&first[..1]).await;
    let no_protocol = table_of(&first[1..]).await;
    let cut = memory();
    cut.put("t/_delta_log/00000000000000000000.json", "{\"protocol\":{\"minRead".into()).await.expect("is put");
    for store in [gap, no_metadata, no_protocol, cut] {
        let error = try_open(&store, "t").await.expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::Table);
        let text = error.render();
        assert!(text.lines().count() <= 4, "no backtrace is shown: {text}");
    }
}
