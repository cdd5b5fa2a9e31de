//! The table properties `delta.*`: what a new table may be given, and what writing has to follow.

use std::collections::BTreeMap;

use crate::{Error, Result};

use super::StatisticsColumns;
use super::action::{Metadata, Protocol};
use super::feature::{self, DELETION_VECTORS, IN_COMMIT_TIMESTAMP, ROW_TRACKING};

/// What kind of value a property takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// true, false
    Boolean,
    /// A boolean whose true needs the feature of this name.
    Needs(&'static str),
    /// A whole number of at least this.
    Integer(i64),
    /// `interval 30 days`
    Interval,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// Free text.
    Text,
    /// Never to be set by hand: the reason.
    Never(&'static str),
}

const NEW_FEATURE: &str = "is set by the feature that it belongs to, which is not written yet";

/// The properties that Delta knows. Source: `DeltaConfig.scala` of Delta for Spark and the protocol.
const KNOWN: [(&str, Kind); 49] = [
    ("delta.appendOnly", Kind::Boolean),
    ("delta.autoOptimize", Kind::Boolean),
    ("delta.autoOptimize.autoCompact", Kind::Text),
    ("delta.autoOptimize.optimizeWrite", Kind::Boolean),
    ("delta.checkpoint.writeStatsAsJson", Kind::Boolean),
    ("delta.checkpoint.writeStatsAsStruct", Kind::Boolean),
    ("delta.checkpointInterval", Kind::Integer(1)),
    ("delta.checkpointPolicy", Kind::OneOf(&["classic"])),
    ("delta.checkpointRetentionDuration", Kind::Interval),
    ("delta.columnMapping.maxColumnId", Kind::Never(NEW_FEATURE)),
    ("delta.columnMapping.mode", Kind::OneOf(&["none"])),
    ("delta.compatibility.symlinkFormatManifest.enabled", Kind::Needs("symlink manifests")),
    ("delta.dataSkippingNumIndexedCols", Kind::Integer(-1)),
    ("delta.dataSkippingStatsColumns", Kind::Text),
    ("delta.deletedFileRetentionDuration", Kind::Interval),
    ("delta.enableChangeDataFeed", Kind::Needs("changeDataFeed")),
    ("delta.enableDeletionVectors", Kind::Boolean),
    ("delta.enableExpiredLogCleanup", Kind::Boolean),
    ("delta.enableFullRetentionRollback", Kind::Boolean),
    ("delta.enableIcebergCompatV1", Kind::Needs("icebergCompatV1")),
    ("delta.enableIcebergCompatV2", Kind::Needs("icebergCompatV2")),
    ("delta.enableIcebergCompatV3", Kind::Needs("icebergCompatV3")),
    ("delta.enableInCommitTimestamps", Kind::Boolean),
    ("delta.enableRowTracking", Kind::Boolean),
    ("delta.enableTypeWidening", Kind::Needs("typeWidening")),
    ("delta.enableVariantShredding", Kind::Needs("variantShredding")),
    ("delta.inCommitTimestampEnablementTimestamp", Kind::Never(NEW_FEATURE)),
    ("delta.inCommitTimestampEnablementVersion", Kind::Never(NEW_FEATURE)),
    ("delta.isolationLevel", Kind::OneOf(&["Serializable", "WriteSerializable"])),
    ("delta.logRetentionDuration", Kind::Interval),
    ("delta.minReaderVersion", Kind::Never("is chosen by what the table uses")),
    ("delta.minWriterVersion", Kind::Never("is chosen by what the table uses")),
    ("delta.parquet.compression.codec", Kind::OneOf(&["none", "uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd"])),
    ("delta.parquet.format.version", Kind::Text),
    ("delta.randomizeFilePrefixes", Kind::Needs("random file prefixes")),
    ("delta.randomPrefixLength", Kind::Integer(1)),
    ("delta.requireCheckpointProtectionBeforeVersion", Kind::Never(NEW_FEATURE)),
    ("delta.rowTracking.materializedRowCommitVersionColumnName", Kind::Never(NEW_FEATURE)),
    ("delta.rowTracking.materializedRowIdColumnName", Kind::Never(NEW_FEATURE)),
    ("delta.rowTrackingSuspended", Kind::Never(NEW_FEATURE)),
    ("delta.sampleRetentionDuration", Kind::Interval),
    ("delta.setTransactionRetentionDuration", Kind::Interval),
    ("delta.targetFileSize", Kind::Text),
    ("delta.tuneFileSizesForRewrites", Kind::Boolean),
    ("delta.universalFormat.enabledFormats", Kind::Never("needs the feature `icebergCompatV2`, which is not written yet")),
    ("delta.castIcebergTimeType", Kind::Never(NEW_FEATURE)),
    ("delta.redirectReaderWriter-preview", Kind::Never(NEW_FEATURE)),
    ("delta.redirectWriterOnly-preview", Kind::Never(NEW_FEATURE)),
    ("delta.coordinatedCommits.commitCoordinator-preview", Kind::Never(NEW_FEATURE)),
];

/// The properties that turn a feature on in a new table.
const ENABLING: [(&str, &str); 3] = [
    ("delta.enableDeletionVectors", DELETION_VECTORS),
    ("delta.enableInCommitTimestamps", IN_COMMIT_TIMESTAMP),
    ("delta.enableRowTracking", ROW_TRACKING),
];

/// Whether a property is set to true.
pub(super) fn is_true(properties: &BTreeMap<String, String>, key: &str) -> bool {
    properties.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Whether each version has a timestamp of its own in its `commitInfo`.
pub(super) fn has_in_commit_timestamps(protocol: &Protocol, metadata: &Metadata) -> bool {
    protocol.lists(IN_COMMIT_TIMESTAMP) && is_true(&metadata.properties, "delta.enableInCommitTimestamps")
}

/// What the properties of a new table come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NewTableProperties {
    /// What goes into `metaData.configuration`.
    pub configuration: BTreeMap<String, String>,
    /// The features that the protocol has to list.
    pub features: Vec<&'static str>,
}

/// Checks the properties that a new table is to have; what does not begin with `delta.` is free.
///
/// # Errors
/// `Config`: an unknown `delta.*` property (with near names), a value of the wrong kind, or one that needs a feature that is not
/// written yet, named.
pub fn check_table_properties(properties: &BTreeMap<String, String>) -> Result<()> {
    of_new_table(properties).map(drop)
}

pub(super) fn of_new_table(properties: &BTreeMap<String, String>) -> Result<NewTableProperties> {
    let mut checked = NewTableProperties::default();
    for (key, value) in properties {
        if let Some(name) = key.strip_prefix("delta.feature.") {
            checked.features.push(asked_feature(key, name, value)?);
            continue;
        }
        if key.starts_with("delta.") {
            check_property(key, value)?;
        }
        if let Some((_, feature)) = ENABLING.iter().find(|(enabling, _)| enabling == key)
            && value.eq_ignore_ascii_case("true")
        {
            checked.features.push(*feature);
        }
        checked.configuration.insert(key.clone(), value.clone());
    }
    Ok(checked)
}

/// `delta.feature.X = supported` asks for a feature in the protocol and is not kept as a property.
fn asked_feature(key: &str, name: &str, value: &str) -> Result<&'static str> {
    if !value.eq_ignore_ascii_case("supported") && !value.eq_ignore_ascii_case("enabled") {
        return Err(bad(key, value, "which is not \"supported\""));
    }
    feature::written(name).ok_or_else(|| needs(key, &format!("the feature `{name}`")))
}

fn check_property(key: &str, value: &str) -> Result<()> {
    let Some((_, kind)) = KNOWN.iter().find(|(name, _)| *name == key) else {
        if key.starts_with("delta.constraints.") {
            return Err(needs(key, "the feature `checkConstraints`"));
        }
        return Err(unknown(key));
    };
    let is = |expected: &str| value.eq_ignore_ascii_case(expected);
    match *kind {
        Kind::Boolean if !is("true") && !is("false") => Err(bad(key, value, "which is neither true nor false")),
        Kind::Needs(_) if !is("true") && !is("false") => Err(bad(key, value, "which is neither true nor false")),
        Kind::Needs(what) if is("true") => Err(needs(key, &format!("the feature `{what}`"))),
        Kind::Integer(least) if value.trim().parse::<i64>().is_ok_and(|number| number >= least) => Ok(()),
        Kind::Integer(least) => Err(bad(key, value, &format!("which is not a whole number of at least {least}"))),
        Kind::Interval if !is_interval(value) => Err(bad(key, value, "which is not an interval such as \"interval 30 days\"")),
        Kind::OneOf(names) if !names.iter().any(|name| is(name)) => match (key, value.to_ascii_lowercase().as_str()) {
            ("delta.columnMapping.mode", "name" | "id") => Err(needs(key, "the feature `columnMapping`")),
            ("delta.checkpointPolicy", "v2") => Err(needs(key, "the feature `v2Checkpoint`")),
            _ => Err(bad(key, value, &format!("which is not one of {}", names.join(", ")))),
        },
        Kind::Never(reason) => Err(Error::config(format!("the table property `{key}` {reason}"))),
        _ => Ok(()),
    }
}

fn bad(key: &str, value: &str, why: &str) -> Error {
    Error::config(format!("the table property `{key}` is \"{value}\", {why}"))
}

fn needs(key: &str, what: &str) -> Error {
    Error::config(format!("the table property `{key}` needs {what}, which is not written yet"))
}

fn unknown(key: &str) -> Error {
    let error = Error::config(format!("the table property `{key}` is not known"));
    let lower = key.to_ascii_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&name.to_ascii_lowercase(), &lower);
    let mut near: Vec<(usize, &str)> = KNOWN.iter().map(|(name, _)| (distance(name), *name)).collect();
    near.sort_unstable();
    let near: Vec<String> =
        near.iter().filter(|(distance, _)| *distance <= 6).take(3).map(|(_, name)| format!("`{name}`")).collect();
    match near.is_empty() {
        true => error.hint("properties that do not begin with `delta.` are free"),
        false => error.hint(format!("near names: {}", near.join(", "))),
    }
}

/// Source: Spark's CalendarInterval texts; Delta refuses months and years, whose length varies.
fn is_interval(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let words = match words.first() {
        Some(&"interval") => &words[1..],
        _ => &words[..],
    };
    let is_unit = |unit: &str| {
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        ["week", "day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond"].contains(&unit)
    };
    !words.is_empty()
        && words.len().is_multiple_of(2)
        && words.chunks_exact(2).all(|pair| pair[0].parse::<f64>().is_ok_and(|number| number >= 0.0) && is_unit(pair[1]))
}

/// Commits between two checkpoints where the table does not say.
const CHECKPOINT_INTERVAL: u64 = 10;

/// Returns after how many commits a checkpoint is due.
pub(super) fn checkpoint_interval(properties: &BTreeMap<String, String>) -> u64 {
    let value = properties.get("delta.checkpointInterval").and_then(|value| value.trim().parse().ok());
    value.filter(|interval| *interval > 0).unwrap_or(CHECKPOINT_INTERVAL)
}

impl StatisticsColumns {
    /// Returns which columns have statistics in a table with these properties. A value that is not readable counts as absent, as
    /// Spark's defaults do.
    pub fn of(properties: &BTreeMap<String, String>) -> Self {
        let named = properties.get("delta.dataSkippingStatsColumns").map(|value| column_names(value));
        let first_leaves = properties.get("delta.dataSkippingNumIndexedCols").and_then(|value| value.trim().parse::<i64>().ok());
        let first_leaves = match first_leaves {
            Some(-1) => None,
            Some(number) if number >= 0 => usize::try_from(number).ok(),
            _ => Self::default().first_leaves,
        };
        Self { first_leaves, named }
    }
}

/// Splits `a, b.c, `d e`` at commas outside of backticks, and takes the backticks away.
fn column_names(value: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(last) = names.last_mut() else { break };
        match character {
            '`' if is_quoted && characters.peek() == Some(&'`') => {
                characters.next();
                last.push('`');
            }
            '`' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(String::new()),
            _ if character.is_whitespace() && !is_quoted => {}
            _ => last.push(character),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn refusal(key: &str, value: &str) -> Error {
        check_table_properties(&map(&[(key, value)])).expect_err("is refused")
    }

    #[test]
    fn properties_of_new_tables_are_checked() {
        let checked = of_new_table(&map(&[
            ("delta.appendOnly", "true"),
            ("delta.checkpointInterval", "5"),
            ("delta.columnMapping.mode", "none"),
            ("delta.dataSkippingNumIndexedCols", "-1"),
            ("delta.enableChangeDataFeed", "false"),
            ("delta.enableDeletionVectors", "true"),
            ("delta.enableInCommitTimestamps", "true"),
            ("delta.enableRowTracking", "true"),
            ("delta.feature.vacuumProtocolCheck", "supported"),
            ("delta.logRetentionDuration", "interval 1 week 2 days"),
            ("delta.parquet.compression.codec", "ZSTD"),
            ("owner", "me"),
        ]))
        .expect("are fine");
        assert_eq!(checked.features, ["deletionVectors", "inCommitTimestamp", "rowTracking", "vacuumProtocolCheck"]);
        assert!(!checked.configuration.contains_key("delta.feature.vacuumProtocolCheck"));
        assert_eq!(checked.configuration["owner"], "me");
        assert_eq!(checked.configuration.len(), 11);
    }

    #[test]
    fn a_property_whose_feature_is_not_written_is_refused_by_name() {
        for (key, value, feature) in [
            ("delta.enableChangeDataFeed", "true", "`changeDataFeed`"),
            ("delta.enableTypeWidening", "TRUE", "`typeWidening`"),
            ("delta.columnMapping.mode", "name", "`columnMapping`"),
            ("delta.checkpointPolicy", "v2", "`v2Checkpoint`"),
            ("delta.constraints.positive", "a > 0", "`checkConstraints`"),
            ("delta.feature.clustering", "supported", "`clustering`"),
        ] {
            let error = refusal(key, value);
            assert!(error.message().contains(feature) && error.message().contains(key), "{}", error.message());
        }
    }

    #[test]
    fn unknown_properties_and_bad_values_are_refused() {
        assert!(refusal("delta.apendOnly", "true").hint_text().is_some_and(|hint| hint.contains("delta.appendOnly")));
        assert!(refusal("delta.telepathyOfTheFuture", "true").hint_text().is_some());
        for (key, value) in [
            ("delta.appendOnly", "yes"),
            ("delta.checkpointInterval", "0"),
            ("delta.dataSkippingNumIndexedCols", "-2"),
            ("delta.logRetentionDuration", "1 month"),
            ("delta.logRetentionDuration", "interval"),
            ("delta.minReaderVersion", "3"),
            ("delta.parquet.compression.codec", "lzo"),
            ("delta.feature.deletionVectors", "no"),
        ] {
            assert!(refusal(key, value).message().contains(key));
        }
    }

    #[test]
    fn the_known_names_are_distinct() {
        let names: std::collections::BTreeSet<_> = KNOWN.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), KNOWN.len());
    }

    #[test]
    fn properties_rule_statistics_and_checkpoints() {
        let of = |pairs: &[(&str, &str)]| StatisticsColumns::of(&map(pairs));
        assert_eq!(of(&[]), StatisticsColumns::default());
        assert_eq!(of(&[("delta.dataSkippingNumIndexedCols", "-1")]).first_leaves, None);
        assert_eq!(of(&[("delta.dataSkippingNumIndexedCols", "0")]).first_leaves, Some(0));
        assert_eq!(of(&[("delta.dataSkippingNumIndexedCols", "many")]).first_leaves, Some(32));
        let named = of(&[("delta.dataSkippingStatsColumns", "a, b.c,`d, e`.f,`g``h`")]).named;
        assert_eq!(named, Some(vec!["a".to_owned(), "b.c".to_owned(), "d, e.f".to_owned(), "g`h".to_owned()]));
        assert_eq!(checkpoint_interval(&map(&[])), 10);
        assert_eq!(checkpoint_interval(&map(&[("delta.checkpointInterval", "3")])), 3);
        assert_eq!(checkpoint_interval(&map(&[("delta.checkpointInterval", "0")])), 10);
    }
}
