use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::settings::{Kind, Scope, Support};
use super::*;
use crate::load::{DeletionVectors, OnBadLine, Plan, StreamPlan};
use crate::{batch, data_file, schema};

/// A folder with files to configure from.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn plan(&self, sources: &[&str], variables: &[(&str, &str)]) -> Result<Plan> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let environment = Environment { variables, working_directory: self.path().to_owned() };
        plan(&sources.iter().map(|source| (*source).to_owned()).collect::<Vec<_>>(), &environment)
    }
}

/// Returns the plan of one config, with a destination unless it names one.
fn plan_of(mut config: Value) -> Result<Plan> {
    config.as_object_mut().unwrap().entry("destination").or_insert_with(|| "/lake".into());
    Folder::new(&[("config.json", &config.to_string())]).plan(&["config.json"], &[])
}

fn good(config: Value) -> Plan {
    plan_of(config).unwrap()
}

fn base(config: Value) -> StreamPlan {
    good(config).streams.base
}

fn error(config: Value) -> String {
    plan_of(config).unwrap_err().message().to_owned()
}

#[track_caller]
fn assert_error(config: Value, part: &str) {
    let error = error(config);
    assert!(error.contains(part), "{error}");
}

// The table of settings

#[test]
fn every_default_is_json_of_the_settings_type_and_supported() {
    for setting in SETTINGS {
        let value: Value = serde_json::from_str(setting.default).unwrap();
        assert_eq!(value, setting.default_value());
        if !value.is_null() {
            assert_eq!(value::coerce(setting, setting.name, &value).as_ref(), Ok(&value), "{}", setting.name);
            assert_eq!(setting.refusal(&value), None, "{}", setting.name);
        }
        assert!(setting.description.ends_with('.') && !setting.description.contains('|'), "{}", setting.name);
    }
}

#[test]
fn every_name_is_there_once() {
    let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    names.extend(table::ALIASES.iter().chain(table::IGNORED).map(|(name, _)| *name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_storage_option_name_is_there_once() {
    let mut names: Vec<_> = storage_options::names().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_setting_of_a_stream_is_read_or_refused() {
    // `apply` asserts it for a name that it does not know.
    let mut plan = base(json!({}));
    for setting in SETTINGS.iter().filter(|setting| setting.scope != Scope::Load) {
        let value = setting.default_value();
        plan::apply(setting, &value, &mut plan).unwrap();
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let plan = good(json!({}));
    assert_eq!(plan.destination.as_str(), "file:///lake/");
    assert_eq!(plan.memory_limit_bytes, 512 << 20);
    assert_eq!(plan.on_bad_line, OnBadLine::Fail);
    assert_eq!(plan.pipeline, None);
    assert_eq!(plan.notices, Vec::<String>::new());
    assert!(!plan.store.single_writer && plan.store.storage_options.is_empty());
    let cuts = &plan.cuts;
    assert_eq!((cuts.batch_wait, cuts.without_state), (Duration::from_secs(300), Some(Duration::from_secs(300))));
    assert_eq!(
        (cuts.commit_timeout, cuts.state_interval, cuts.at_end),
        (Duration::from_secs(900), Duration::from_secs(5), false)
    );
    let stream = plan.streams.resolve("orders");
    assert_eq!(stream.schema, schema::Options::default());
    assert_eq!(stream.batch, batch::Options::default());
    assert_eq!(stream.data_file, data_file::Options::default());
    assert_eq!((stream.table_path.template.as_str(), stream.table_path.default_target_schema), ("{stream}", None));
    assert_eq!((stream.max_rejects, stream.batch_size_rows), (1000, None));
    assert_eq!((stream.key_properties, stream.partition_by), (None, vec![]));
    assert!(stream.process_activate_version_messages && !stream.is_compression_set);
    assert!(!stream.hard_delete && !stream.validate_records && !stream.primary_key_required && !stream.clean_up_batch_files);
    assert_eq!(stream.deletion_vectors, DeletionVectors::Auto);
}

// Values, one row of the contract's table each

#[test]
fn settings_of_the_load_reach_the_plan() {
    let plan = good(json!({
        "on_bad_line": "skip", "commit_at": "end", "batch_wait_limit_seconds": 1.5, "commit_timeout_seconds": 60,
        "state_interval_seconds": 0.01, "memory_limit_bytes": 67_108_864, "single_writer": true, "pipeline": "nightly",
    }));
    assert_eq!(plan.on_bad_line, OnBadLine::Skip);
    assert!(plan.cuts.at_end);
    assert_eq!(plan.cuts.without_state, None);
    assert_eq!(plan.cuts.batch_wait, Duration::from_millis(1500));
    assert_eq!(plan.cuts.commit_timeout, Duration::from_secs(60));
    assert_eq!(plan.cuts.state_interval, Duration::from_millis(10));
    assert_eq!(plan.memory_limit_bytes, 64 << 20);
    assert!(plan.store.single_writer);
    assert_eq!(plan.pipeline.as_deref(), Some("nightly"));
    assert_eq!(good(json!({"commit_without_state_seconds": 0})).cuts.without_state, None);
}

#[test]
fn settings_of_streams_reach_the_plan() {
    let plan = base(json!({
        "add_record_metadata": true, "hard_delete": true, "process_activate_version_messages": false, "validate_records": true,
        "on_bad_value": "reject", "max_rejects": 7, "schema_contract": "discard_rows", "on_type_conflict": "string", "nested": "json",
        "column_names": "snake_case", "naive_timestamps": "ntz", "binary_columns": "decode", "keep_nan": true,
        "primary_key_required": true, "batch_size_rows": 500, "target_file_bytes": 4096, "clean_up_batch_files": true,
        "deletion_vectors": true, "columns": {"amount": "decimal(18,4)"}, "table_properties": {"delta.appendOnly": true},
    }));
    assert!(plan.schema.add_record_metadata && plan.hard_delete && plan.validate_records && plan.primary_key_required);
    assert!(!plan.process_activate_version_messages && plan.clean_up_batch_files);
    assert_eq!(plan.batch.on_bad_value, batch::OnBadValue::Reject);
    assert_eq!((plan.max_rejects, plan.batch_size_rows, plan.data_file.target_file_bytes), (7, Some(500), 4096));
    assert_eq!(plan.schema.schema_contract, schema::SchemaContract::DiscardRows);
    assert_eq!(plan.schema.on_type_conflict, schema::OnTypeConflict::String);
    assert_eq!(plan.schema.nested, schema::Nested::Json);
    assert_eq!(plan.schema.column_names, schema::ColumnNames::SnakeCase);
    assert_eq!(plan.schema.naive_timestamps, schema::NaiveTimestamps::Ntz);
    assert_eq!(plan.batch.naive_timestamps, schema::NaiveTimestamps::Ntz);
    assert_eq!(plan.schema.binary_columns, schema::BinaryColumns::Decode);
    assert!(plan.batch.keep_nan);
    assert_eq!(plan.deletion_vectors, DeletionVectors::On);
    assert_eq!(plan.schema.columns, BTreeMap::from([("amount".to_owned(), "decimal(18,4)".to_owned())]));
    assert_eq!(plan.table_properties, BTreeMap::from([("delta.appendOnly".to_owned(), "true".to_owned())]));
}

#[test]
fn every_supported_choice_is_accepted() {
    for setting in SETTINGS {
        for choice in setting.choices() {
            assert!(plan_of(json!({ setting.name: choice })).is_ok(), "{} {choice}", setting.name);
        }
    }
}

#[test]
fn text_is_accepted_for_every_type() {
    for (text, yes) in
        [("true", true), ("1", true), ("yes", true), ("ON", true), ("False", false), ("0", false), ("no", false), ("off", false)]
    {
        assert_eq!(base(json!({ "keep_nan": text })).batch.keep_nan, yes, "{text}");
    }
    assert_eq!(base(json!({"max_rejects": "12"})).max_rejects, 12);
    assert_eq!(base(json!({"max_rejects": 12.0})).max_rejects, 12);
    assert_eq!(good(json!({"state_interval_seconds": "2.5"})).cuts.state_interval, Duration::from_millis(2500));
    assert_eq!(base(json!({"columns": "{\"a\": \"date\"}"})).schema.columns["a"], "date");
    let plan = good(json!({"streams": "{\"a\": {\"key_properties\": \"[\\\"id\\\"]\", \"deletion_vectors\": \"True\"}}"}));
    let stream = plan.streams.resolve("a");
    assert_eq!(stream.key_properties, Some(vec!["id".to_owned()]));
    assert_eq!(stream.deletion_vectors, DeletionVectors::On);
    assert_eq!(base(json!({"deletion_vectors": false})).deletion_vectors, DeletionVectors::Off);
    // YAML takes the quotes off.
    assert_eq!(good(json!({"pipeline": 2024})).pipeline.as_deref(), Some("2024"));
}

#[test]
fn a_wrong_value_is_named_with_what_is_wanted() {
    assert_error(json!({"keep_nan": "perhaps"}), "`keep_nan` is \"perhaps\", which is not true or false");
    assert_error(json!({"max_rejects": -1}), "`max_rejects` is -1, which is not a whole number");
    assert_error(json!({"batch_size_rows": 0}), "`batch_size_rows` is 0, which is not a whole number of at least 1");
    assert_error(json!({"commit_timeout_seconds": 0}), "not a number of seconds above 0");
    assert_error(json!({"nested": "flat"}), "`nested` is \"flat\", which is not one of `struct`, `json`");
    assert_error(json!({"columns": []}), "`columns` is [], which is not a JSON object");
    assert_error(json!({"columns": {"a": 1}}), "`columns.a` is 1, which is not a type");
    assert_error(json!({"columns": {"a": "decimal(99,2)"}}), "the type \"decimal(99,2)\" of `columns.a` has");
    assert_error(json!({"destination": ""}), "`destination` is empty");
    assert_error(json!({"destination": true}), "`destination` is true, which is not text");
    assert_error(json!({"table_properties": {"delta.x": [1]}}), "`table_properties.delta.x` is [1]");
    assert_error(
        json!({"table_properties": {"delta.apendOnly": true}}),
        "the table property `delta.apendOnly` is not known (near names: `delta.appendOnly`",
    );
    assert_error(
        json!({"streams": {"a": {"table_properties": {"delta": {"enableTypeWidening": "true"}}}}}),
        "streams.a: the table property `delta.enableTypeWidening` needs",
    );
    assert_error(json!({"columns": {"a": "dat", "b": "strin"}}), "the config has 2 errors");
    assert_error(
        json!({"streams": {"a": {"partition_by": "day"}}}),
        "`streams.a.partition_by` is \"day\", which is not a list of names",
    );
}

#[test]
fn compression_takes_a_level() {
    use data_file::Compression::{Gzip, Lz4, None as Uncompressed, Snappy, Zstd};
    let codec = |text: &str| base(json!({ "compression": text })).data_file.compression;
    assert_eq!(codec("zstd"), data_file::Options::default().compression);
    assert_eq!([codec("ZSTD(9)"), codec("zstd:22")], [Zstd(9), Zstd(22)]);
    assert_eq!(
        [codec("snappy"), codec("lz4"), codec("gzip"), codec("gzip(1)"), codec("none")],
        [Snappy, Lz4, Gzip(6), Gzip(1), Uncompressed]
    );
    assert!(base(json!({"compression": "zstd"})).is_compression_set);
    assert_error(json!({"compression": "zstd(23)"}), "whose level is not from 1 to 22");
    assert_error(json!({"compression": "snappy(1)"}), "a codec without levels");
    assert_error(json!({"compression": "lzma"}), "which is not one of");
    assert_error(json!({"compression": "zstd(x)"}), "whose level is not a whole number");
}

#[test]
fn table_path_follows_the_default_schema_unless_it_is_set() {
    let path = |config: Value, stream: &str| {
        let path = good(config).streams.resolve(stream).table_path;
        (path.template, path.default_target_schema)
    };
    assert_eq!(path(json!({"default_target_schema": "raw"}), "a"), ("{schema}/{table}".to_owned(), Some("raw".to_owned())));
    let both = json!({"default_target_schema": "raw", "table_path": "{stream}"});
    assert_eq!(path(both, "a"), ("{stream}".to_owned(), Some("raw".to_owned())));
    let one = json!({"streams": {"a": {"default_target_schema": "x"}, "b": {"table_path": "/bronze/{schema}/b/"}}});
    assert_eq!(path(one.clone(), "a"), ("{schema}/{table}".to_owned(), Some("x".to_owned())));
    assert_eq!(path(one, "b"), ("bronze/{schema}/b".to_owned(), None));
    let kept = json!({"table_path": "{stream}", "streams": {"a": {"default_target_schema": "x"}}});
    assert_eq!(path(kept, "a"), ("{stream}".to_owned(), Some("x".to_owned())));
    assert_error(json!({"table_path": "{strem}"}), "something else than `{stream}`");
    assert_error(json!({"table_path": "../{stream}"}), "not a path below");
    assert_error(json!({"table_path": "a//{stream}"}), "not a path below");
    assert_error(json!({"table_path": "_delta_load/{stream}"}), "keeps for itself");
}

// What is not known, not there yet, ignored

#[test]
fn an_unknown_setting_is_an_error_with_the_nearest_name() {
    assert_error(json!({"destinaton": "/x"}), "`destinaton` is not a setting; did you mean `destination`?");
    assert_error(json!({"batch_size": 5}), "did you mean `batch_size_rows`");
    assert_error(json!({"frobnicate": 5}), "`frobnicate` is not a setting");
}

#[test]
fn all_errors_come_at_once() {
    let config = json!({
        "destinaton": "/x", "keep_nan": "perhaps", "load_method": "upsert", "stream_maps": {"a": null},
        "storage_options": {"aws_acces_key_id": "x"}, "streams": {"a": {"colums": 1, "nested": "flat"}}, "partition_by": ["day"],
    });
    let error = Folder::new(&[("config.json", &config.to_string())]).plan(&["config.json"], &[]).unwrap_err();
    let text = error.render();
    for part in [
        "the config has 9 errors",
        "`destinaton` is not a setting",
        "`keep_nan` is",
        "`load_method: upsert` is not supported by this version, which has `append-only`, `overwrite`",
        "`stream_maps` is not supported by this version",
        "`aws_acces_key_id` is not a storage option; did you mean `aws_access_key_id`",
        "`colums` of `streams.a` is not a setting of a stream; did you mean `columns`?",
        "`streams.a.nested` is \"flat\"",
        "`partition_by` is a setting of a stream",
        "`destination` is not set",
        "hint:",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn what_is_not_supported_is_refused_by_name_unless_it_is_the_default() {
    let refused = [
        ("format", json!("csv")),
        ("load_method", json!("history")),
        ("nested", json!("variant")),
        ("nested", json!("flatten")),
        ("flattening_enabled", json!("true")),
        ("flattening_max_depth", json!(3)),
        ("flattening_separator", json!(".")),
        ("flattening_max_key_length", json!(30)),
        ("column_names", json!("preserve")),
        ("stream_maps", json!({"a": {}})),
        ("stream_map_config", json!({"a": 1})),
        ("on_no_pk", json!("row_hash")),
        ("partial_updates", json!(false)),
        ("spill_directory", json!("/tmp")),
        ("spill_limit_bytes", json!(1)),
        ("auto_compact", json!(true)),
        ("vacuum_retention", json!("7 days")),
        ("purge_after", json!("7 days")),
        ("path_template", json!("x")),
        ("symlink_manifest", json!(true)),
        ("lock", json!(true)),
        ("lock_timeout_seconds", json!(5)),
    ];
    for (name, value) in &refused {
        assert_error(json!({ *name: value }), &format!("`{name}"));
        assert_error(json!({ *name: value }), "is not supported by this version");
    }
    assert_error(json!({"streams": {"a": {"cluster_by": ["x"]}}}), "streams.a: `cluster_by` is not supported by this version");
    for setting in SETTINGS.iter().filter(|setting| setting.support != Support::Full && setting.scope != Scope::OnlyStream) {
        assert!(refused.iter().any(|(name, _)| *name == setting.name), "{} has no row", setting.name);
        assert!(plan_of(json!({ setting.name: setting.default_value() })).is_ok(), "{}", setting.name);
    }
    assert!(plan_of(json!({"stream_maps": {}, "lock_timeout_seconds": "600.0"})).is_ok());
}

#[test]
fn aliases_are_read_and_foreign_settings_ignored_with_a_notice() {
    let plan = good(json!({
        "add_metadata_columns": true, "data_flattening_max_level": 0, "batch_config": {}, "faker_config": {}, "parallelism": 0,
        "parallelism_max": 4, "flush_all_streams": true, "temp_dir": "/tmp",
    }));
    assert!(plan.streams.base.schema.add_record_metadata);
    assert_eq!(plan.notices.len(), 7);
    assert!(plan.notices.contains(&"the setting `add_metadata_columns` is read as `add_record_metadata`".to_owned()));
    assert!(plan.notices.iter().any(|notice| notice.starts_with("the setting `temp_dir` is ignored")));
    assert_error(json!({"add_metadata_columns": true, "add_record_metadata": false}), "are one setting and differ");
    assert_error(json!({"add_record_metadata": false, "add_metadata_columns": true}), "are one setting and differ");
    assert_error(json!({"data_flattening_max_level": 2}), "`flattening_max_depth` is not supported");
}

// Several sources

#[test]
fn later_files_win_key_by_key_and_null_unsets() {
    let folder = Folder::new(&[
        ("a.json", r#"{"destination": "/a", "max_rejects": 1, "keep_nan": true, "columns": {"x": "date"}}"#),
        ("b.json", r#"{"max_rejects": 2, "keep_nan": null, "columns": {"y": "date"}}"#),
    ]);
    let plan = folder.plan(&["a.json", "b.json"], &[]).unwrap();
    assert_eq!(plan.destination.as_str(), "file:///a/");
    assert_eq!(plan.streams.base.max_rejects, 2);
    assert!(!plan.streams.base.batch.keep_nan);
    assert_eq!(plan.streams.base.schema.columns.keys().collect::<Vec<_>>(), ["y"]);
    assert_eq!(folder.plan(&["b.json", "a.json"], &[]).unwrap().streams.base.max_rejects, 1);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new(&[
        ("bad.json", "{\"destination\": "),
        ("list.json", "[]"),
        ("bom.json", "\u{feff}{\"destination\": \"/x\"}"),
    ]);
    assert_eq!(folder.plan(&["none.json"], &[]).unwrap_err().message(), "the config file `none.json` cannot be read");
    let error = folder.plan(&["bad.json"], &[]).unwrap_err();
    assert_eq!((error.message(), error.exit_code()), ("the config file `bad.json` is not JSON", 2));
    assert_eq!(folder.plan(&["list.json"], &[]).unwrap_err().message(), "the config file `list.json` is not a JSON object");
    assert!(folder.plan(&["bom.json"], &[]).is_ok());
}

#[test]
fn env_wins_over_files_and_unknown_names_there_are_no_errors() {
    let folder = Folder::new(&[
        ("a.json", r#"{"destination": "/a", "max_rejects": 1}"#),
        (".env", "TARGET_DELTA_MAX_REJECTS=3\nDELTA_LOAD_KEEP_NAN=true\nTARGET_DELTA_PIPELINE='from file'\n"),
    ]);
    let variables = [
        ("TARGET_DELTA_DESTINATION", "/b"),
        ("TARGET_DELTA_BATCH_SIZE_ROWS", "10"),
        ("DELTA_LOAD_BATCH_SIZE_ROWS", "20"),
        ("TARGET_DELTA_PIPELINE", "from environment"),
        ("TARGET_DELTA__DIALECT", "x"),
        ("TARGET_DELTA__LOG_PARSER", "singer-sdk"),
        ("TARGET_DELTA_STREAMS_PUBLIC_ORDERS_LOAD_METHOD", "upsert"),
        ("TARGET_DELTA_LOGLEVEL", "DEBUG"),
        ("TARGET_DELTA_TABLE_PATH", ""),
        ("TARGET_DELTA_COLUMNS", r#"{"a": "date"}"#),
    ];
    let plan = folder.plan(&["ENV", "a.json"], &variables).unwrap();
    assert_eq!(plan.destination.as_str(), "file:///b/");
    let stream = &plan.streams.base;
    assert_eq!((stream.max_rejects, stream.batch_size_rows, stream.batch.keep_nan), (3, Some(20), true));
    assert_eq!(stream.schema.columns["a"], "date");
    assert_eq!(plan.pipeline.as_deref(), Some("from environment"));
    // Without ENV nothing comes from there.
    let plan = folder.plan(&["a.json"], &variables).unwrap();
    assert_eq!((plan.destination.as_str(), plan.streams.base.max_rejects), ("file:///a/", 1));
}

#[test]
fn a_bad_dotenv_is_an_error_that_shows_no_value() {
    let folder = Folder::new(&[(".env", "DELTA_LOAD_DESTINATION=/x\nsecret words here\n")]);
    let error = folder.plan(&["ENV"], &[]).unwrap_err().render();
    assert!(error.contains("`.env` has a line that is no NAME=VALUE") && !error.contains("secret"), "{error}");
}

#[test]
fn a_storage_option_may_come_from_the_environment_alone() {
    let folder =
        Folder::new(&[("a.json", r#"{"destination": "/a", "storage_options": {"AWS_REGION": "eu", "aws_profile": "p"}}"#)]);
    let variables =
        [("DELTA_LOAD_STORAGE_OPTIONS_AWS_SECRET_ACCESS_KEY", "s"), ("TARGET_DELTA_STORAGE_OPTIONS_AWS_REGION", "us")];
    let options = folder.plan(&["a.json", "ENV"], &variables).unwrap().store.storage_options;
    let expected = [("aws_profile", "p"), ("aws_region", "us"), ("aws_secret_access_key", "s")];
    assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

// Nesting

#[test]
fn nested_table_properties_are_joined() {
    let expected = BTreeMap::from([
        ("delta.appendOnly".to_owned(), "true".to_owned()),
        ("delta.logRetentionDuration".to_owned(), "interval 7 days".to_owned()),
    ]);
    for config in [
        json!({"table_properties": {"delta": {"appendOnly": "true", "logRetentionDuration": "interval 7 days"}}}),
        json!({"table_properties": {"delta.appendOnly": true, "delta": {"logRetentionDuration": "interval 7 days"}}}),
        json!({"table_properties.delta.appendOnly": true, "table_properties.delta.logRetentionDuration": "interval 7 days"}),
    ] {
        assert_eq!(base(config.clone()).table_properties, expected, "{config}");
    }
}

#[test]
fn nested_stream_names_are_joined_until_a_setting() {
    for config in [
        json!({"streams": {"public": {"orders": {"max_rejects": 5, "table_properties": {"delta": {"appendOnly": "true"}}}}}}),
        json!({"streams": {"public.orders": {"max_rejects": 5, "table_properties.delta.appendOnly": "true"}}}),
        json!({"streams": {"public.orders.max_rejects": 5, "public": {"orders.table_properties": {"delta.appendOnly": true}}}}),
        json!({"streams.public.orders.max_rejects": 5, "streams.public.orders.table_properties.delta.appendOnly": "true"}),
    ] {
        let plan = good(config.clone());
        assert_eq!(plan.streams.exact.keys().collect::<Vec<_>>(), ["public.orders"], "{config}");
        let stream = plan.streams.resolve("public.orders");
        assert_eq!(stream.max_rejects, 5);
        assert_eq!(stream.table_properties["delta.appendOnly"], "true");
    }
    let plan = good(json!({"streams": {"public": {"orders": {"max_rejects": 5}, "raw": {"x_*": {"max_rejects": 6}}}, "c": {}}}));
    assert_eq!(plan.streams.resolve("public.raw.x_1").max_rejects, 6);
    assert_eq!(plan.streams.unmatched(&["public.orders"]), ["c", "public.raw.x_*"]);
}

#[test]
fn elsewhere_dotted_names_nest() {
    let plan = good(
        json!({"storage_options.aws_region": "eu", "storage_options.aws_profile": "p", "columns": {"user": {"name": "string"}}}),
    );
    assert_eq!(plan.store.storage_options.len(), 2);
    assert_eq!(plan.streams.base.schema.columns["user.name"], "string");
}

// Streams

#[test]
fn an_exact_name_beats_globs_and_the_later_glob_wins_per_setting() {
    let plan = good(json!({
        "max_rejects": 1, "nested": "json",
        "streams": {
            "orders": {"max_rejects": 4},
            "o*": {"max_rejects": 2, "keep_nan": true, "batch_size_rows": 10},
            "*s": {"max_rejects": 3, "batch_size_rows": 20},
        },
    }));
    let orders = plan.streams.resolve("orders");
    assert_eq!((orders.max_rejects, orders.batch.keep_nan, orders.batch_size_rows), (4, true, Some(20)));
    assert_eq!(orders.schema.nested, schema::Nested::Json);
    let others = plan.streams.resolve("others");
    assert_eq!((others.max_rejects, others.batch.keep_nan, others.batch_size_rows), (3, true, Some(20)));
    assert_eq!(plan.streams.resolve("o").max_rejects, 2);
    assert_eq!(plan.streams.resolve("x").max_rejects, 1);
    assert_eq!(plan.streams.unmatched(&["o"]), ["orders", "*s"]);
}

#[test]
fn an_entry_may_name_keys_and_partitions() {
    let plan = good(
        json!({"streams": {"a": {"key_properties": ["id"], "partition_by": ["day", "region"], "columns": {"day": "date"}}}}),
    );
    let stream = plan.streams.resolve("a");
    assert_eq!(stream.key_properties, Some(vec!["id".to_owned()]));
    assert_eq!(stream.partition_by, ["day", "region"]);
    assert_eq!(stream.schema.columns["day"], "date");
    assert!(plan.streams.resolve("b").schema.columns.is_empty());
}

#[test]
fn a_wrong_entry_is_named() {
    assert_error(json!({"streams": {"a": 5}}), "`streams.a` is not an object of settings");
    assert_error(
        json!({"streams": {"a": {"max_reject": 5}}}),
        "`max_reject` of `streams.a` is not a setting of a stream; did you mean `max_rejects`",
    );
    assert_error(json!({"streams": {"a": {"destination": "/x"}}}), "`destination` of `streams.a` is a setting of the whole load");
    assert_error(json!({"streams": {"a[": {"max_rejects": 5}}}), "`streams.a[` is not a glob");
    assert_error(json!({"streams": {"a": {"compression": "lzma"}}}), "streams.a: `compression` is \"lzma\"");
}

#[test]
fn deletion_vectors_and_their_property_must_agree() {
    let config =
        json!({"streams": {"a": {"deletion_vectors": true, "table_properties": {"delta.enableDeletionVectors": "false"}}}});
    assert_error(config, "streams.a: `deletion_vectors` and the table property");
}

// Storage options

#[test]
fn storage_options_are_known_in_any_case() {
    let plan = good(json!({
        "destination": "/lake",
        "storage_options": {"AWS_ACCESS_KEY_ID": "k", "Azure_Storage_Account_Key": "x", "google_service_account": "f", "allow_http": true, "timeout": 30},
    }));
    let names: Vec<_> = plan.store.storage_options.keys().map(String::as_str).collect();
    assert_eq!(names, ["allow_http", "aws_access_key_id", "azure_storage_account_key", "google_service_account", "timeout"]);
    assert_eq!(plan.store.storage_options["allow_http"], "true");
    assert!(plan.notices[0].ends_with("not used by a `file:` destination"), "{:?}", plan.notices);
}

#[test]
fn options_about_commits_are_a_notice() {
    let plan = good(
        json!({"storage_options": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "aws_s3_locking_provider": "dynamodb", "aws_conditional_put": "etag"}}),
    );
    assert!(plan.store.storage_options.is_empty());
    assert_eq!(plan.notices.len(), 1);
    assert!(plan.notices[0].contains("`aws_s3_allow_unsafe_rename`") && plan.notices[0].contains("not needed"));
}

#[test]
fn secrets_are_not_shown() {
    let error = error(json!({"storage_options": {"aws_secret_access_key": ["hunter2"]}}));
    assert!(error.contains("aws_secret_access_key") && !error.contains("hunter2"), "{error}");
    let error = super::tests::error(json!({"storage_options": "hunter2"}));
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn an_option_given_twice_is_an_error() {
    assert_error(json!({"storage_options": {"aws_region": "a", "AWS_REGION": "b"}}), "`aws_region` is given twice");
}

// Pipeline

#[test]
fn the_pipeline_is_named_after_the_orchestrators_variables() {
    let folder =
        Folder::new(&[("a.json", r#"{"destination": "/a"}"#), ("b.json", r#"{"destination": "/a", "pipeline": "mine"}"#)]);
    let mut variables = vec![("MELTANO_EXTRACTOR_NAME", "tap-x"), ("MELTANO_LOADER_NAME", "target-delta")];
    assert_eq!(folder.plan(&["a.json"], &variables).unwrap().pipeline.as_deref(), Some("tap-x-to-target-delta"));
    variables.push(("MELTANO_ENVIRONMENT", "dev"));
    assert_eq!(folder.plan(&["a.json"], &variables).unwrap().pipeline.as_deref(), Some("dev:tap-x-to-target-delta"));
    assert_eq!(folder.plan(&["b.json"], &variables).unwrap().pipeline.as_deref(), Some("mine"));
}

#[test]
fn a_config_without_a_destination_names_it() {
    let error = plan(&[], &Environment::default()).unwrap_err();
    assert!(error.message().contains("`destination` is not set"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("--config")));
    assert_eq!(error.exit_code(), 2);
}

// About

#[test]
fn about_json_has_the_keys_that_the_hub_reads() {
    let about: Value = serde_json::from_str(&about(AboutFormat::Json)).unwrap();
    let keys: Vec<_> = about.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "description", "version", "sdk_version", "supported_python_versions", "capabilities", "settings"]);
    let settings = &about["settings"];
    assert_eq!(settings["required"], json!(["destination"]));
    assert_eq!(settings["properties"]["destination"]["type"], json!(["string"]));
    assert_eq!(settings["properties"]["load_method"]["enum"], json!(["append-only", "overwrite"]));
    let options = &settings["properties"]["storage_options"]["properties"];
    assert_eq!(options["aws_secret_access_key"]["secret"], json!(true));
    assert_eq!(options["aws_region"].get("secret"), None);
    for setting in SETTINGS.iter().filter(|setting| setting.scope != Scope::OnlyStream) {
        let property = &settings["properties"][setting.name];
        assert_eq!(property.is_null(), !setting.is_supported(), "{}", setting.name);
        if let (Kind::Choice(_), true) = (setting.kind, setting.is_supported()) {
            assert_eq!(property["default"], setting.default_value());
        }
    }
}

#[test]
fn about_json_is_the_recorded_one() {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r#""version": "[^"]*""#, r#""version": "[version]""#);
    settings.bind(|| insta::assert_snapshot!("about_json", about(AboutFormat::Json)));
}

/// After a change of the settings: `cargo run -- --about --format markdown > docs/settings.md`
#[test]
fn the_docs_are_what_about_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), about(AboutFormat::Markdown));
}

#[test]
fn about_text_lists_every_supported_setting() {
    let text = about(AboutFormat::Text);
    for setting in SETTINGS.iter().filter(|setting| setting.is_supported()) {
        assert!(text.contains(&format!("\n  {} (", setting.name)), "{}", setting.name);
    }
}
