//! Names of the files in `_delta_log`.
//!
//! Source: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries>

use super::Version;

/// The folder of the log.
const FOLDER: &str = "_delta_log";

/// Returns `name` in the folder `table`, which may be empty.
pub(super) fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}/{name}") }
}

/// Returns the path of the log's folder, with a slash at its end.
pub(super) fn folder(table: &str) -> String {
    join(table, &format!("{FOLDER}/"))
}

/// Returns the path of the commit `version`.
pub(super) fn commit(table: &str, version: Version) -> String {
    format!("{}{version:020}.json", folder(table))
}

/// Returns the path of the checksum of `version`.
pub(super) fn checksum(table: &str, version: Version) -> String {
    format!("{}{version:020}.crc", folder(table))
}

/// Returns the path of the hint at the newest checkpoint.
pub(super) fn last_checkpoint(table: &str) -> String {
    format!("{}_last_checkpoint", folder(table))
}

/// What a file in the log's folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFile {
    /// A commit.
    Commit(Version),
    /// A checkpoint, or a part of one.
    Checkpoint(Version),
    /// Anything else: hints, checksums, compacted commits, files of others.
    Other,
}

/// Tells what the file `path` is by its name; files in sub-folders are `Other`.
pub(super) fn parse(table: &str, path: &str) -> LogFile {
    let Some(name) = path.strip_prefix(&folder(table)) else { return LogFile::Other };
    let Some((digits, rest)) = name.split_once('.') else { return LogFile::Other };
    if name.contains('/') || digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return LogFile::Other;
    }
    let Ok(version) = digits.parse() else { return LogFile::Other };
    let is_checkpoint = rest == "checkpoint.parquet" || rest.starts_with("checkpoint.");
    match rest {
        "json" => LogFile::Commit(version),
        _ if is_checkpoint && (rest.ends_with(".parquet") || rest.ends_with(".json")) => LogFile::Checkpoint(version),
        _ => LogFile::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for (name, file) in [
            ("00000000000000000012.json", LogFile::Commit(12)),
            ("00000000000000000012.checkpoint.parquet", LogFile::Checkpoint(12)),
            ("00000000000000000012.checkpoint.0000000001.0000000002.parquet", LogFile::Checkpoint(12)),
            ("00000000000000000012.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", LogFile::Checkpoint(12)),
            ("00000000000000000012.crc", LogFile::Other),
            ("00000000000000000012.00000000000000000014.compacted.json", LogFile::Other),
            (".00000000000000000012.json.crc", LogFile::Other),
            ("00000000000000000012.json.tmp", LogFile::Other),
            ("_last_checkpoint", LogFile::Other),
            ("_staged_commits/00000000000000000012.json", LogFile::Other),
            ("12.json", LogFile::Other),
        ] {
            assert_eq!(parse("a/b", &format!("a/b/_delta_log/{name}")), file, "{name}");
        }
        assert_eq!(parse("", "_delta_log/00000000000000000000.json"), LogFile::Commit(0));
        assert_eq!(parse("a", "b/_delta_log/00000000000000000000.json"), LogFile::Other);
        assert_eq!(commit("", 7), "_delta_log/00000000000000000007.json");
        assert_eq!(parse("t", &commit("t", 7)), LogFile::Commit(7));
    }
}
