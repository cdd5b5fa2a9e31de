//! The conflict matrix: what each kind of commit does beside each kind of winner. The winner is always the version after the one that
//! was opened, and is met by losing the attempt at it.

use async_trait::async_trait;

use super::*;

const OURS: &str = "delta-load/pipeline/stream";
const EPOCH: i64 = 7;

/// What we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// One file.
    Append,
    /// One file, and a column more.
    ChangeSchema,
    /// One file, to a table that does not exist yet; the winner creates it.
    Create,
    /// One file in the place of all that are there.
    Overwrite,
    /// `f0` and `f1` become one file.
    Compact,
}

const DEEDS: [Deed; 5] = [Deed::Append, Deed::ChangeSchema, Deed::Create, Deed::Overwrite, Deed::Compact];

/// What becomes of it.
#[derive(Debug, Clone, Copy)]
enum Want {
    Lands,
    /// Nothing is committed, and that is fine.
    Nothing,
    DoneBefore,
    Fails(ErrorKind, &'static str),
}

struct Case {
    name: &'static str,
    winner: Vec<Value>,
    wants: Vec<(Deed, Want)>,
}

fn case(name: &'static str, winner: Vec<Value>) -> Case {
    Case { name, winner, wants: DEEDS.iter().map(|deed| (*deed, Want::Lands)).collect() }
}

impl Case {
    fn but(mut self, deeds: &[Deed], want: Want) -> Self {
        for (_, old) in self.wants.iter_mut().filter(|(deed, _)| deeds.contains(deed)) {
            *old = want;
        }
        self
    }
}

fn protocol(reader_features: &[&str], more: &[&str]) -> Value {
    let writer: Vec<&str> = reader_features.iter().chain(more).copied().collect();
    json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader_features, "writerFeatures": writer}})
}

fn metadata(schema: &TableSchema, configuration: Value) -> Value {
    let mut metadata = foreign_metadata("the-id", schema, &[], configuration);
    metadata["metaData"]["mystery"] = json!({"kept": [1, 2.50]});
    metadata
}

fn properties(configuration: Value) -> Value {
    metadata(&a_long(), configuration)
}

fn remove(path: &str, data_change: bool) -> Value {
    json!({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": data_change, "extendedFileMetadata": true,
        "partitionValues": {}, "size": 1}})
}

fn vector() -> Value {
    json!({"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40, "cardinality": 6})
}

fn first_files() -> [Value; 2] {
    ["f0", "f1"].map(|path| {
        let mut add = foreign_add(path);
        add["add"]["tags"] = json!({"k": path});
        add
    })
}

fn cases() -> Vec<Case> {
    use Deed::{Append, ChangeSchema, Compact, Overwrite};
    let conflict = |needle| Want::Fails(ErrorKind::Conflict, needle);
    let refused = |needle| Want::Fails(ErrorKind::Table, needle);
    let mut re_vectored = foreign_add("f0");
    re_vectored["add"]["deletionVector"] = vector();
    re_vectored["add"]["stats"] = json!("{\"numRecords\":10,\"tightBounds\":false}");
    let mut rearranged = foreign_add("c");
    rearranged["add"]["dataChange"] = json!(false);
    let mut moved = re_vectored.clone();
    moved["add"]["dataChange"] = json!(false);
    let wider = schema(&[("a", DataType::Long), ("t", DataType::String)]);
    let fields = |action: &str, mut value: Value| {
        value[action]["mood"] = json!({"of": ["the", "future"], "n": 1.50});
        value
    };
    let gone = [Compact];
    vec![
        case(
            "adds",
            vec![json!({"commitInfo": {"operation": "WRITE", "txnId": "another"}}), foreign_add("w0"), foreign_add("w1")],
        ),
        case("a remove", vec![remove("f0", true)]).but(&gone, Want::Nothing),
        case("a compaction", vec![remove("f0", false), remove("f1", false), rearranged]).but(&gone, Want::Nothing),
        case("a remove and add of other files", vec![remove("f9", true), foreign_add("w0")]),
        case("a new deletion vector", vec![remove("f0", true), re_vectored]).but(&gone, Want::Nothing),
        case("a new deletion vector, no row changed", vec![remove("f0", false), moved]).but(&gone, Want::Nothing),
        case("a schema with a column more", vec![metadata(&wider, json!({}))]),
        case("a property", vec![properties(json!({"delta.checkpointInterval": "7", "x": "y"}))]),
        case("other statistics columns", vec![properties(json!({"delta.dataSkippingNumIndexedCols": "0"}))]),
        case("append-only", vec![properties(json!({"delta.appendOnly": "true"}))]).but(&[Overwrite], refused("append-only")),
        case("deletion vectors", vec![properties(json!({"delta.enableDeletionVectors": "true"}))]),
        case(
            "in-commit timestamps",
            vec![
                json!({"commitInfo": {"inCommitTimestamp": FUTURE_MS, "operation": "SET TBLPROPERTIES"}}),
                protocol(&["deletionVectors"], &["inCommitTimestamp"]),
                properties(json!({"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "1",
                    "delta.inCommitTimestampEnablementTimestamp": FUTURE_MS.to_string()})),
            ],
        ),
        case(
            "in-commit timestamps without one",
            vec![
                protocol(&["deletionVectors"], &["inCommitTimestamp"]),
                properties(json!({"delta.enableInCommitTimestamps": "true"})),
            ],
        )
        .but(&DEEDS, refused("inCommitTimestamp")),
        case(
            "row tracking",
            vec![
                protocol(&["deletionVectors"], &["rowTracking", "domainMetadata"]),
                properties(json!({"delta.enableRowTracking": "false"})),
                domain("delta.rowTracking", "{\"rowIdHighWaterMark\":99}", false),
            ],
        ),
        case(
            "row tracking without a mark",
            vec![protocol(&["deletionVectors"], &["rowTracking", "domainMetadata"]), domain("delta.rowTracking", "{}", false)],
        )
        .but(&DEEDS, refused("rowIdHighWaterMark")),
        case("another id", vec![foreign_metadata("another-id", &a_long(), &[], json!({}))])
            .but(&[Append, ChangeSchema, Overwrite, Compact], conflict("another-id")),
        case("partition columns", vec![foreign_metadata("the-id", &wider, &["t"], json!({}))])
            .but(&DEEDS, conflict("partitioned the table by `t`")),
        case("another type of a column", vec![metadata(&schema(&[("a", DataType::String)]), json!({}))])
            .but(&DEEDS, conflict("`a`")),
        case("a protocol that is written", vec![protocol(&["deletionVectors", "timestampNtz"], &["appendOnly"])]),
        case("a protocol that is not written", vec![protocol(&["deletionVectors", "telepathy"], &[])])
            .but(&DEEDS, refused("telepathy")),
        case(
            "column mapping",
            vec![protocol(&["deletionVectors", "columnMapping"], &[]), properties(json!({"delta.columnMapping.mode": "name"}))],
        )
        .but(&DEEDS, refused("columnMapping")),
        case(
            "a change feed",
            vec![protocol(&["deletionVectors"], &["changeDataFeed"]), properties(json!({"delta.enableChangeDataFeed": "true"}))],
        )
        .but(&DEEDS, refused("changeDataFeed")),
        case("a txn of others", vec![json!({"txn": {"appId": "x", "version": 99}})]),
        case("our txn before this one", vec![json!({"txn": {"appId": OURS, "version": EPOCH - 1, "lastUpdated": 5}})]),
        case("our txn", vec![json!({"txn": {"appId": OURS, "version": EPOCH}})]).but(&DEEDS, Want::DoneBefore),
        case("our txn after this one", vec![foreign_add("w0"), json!({"txn": {"appId": OURS, "version": EPOCH + 2}})])
            .but(&DEEDS, Want::DoneBefore),
        case("a domain of others", vec![domain("d", "not JSON", false), domain("e", "", true)]),
        case(
            "a change file",
            vec![json!({"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": false}})],
        ),
        case(
            "parts of checkpoints",
            vec![
                json!({"checkpointMetadata": {"version": 1}}),
                json!({"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}}),
            ],
        ),
        case("commitInfo alone", vec![json!({"commitInfo": {"operation": "OPTIMIZE", "isBlindAppend": false}})]),
        case("an unknown action", vec![json!({"telepathy": {"x": [1]}}), json!({"add": null, "telepathy": 1}), json!({})]),
        case(
            "unknown fields",
            vec![
                fields("commitInfo", json!({"commitInfo": {"operation": "WRITE"}})),
                fields("protocol", protocol(&["deletionVectors"], &[])),
                fields("metaData", properties(json!({}))),
                fields("add", foreign_add("w0")),
                fields("remove", remove("f9", false)),
                fields("txn", json!({"txn": {"appId": "x", "version": 1}})),
                fields("domainMetadata", domain("d", "{}", false)),
                fields("cdc", json!({"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": false}})),
            ],
        ),
        case("nothing", vec![]),
    ]
}

/// 2100-01-01: later than any clock of a test.
const FUTURE_MS: i64 = 4_102_444_800_000;

fn domain(name: &str, configuration: &str, removed: bool) -> Value {
    json!({"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}})
}

/// What [`Deed::Overwrite`] and [`Deed::Compact`] plan with: the files that are live, kept up to date by the winners.
struct Files {
    is_compaction: bool,
    live: BTreeMap<String, Add>,
    schema: Arc<TableSchema>,
    winners: Vec<Version>,
    plans: u32,
}

impl Files {
    fn new(is_compaction: bool, first: &[Value]) -> Self {
        let mut files = Self { is_compaction, live: BTreeMap::new(), schema: a_long(), winners: Vec::new(), plans: 0 };
        let text: String = first.iter().map(|line| format!("{line}\n")).collect();
        files.apply(parse_commit(text.as_bytes()).expect("parses"));
        files
    }

    /// Folds a commit; returns whether one of our files was touched, or one came.
    fn apply(&mut self, actions: Vec<Action>) -> bool {
        let mut is_touched = false;
        for action in &actions {
            if let Action::Remove(remove) = action {
                is_touched |= self.live.remove(&remove.path).is_some();
            }
        }
        for action in actions {
            if let Action::Add(add) = action {
                is_touched |= !self.is_compaction;
                self.live.insert(add.path.clone(), add);
            }
        }
        is_touched
    }
}

#[async_trait]
impl Planner for Files {
    async fn winner(&mut self, winner: &Winner<'_>) -> Result<Verdict> {
        self.winners.push(winner.version);
        Ok(if self.apply(winner.actions()?) { Verdict::PlanAgain } else { Verdict::Keep })
    }

    async fn restart(&mut self, _version: Version) -> Result<()> {
        Err(crate::Error::conflict("the test does not read the table anew"))
    }

    async fn plan(&mut self, _base: &Base<'_>) -> Result<Planned> {
        self.plans += 1;
        let is_input = |add: &Add| !self.is_compaction || ["f0", "f1"].contains(&add.path.as_str());
        let inputs: Vec<&Add> = self.live.values().filter(|add| is_input(add)).collect();
        // An input that another writer took away or changed: the group is dropped.
        if self.is_compaction && (inputs.len() < 2 || inputs.iter().any(|add| add.deletion_vector.is_some())) {
            return Ok(Planned::default());
        }
        let (name, parameters) = if self.is_compaction { ("OPTIMIZE", "predicate") } else { ("WRITE", "mode") };
        let parameters = Map::from_iter([(parameters.to_owned(), json!(if self.is_compaction { "[]" } else { "Overwrite" }))]);
        Ok(Planned {
            operation: Operation { name, parameters, metrics: None },
            files: Arc::new(vec![file("new", &self.schema)]),
            removes: inputs.into_iter().map(Remove::of).collect(),
            is_rearrangement: self.is_compaction,
            has_read: true,
            loses_row_ids: self.is_compaction,
            ..Planned::default()
        })
    }
}

struct Ran {
    store: Arc<dyn Store>,
    table: Table,
    result: Result<Outcome>,
    files: Option<Files>,
}

async fn run(case: &Case, deed: Deed) -> Ran {
    let store = memory();
    let first = first_files();
    let start = [protocol(&["deletionVectors"], &[]), properties(json!({}))];
    let mut table = if deed == Deed::Create {
        let table = open(&store, "t").await;
        let has = |action: &str| case.winner.iter().any(|line| !line[action].is_null());
        // commitInfo stands first, as in-commit timestamps want it.
        let (head, rest): (Vec<_>, Vec<_>) = case.winner.iter().cloned().partition(|line| line.get("commitInfo").is_some());
        let mut lines = head;
        lines.extend((!has("protocol")).then(|| start[0].clone()));
        lines.extend((!has("metaData")).then(|| start[1].clone()));
        lines.extend(rest);
        foreign(&store, "t", 0, &lines).await;
        table
    } else {
        foreign(&store, "t", 0, &start.into_iter().chain(first.clone()).collect::<Vec<_>>()).await;
        let table = open(&store, "t").await;
        foreign(&store, "t", 1, &case.winner).await;
        table
    };
    let schema = match deed {
        Deed::Create => Some(a_long()),
        Deed::ChangeSchema => Some(schema(&[("a", DataType::Long), ("o", DataType::Double)])),
        Deed::Append | Deed::Overwrite | Deed::Compact => None,
    };
    let txn = Some(Txn { app_id: OURS.to_owned(), version: EPOCH, last_updated: None });
    let written = schema.clone().unwrap_or_else(a_long);
    let commit = Commit { schema, txn: txn.clone(), ..Commit::default() };
    let mut files = matches!(deed, Deed::Overwrite | Deed::Compact).then(|| Files::new(deed == Deed::Compact, &first));
    let result = match &mut files {
        // A compaction carries no `txn`: where it has nothing left to do, nothing is committed.
        Some(files) => {
            let has_txn = deed == Deed::Overwrite || case.name.starts_with("our txn");
            table.commit(&Commit { txn: txn.filter(|_| has_txn), ..commit }, files, TIMEOUT).await
        }
        None => {
            let append = Append { files: vec![file("new", &written)], schema: commit.schema, txn, ..Append::default() };
            table.append(append, TIMEOUT).await
        }
    };
    Ran { store, table, result, files }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_commit_beside_each_winner() {
    let mut count = 0;
    for case in cases() {
        for (deed, want) in &case.wants {
            let what = format!("{deed:?} beside {}", case.name);
            let ran = run(&case, *deed).await;
            check(&what, &case, *deed, *want, ran).await;
            count += 1;
        }
    }
    assert!(count >= 165, "{count}");
}

async fn check(what: &str, case: &Case, deed: Deed, want: Want, ran: Ran) {
    let Ran { store, table, result, files } = ran;
    let next: Version = if deed == Deed::Create { 1 } else { 2 };
    let before = next.checked_sub(2);
    let log = store.get(&log_name::commit("t", next)).await.expect("is read");
    match want {
        Want::Lands => {}
        Want::Fails(kind, needle) => {
            let error = result.expect_err(what);
            assert_eq!(error.kind(), kind, "{what}: {}", error.render());
            let all = error.render();
            assert!(all.contains(needle) && all.contains("memory:///t"), "{what}: {all}");
            assert!(log.is_none() && table.version() == before, "{what}: nothing was committed");
            return;
        }
        Want::Nothing => {
            let outcome = result.unwrap_or_else(|error| panic!("{what}: {}", error.render()));
            assert!(
                matches!(outcome, Outcome::Committed { version, attempts: 0, rows: 0, .. } if version == next - 1),
                "{what}: {outcome:?}"
            );
            assert!(log.is_none(), "{what}");
            assert_eq!(table.version(), Some(next - 1), "{what}: what others did is known");
            return;
        }
        Want::DoneBefore => {
            let outcome = result.unwrap_or_else(|error| panic!("{what}: {}", error.render()));
            assert!(matches!(outcome, Outcome::DoneBefore { found } if found >= EPOCH), "{what}: {outcome:?}");
            assert!(log.is_none() && table.version() == before, "{what}");
            return;
        }
    }
    let outcome = result.unwrap_or_else(|error| panic!("{what}: {}", error.render()));
    assert!(
        matches!(outcome, Outcome::Committed { version, attempts: 2, rows: 1, bytes: 100 } if version == next),
        "{what}: {outcome:?}"
    );
    assert_eq!(table.version(), Some(next), "{what}");
    let winners = actions(&store, "t", next - 1).await;
    let written = actions(&store, "t", next).await;
    let Action::CommitInfo(info) = &written[0] else { panic!("{what}: commitInfo is not first") };
    assert_eq!(info["readVersion"], next - 1, "{what}");
    let is_blind = !matches!(deed, Deed::Overwrite | Deed::Compact);
    assert_eq!(info["isBlindAppend"], is_blind, "{what}");

    // Neither protocol nor metaData a second time, but for a schema that changes, and then everything else stays word for word.
    assert!(!written.iter().any(|action| matches!(action, Action::Protocol(_))), "{what}");
    let metadata: Vec<&Map<String, Value>> =
        written.iter().filter_map(|action| if let Action::MetaData(raw) = action { Some(raw) } else { None }).collect();
    assert_eq!(metadata.len(), usize::from(deed == Deed::ChangeSchema), "{what}");
    if let Some(raw) = metadata.first() {
        let theirs = winners.iter().find_map(|action| if let Action::MetaData(raw) = action { Some(raw.clone()) } else { None });
        let mut expected = match theirs {
            Some(theirs) => theirs,
            None => properties(json!({}))["metaData"].as_object().cloned().expect("is an object"),
        };
        expected.insert("schemaString".to_owned(), raw["schemaString"].clone());
        assert_eq!(Value::Object((*raw).clone()).to_string(), Value::Object(expected).to_string(), "{what}");
        let names: Vec<&str> = table.schema().expect("has one").fields.iter().map(|field| field.name.as_str()).collect();
        assert!(names.starts_with(&["a"]) && names.ends_with(&["o"]), "{what}: {names:?}");
    }

    // What differs per attempt.
    let now_ms = crate::seam::real().now_us() / 1000;
    match info.get("inCommitTimestamp") {
        Some(timestamp) => assert!(case.name == "in-commit timestamps" && *timestamp == FUTURE_MS + 1, "{what}: {timestamp}"),
        None => assert_ne!(case.name, "in-commit timestamps", "{what}"),
    }
    let txn: Vec<&Txn> =
        written.iter().filter_map(|action| if let Action::Txn(txn) = action { Some(txn) } else { None }).collect();
    match deed {
        Deed::Compact => assert!(txn.is_empty() || case.name.starts_with("our txn"), "{what}"),
        _ => {
            assert_eq!((txn.len(), txn[0].app_id.as_str(), txn[0].version), (1, OURS, EPOCH), "{what}");
            assert!(txn[0].last_updated.is_some_and(|at| (now_ms - 60_000..=now_ms).contains(&at)), "{what}");
        }
    }
    let is_tracked = case.name == "row tracking";
    let domains: Vec<&DomainMetadata> = written
        .iter()
        .filter_map(|action| if let Action::DomainMetadata(domain) = action { Some(domain) } else { None })
        .collect();
    let adds: Vec<&Add> =
        written.iter().filter_map(|action| if let Action::Add(add) = action { Some(add) } else { None }).collect();
    assert_eq!((adds.len(), adds[0].path.as_str(), adds[0].data_change), (1, "new", deed != Deed::Compact), "{what}");
    if is_tracked {
        assert_eq!((&adds[0].rest["baseRowId"], &adds[0].rest["defaultRowCommitVersion"]), (&json!(100), &json!(next)), "{what}");
        assert_eq!((domains.len(), domains[0].configuration.as_str()), (1, "{\"rowIdHighWaterMark\":100}"), "{what}");
        let preserved = if deed == Deed::Compact { "false" } else { "true" };
        assert_eq!(info["tags"]["delta.rowTracking.preserved"], preserved, "{what}");
    } else {
        assert!(adds[0].rest.is_empty() && domains.is_empty(), "{what}");
        assert!(info["tags"].get("delta.rowTracking.preserved").is_none(), "{what}");
    }

    // The removes are those of the newest version, with all that is known of the files.
    let removes: Vec<&Remove> =
        written.iter().filter_map(|action| if let Action::Remove(remove) = action { Some(remove) } else { None }).collect();
    assert!(removes.iter().all(|remove| remove.data_change == (deed != Deed::Compact)), "{what}");
    for remove in removes.iter().filter(|remove| remove.path == "f0") {
        assert_eq!((&remove.rest["size"], &remove.rest["partitionValues"]), (&json!(1), &json!({})), "{what}");
        let is_re_vectored = case.name.contains("deletion vector") && case.name.contains("new");
        assert_eq!(remove.deletion_vector.is_some(), is_re_vectored, "{what}");
        assert!(is_re_vectored || remove.rest["tags"] == json!({"k": "f0"}), "{what}");
        assert!(remove.deletion_timestamp.is_some_and(|at| (now_ms - 60_000..=now_ms).contains(&at)), "{what}");
    }
    let mut expected = BTreeSet::new();
    if deed != Deed::Create {
        expected.extend(["f0".to_owned(), "f1".to_owned()]);
    }
    for action in winners.iter().chain(&written) {
        if let Action::Remove(remove) = action {
            expected.remove(&remove.path);
        }
    }
    for action in winners.iter().chain(&written) {
        if let Action::Add(add) = action {
            let is_taken = removes.iter().any(|remove| remove.path == add.path);
            if !is_taken {
                expected.insert(add.path.clone());
            }
        }
    }
    if deed == Deed::Overwrite {
        assert_eq!(expected, names(&["new"]), "{what}");
    }
    assert_eq!(kernel_files(&store, "t").await, expected, "{what}");
    if let Some(files) = files {
        assert_eq!(files.winners, [1], "{what}");
        assert!((1..=2).contains(&files.plans), "{what}: {} plans", files.plans);
    }
    // What is known after it is what is read anew.
    let again = open(&store, "t").await;
    let (known, read) = (table.state.expect("is known"), again.state.expect("is there"));
    assert_eq!(
        (known.in_commit_timestamp, known.row_id_high_water_mark),
        (read.in_commit_timestamp, read.row_id_high_water_mark),
        "{what}"
    );
    assert_eq!(
        (known.protocol, known.metadata.id, known.metadata.schema),
        (read.protocol, read.metadata.id, read.metadata.schema),
        "{what}"
    );
    assert_eq!(known.commit_bytes, read.commit_bytes, "{what}");
}

/// A world in which a test lets time pass at once.
#[derive(Debug)]
struct Jumping {
    real: Seam,
    ahead_ms: Arc<AtomicU64>,
}

impl World for Jumping {
    fn now_us(&self) -> i64 {
        self.real.now_us()
    }
    fn elapsed(&self) -> Duration {
        self.real.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
    fn sleep(&self, duration: Duration) -> Sleep {
        self.real.sleep(duration)
    }
    fn random(&self) -> f64 {
        self.real.random()
    }
    fn uuid(&self) -> uuid::Uuid {
        self.real.uuid()
    }
}

/// What others do to the log while our put is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Drop,
    /// With another id, up to the same length.
    DropAndMakeAgain,
    /// With the same id, as a restored backup has it, and shorter.
    PutBack,
    /// Ten commits, a checkpoint, and the older commits go.
    Clean,
}

/// Appends to a table of three versions; before the put is applied, `meanwhile` happens, and its answer comes after so long.
async fn append_during(meanwhile: Meanwhile, seconds: u64) -> (Arc<dyn Store>, Result<Outcome>) {
    use crate::store::faulty::{Fault, Faulty, Method};
    let store = memory();
    let mut table = open(&store, "t").await;
    for version in 0..3 {
        commit(&mut table, append(&format!("f{version}"), &a_long())).await;
    }
    let id = table.id().expect("has one").to_owned();
    let ahead_ms = Arc::new(AtomicU64::new(0));
    let seam: Seam = Arc::new(Jumping { real: crate::seam::real(), ahead_ms: ahead_ms.clone() });
    let (inner, handle) = (store.clone(), tokio::runtime::Handle::current());
    let mut is_first = true;
    let rule = move |call: crate::store::faulty::Call<'_>| {
        if call.method != Method::PutOnce || !std::mem::take(&mut is_first) {
            return Fault::Pass;
        }
        ahead_ms.fetch_add(seconds * 1000, Ordering::SeqCst);
        let (inner, id) = (inner.clone(), id.clone());
        // The rule is no async code, and the kernel's checkpoint needs threads of the runtime.
        let happens = async move { happen(&inner, meanwhile, &id).await };
        tokio::task::block_in_place(|| handle.block_on(happens));
        Fault::Pass
    };
    let faulty: Arc<dyn Store> = Arc::new(Faulty::new(store.clone(), seam.clone(), rule));
    let mut table = Table::open(faulty, "t", seam).await.expect("opens");
    let result = table.append(append("ours", &a_long()), TIMEOUT).await;
    (store, result)
}

async fn happen(store: &Arc<dyn Store>, meanwhile: Meanwhile, id: &str) {
    let drop_log = async || {
        for entry in store.list("t/", None).await.expect("lists") {
            store.delete(&entry.path).await.expect("is deleted");
        }
    };
    match meanwhile {
        Meanwhile::Drop => drop_log().await,
        Meanwhile::DropAndMakeAgain => {
            drop_log().await;
            foreign(store, "t", 0, &[foreign_protocol(1, 2, &[]), foreign_metadata("another", &a_long(), &[], json!({}))]).await;
        }
        Meanwhile::PutBack => {
            drop_log().await;
            foreign(
                store,
                "t",
                0,
                &[foreign_protocol(1, 2, &[]), foreign_metadata(id, &a_long(), &[], json!({})), foreign_add("f0")],
            )
            .await;
        }
        Meanwhile::Clean => {
            let mut other = open(store, "t").await;
            for number in 3..=11 {
                commit(&mut other, append(&format!("o{number}"), &a_long())).await;
                other.after_commit().await;
            }
            for version in 0..10 {
                store.delete(&log_name::commit("t", version)).await.expect("is deleted");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_dropped_or_made_again_under_a_slow_put_keeps_nothing_of_ours() {
    for meanwhile in [Meanwhile::Drop, Meanwhile::DropAndMakeAgain] {
        let (store, result) = append_during(meanwhile, 31).await;
        let error = result.expect_err("is refused");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{meanwhile:?}: {}", error.render());
        let log: Vec<String> = log_files(&store, "t").await.into_iter().map(|(path, _)| path).collect();
        let expected = if meanwhile == Meanwhile::Drop { vec![] } else { vec![log_name::commit("t", 0)] };
        assert_eq!(log, expected, "{meanwhile:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_put_back_under_a_slow_put_is_followed() {
    let (store, result) = append_during(Meanwhile::PutBack, 31).await;
    assert!(matches!(result, Ok(Outcome::Committed { version: 1, .. })), "{result:?}");
    assert_eq!(kernel_files(&store, "t").await, names(&["f0", "ours"]));
    assert!(store.get(&log_name::commit("t", 3)).await.expect("is read").is_none(), "the stray commit is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_cleaned_past_a_slow_put_takes_it_once_at_its_end() {
    let (store, result) = append_during(Meanwhile::Clean, 31).await;
    assert!(matches!(result, Ok(Outcome::Committed { version: 12, .. })), "{result:?}");
    let files = kernel_files(&store, "t").await;
    assert_eq!((files.len(), files.contains("ours")), (13, true));
    assert!(store.get(&log_name::commit("t", 3)).await.expect("is read").is_none(), "the stray commit is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_the_place_of_the_next_commit_is_said_at_once() {
    let directory = tempfile::tempdir().expect("is made");
    let store = local(directory.path());
    let mut table = open(&store, "t").await;
    commit(&mut table, append("x", &a_long())).await;
    let folder = directory.path().join(log_name::commit("t", 1));
    std::fs::create_dir(&folder).expect("is made");
    let begun = crate::seam::real();
    let error = table.append(append("y", &a_long()), Duration::from_secs(900)).await.expect_err("is refused");
    assert!(begun.elapsed() < Duration::from_secs(30), "it was waited for");
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Denied, 1));
    assert!(error.render().contains("00000000000000000001.json") && error.render().contains("folder"), "{}", error.render());
    // Somebody else's commit is met first, the folder behind it is found by reading on.
    std::fs::remove_dir(&folder).expect("is removed");
    std::fs::create_dir(directory.path().join(log_name::commit("t", 2))).expect("is made");
    let mut other = open(&store, "t").await;
    commit(&mut other, append("o", &a_long())).await;
    let error = table.append(append("y", &a_long()), Duration::from_secs(900)).await.expect_err("is refused");
    assert!(begun.elapsed() < Duration::from_secs(30), "it was waited for");
    assert!(error.render().contains("00000000000000000002.json"), "{}", error.render());
}
