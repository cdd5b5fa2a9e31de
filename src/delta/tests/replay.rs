//! Replaying a log is folding its actions: what the kernel makes of our log is what a plain fold makes of it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The fold: the newest protocol and metaData, the files that were added and not removed.
#[derive(Debug, Default)]
struct Folded {
    protocol: Option<Protocol>,
    metadata: Option<Map<String, Value>>,
    files: BTreeMap<String, Add>,
}

impl Folded {
    fn apply(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Protocol(protocol) => self.protocol = Some(protocol),
                Action::MetaData(metadata) => self.metadata = Some(metadata),
                Action::Add(add) => drop(self.files.insert(add.path.clone(), add)),
                Action::Remove(remove) => drop(self.files.remove(&remove.path)),
                Action::CommitInfo(_) | Action::Txn(_) | Action::DomainMetadata(_) => {}
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Deed {
    Append { files: u8 },
    AddColumn,
    ForeignRemove { of: u8 },
    ForeignProperty,
    Checkpoint,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (1..4u8).prop_map(|files| Deed::Append { files }),
        2 => Just(Deed::AddColumn),
        2 => any::<u8>().prop_map(|of| Deed::ForeignRemove { of }),
        1 => Just(Deed::ForeignProperty),
        1 => Just(Deed::Checkpoint),
    ]
}

async fn run(deeds: Vec<Deed>) {
    let store = memory();
    let mut table = open(&store, "t").await;
    let mut columns = vec![("c0".to_owned(), DataType::Long)];
    let mut folded = Folded::default();
    let mut next = 0;
    let mut version = commit(&mut table, Append { schema: Some(a_schema(&columns)), ..Append::default() }).await;
    folded.apply(actions(&store, "t", version).await);
    for deed in deeds {
        let known = version;
        match deed {
            Deed::Append { files } => {
                let schema = a_schema(&columns);
                let files = (0..files).map(|_| {
                    next += 1;
                    file(&format!("f {next}"), &schema)
                });
                version = commit(&mut table, Append { files: files.collect(), ..Append::default() }).await;
            }
            Deed::AddColumn => {
                columns.push((format!("c{}", columns.len()), DataType::String));
                next += 1;
                version = commit(&mut table, append(&format!("f {next}"), &a_schema(&columns))).await;
            }
            Deed::ForeignRemove { of } => {
                let Some(path) = folded.files.keys().nth(usize::from(of) % folded.files.len().max(1)).cloned() else { continue };
                version += 1;
                foreign(&store, "t", version, &[json!({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": false}})])
                    .await;
            }
            Deed::ForeignProperty => {
                let mut metadata = folded.metadata.clone().expect("there is one");
                metadata.insert("configuration".to_owned(), json!({"n": version.to_string()}));
                version += 1;
                foreign(&store, "t", version, &[json!({"metaData": metadata})]).await;
            }
            Deed::Checkpoint => assert_eq!(super::checkpoint::write(&table.place, version).await, Vec::<String>::new()),
        }
        for version in known + 1..=version {
            folded.apply(actions(&store, "t", version).await);
        }
    }
    let again = open(&store, "t").await;
    assert_eq!(again.version(), Some(version));
    assert_eq!(kernel_files(&store, "t").await, folded.files.into_keys().collect());
    let metadata = super::action::Metadata::parse(folded.metadata.expect("there is one")).expect("parses");
    assert_eq!(again.id(), Some(metadata.id.as_str()));
    assert_eq!(again.schema(), Some(&metadata.schema));
    assert_eq!(again.properties(), &metadata.properties);
    assert_eq!(metadata.schema, a_schema(&columns));
    assert_eq!(Some(&again.state.expect("is there").protocol), folded.protocol.as_ref());
}

fn a_schema(columns: &[(String, DataType)]) -> Arc<TableSchema> {
    Arc::new(TableSchema { fields: columns.iter().map(|(name, data_type)| field(name, data_type.clone())).collect() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn replaying_a_log_is_folding_its_actions(deeds in prop::collection::vec(deed(), 0..16)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts");
        runtime.block_on(run(deeds));
    }
}
