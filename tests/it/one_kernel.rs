//! One Delta kernel, one arrow, one parquet, one object_store: two of any would not type-check with each other, or double the binary.

fn versions(lock: &str, package: &str) -> Vec<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line == name {
            found.extend(lines.next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn the_lock_file_holds_one_of_each() {
    let lock = include_str!("../../Cargo.lock");
    for package in ["buoyant_kernel", "buoyant_kernel_engine", "arrow", "arrow-array", "parquet", "object_store", "roaring"] {
        let versions = versions(lock, package);
        assert!(versions.len() <= 1, "{package}: {versions:?}");
    }
    for package in ["buoyant_kernel", "arrow", "parquet", "object_store"] {
        assert_eq!(versions(lock, package).len(), 1, "{package}");
    }
    assert_eq!(versions(lock, "delta_kernel").len(), 0, "the kernel is the one that deltalake resolves to");
}

#[test]
fn a_second_kernel_is_found() {
    let lock = "[[package]]\nname = \"arrow\"\nversion = \"59.1.0\"\n\n[[package]]\nname = \"arrow\"\nversion = \"58.0.0\"\n";
    assert_eq!(versions(lock, "arrow"), ["version = \"59.1.0\"", "version = \"58.0.0\""]);
}
