//! Tables that others wrote: each opens, or the refusal names the reason.

use super::*;
use std::path::{Path, PathBuf};

/// The archives in the folder that `DELTA_LOAD_GOLDEN` names, or `None` where it names none.
fn archives() -> Option<Vec<PathBuf>> {
    let folder = std::env::var_os("DELTA_LOAD_GOLDEN").map(PathBuf::from)?;
    let mut archives: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.zst"));
    archives.sort();
    Some(archives)
}

/// Finds the folders with a log below `folder`.
fn tables(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("_delta_log").is_dir() {
        found.push(folder.to_owned());
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            tables(&entry.path(), found);
        }
    }
}

/// Words of which a refusal has to hold one.
const REASONS: [&str; 12] = [
    "columnMapping",
    "changeDataFeed",
    "v2Checkpoint",
    "typeWidening",
    "generatedColumns",
    "checkConstraints",
    "variantType",
    "clustering",
    "reader version",
    "has the type",
    "not readable",
    "the metaData of the table lacks",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_table_opens_or_is_refused_with_the_reason() {
    let Some(archives) = archives() else {
        eprintln!("no golden tables: set DELTA_LOAD_GOLDEN");
        return;
    };
    let (mut opened, mut refused) = (0, Vec::new());
    for archive in archives {
        let name = archive.file_name().expect("has a name").to_string_lossy().replace(".tar.zst", "");
        let directory = tempfile::tempdir().expect("is made");
        let file = std::fs::File::open(&archive).expect("opens");
        tar::Archive::new(zstd::Decoder::new(file).expect("is zstd")).unpack(directory.path()).expect("unpacks");
        let mut found = Vec::new();
        tables(directory.path(), &mut found);
        for folder in found {
            let store = local(folder.parent().expect("is below"));
            let path = folder.file_name().expect("has a name").to_string_lossy().into_owned();
            let before = log_files(&store, &path).await;
            match try_open(&store, &path).await {
                Ok(mut table) => {
                    opened += 1;
                    let Some(version) = table.version() else { continue };
                    let (schema, partitions) = (table.schema().expect("has one").clone(), table.partition_columns().to_vec());
                    let before: BTreeSet<String> = kernel_files(&store, &path).await;
                    let mut more = Append { files: vec![file_of(&schema, &partitions)], ..Append::default() };
                    more.provenance.run_id = "golden".to_owned();
                    let committed =
                        table.append(more, TIMEOUT).await.unwrap_or_else(|error| panic!("{name}: {}", error.render()));
                    assert!(matches!(committed, Outcome::Committed { version: new, .. } if new == version + 1), "{name}");
                    let after = kernel_files(&store, &path).await;
                    assert_eq!(after.len(), before.len() + 1, "{name}");
                    assert_eq!(super::checkpoint::write(&table.place, version + 1).await, Vec::<String>::new(), "{name}");
                    assert_eq!(kernel_files(&store, &path).await, after, "{name}: by the checkpoint");
                }
                Err(error) => {
                    let text = error.render();
                    assert_eq!(error.kind(), ErrorKind::Table, "{name}: {text}");
                    assert!(REASONS.iter().any(|reason| error.message().contains(reason)), "{name}: {text}");
                    assert_eq!(log_files(&store, &path).await, before, "{name} is left alone");
                    refused.push(format!("{name}: {}", error.message()));
                }
            }
        }
    }
    assert!(opened > 40, "{opened} opened; refused: {refused:#?}");
    eprintln!("{opened} opened; refused: {refused:#?}");
}

fn file_of(schema: &Arc<TableSchema>, partition_columns: &[String]) -> AddFile {
    let partition_values = partition_columns.iter().map(|name| (name.clone(), None)).collect();
    AddFile { partition_values, ..file("added by delta-load.parquet", schema) }
}
