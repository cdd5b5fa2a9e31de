//! The table of all settings, in the order of the docs.

use super::settings::Setting;

/// All settings.
pub static SETTINGS: &[Setting] = &[
    Setting::text(
        "destination",
        "null",
        "Destination",
        "Root of all tables: a path or a URL (`/lake`, `file:///lake`, `s3://bucket/lake`, `memory://`). Below it each stream has \
         a table.",
    )
    .required(),
    Setting::text(
        "table_path",
        "null",
        "Table path",
        "Path of a table below the root, made of `{stream}`, `{schema}` and `{table}` (the name split at `-`: the last part is the \
         table, the one before it the schema). Without it: `{stream}`, or `{schema}/{table}` where `default_target_schema` is set.",
    )
    .per_stream(),
    Setting::text(
        "default_target_schema",
        "null",
        "Default target schema",
        "What `{schema}` in `table_path` stands for, whatever the stream's name says.",
    )
    .per_stream(),
    Setting::choice(
        "format",
        &["delta", "parquet", "csv", "csv.gz", "jsonl", "jsonl.gz"],
        "\"delta\"",
        "Format",
        "Format of the tables.",
    )
    .supports(&["delta"])
    .per_stream(),
    Setting::choice(
        "load_method",
        &["append-only", "upsert", "overwrite", "history"],
        "\"append-only\"",
        "Load method",
        "How records get into the table. `append-only`: every record is a row. `overwrite`: at the end of the input the stream's rows \
         take the place of all that the table held, in one commit; after a failure, or when no STATE or ACTIVATE_VERSION followed \
         its last record, the table stays as it was.",
    )
    .supports(&["append-only", "overwrite"])
    .per_stream(),
    Setting::object(
        "streams",
        "Streams",
        "Settings per stream: `{\"orders\": {\"partition_by\": [\"day\"]}, \"raw_*\": {\"nested\": \"json\"}}`. An exact name beats \
         globs; of globs the later wins, setting by setting.",
    ),
    Setting::names(
        "key_properties",
        "Key properties",
        "Names of the key fields; they win over the `key_properties` that the tap sends.",
    )
    .only_stream(),
    Setting::names(
        "partition_by",
        "Partition columns",
        "Fields by which a new table is partitioned.",
    )
    .only_stream(),
    Setting::names("cluster_by", "Clustering columns", "Fields by which a new table is clustered.").only_stream().refused(),
    Setting::object(
        "table_properties",
        "Table properties",
        "Properties of a new table, such as `{\"delta.logRetentionDuration\": \"interval 7 days\"}`. In an entry of `streams` it \
         takes the place of the one at the top.",
    )
    .per_stream(),
    Setting::object(
        "columns",
        "Column types",
        "Types of columns by field name: Spark DDL types and `json`, as in `{\"amount\": \"decimal(18,4)\"}`. They win over what the \
         tap declares. In an entry of `streams` it takes the place of the one at the top.",
    )
    .per_stream(),
    Setting::object(
        "storage_options",
        "Storage options",
        "Options of the object store, under the names that deltalake and dlt use, in any case (docs/stores.md).",
    )
    .secret(),
    Setting::boolean(
        "add_record_metadata",
        "false",
        "Add record metadata",
        "Add the columns `_sdc_extracted_at`, `_sdc_received_at`, `_sdc_batched_at`, `_sdc_deleted_at`, `_sdc_sequence`, \
         `_sdc_table_version` and `_sdc_sync_started_at`.",
    )
    .per_stream(),
    Setting::boolean(
        "overwrite_at_end",
        "false",
        "Overwrite at the end",
        "Take a good end of the input as the end of an overwritten stream whose last record no STATE or ACTIVATE_VERSION followed.",
    )
    .per_stream(),
    Setting::boolean(
        "hard_delete",
        "false",
        "Hard delete",
        "Delete rows instead of marking them. With `append-only` rows with `_sdc_deleted_at` are appended as they are.",
    )
    .per_stream(),
    Setting::boolean(
        "process_activate_version_messages",
        "true",
        "Process ACTIVATE_VERSION",
        "Whether ACTIVATE_VERSION messages and the `version` of records count.",
    )
    .per_stream(),
    Setting::boolean(
        "validate_records",
        "false",
        "Validate records",
        "Check every record against the whole JSON Schema (required fields, formats, enums, undeclared nulls …). Types are checked \
         always.",
    )
    .per_stream(),
    Setting::choice(
        "on_bad_value",
        &["fail", "set_null", "reject"],
        "\"fail\"",
        "On a bad value",
        "What a value that its column cannot hold does. `fail`: the load fails. `set_null`: null, counted; keys and partition columns \
         fail all the same. `reject`: the record goes to `_rejects/<stream>/` below the destination.",
    )
    .per_stream(),
    Setting::integer(
        "max_rejects",
        0,
        "1000",
        "Most rejects",
        "Rejected records per run and stream; one more fails the load.",
    )
    .per_stream(),
    Setting::choice(
        "on_bad_line",
        &["fail", "skip"],
        "\"fail\"",
        "On a bad line",
        "What an input line that is not JSON does. `skip`: it is left out, counted; a last line that is cut off fails all the same.",
    ),
    Setting::choice(
        "schema_contract",
        &["evolve", "freeze", "discard_columns", "discard_rows"],
        "\"evolve\"",
        "Schema contract",
        "What a field without a column does. `evolve`: a column is added. `freeze`: the load fails. `discard_columns`: the field is \
         left out. `discard_rows`: the row is left out. What is left out is counted.",
    )
    .per_stream(),
    Setting::choice(
        "on_type_conflict",
        &["variant_column", "fail", "string"],
        "\"variant_column\"",
        "On a type conflict",
        "Where values go whose type the column of an existing table cannot hold. `variant_column`: to `<name>__<type>`. `string`: to \
         `<name>__string`. `fail`: the load fails.",
    )
    .per_stream(),
    Setting::choice(
        "nested",
        &["struct", "json", "variant", "flatten"],
        "\"struct\"",
        "Nested data",
        "What objects and arrays become. `struct`: structs, lists and maps. `json`: JSON text.",
    )
    .supports(&["struct", "json"])
    .per_stream(),
    Setting::boolean("flattening_enabled", "false", "Flattening", "Flatten nested objects.").per_stream().refused(),
    Setting::integer("flattening_max_depth", 0, "null", "Flattening depth", "Levels that are flattened.").per_stream().refused(),
    Setting::text("flattening_separator", "\"__\"", "Flattening separator", "Text between the joined names.").per_stream().refused(),
    Setting::integer("flattening_max_key_length", 1, "null", "Flattening key length", "Longest joined name.").per_stream().refused(),
    Setting::choice(
        "column_names",
        &["clean", "preserve", "snake_case", "lower"],
        "\"clean\"",
        "Column names",
        "How column names are made. `clean`: characters that Delta does not allow become `_`. `snake_case`, `lower`: that form, then \
         as `clean`.",
    )
    .supports(&["clean", "snake_case", "lower"])
    .per_stream(),
    Setting::choice(
        "naive_timestamps",
        &["utc", "ntz"],
        "\"utc\"",
        "Naive timestamps",
        "What a date-time without an offset means. `utc`: UTC. `ntz`: a wall clock, and date-time columns are `timestamp_ntz`.",
    )
    .per_stream(),
    Setting::choice(
        "binary_columns",
        &["text", "decode"],
        "\"text\"",
        "Binary columns",
        "What text with `contentEncoding` becomes. `text`: a string. `decode`: bytes.",
    )
    .per_stream(),
    Setting::boolean(
        "keep_nan",
        "false",
        "Keep NaN",
        "Keep NaN and infinities in double columns; otherwise they become null, counted.",
    )
    .per_stream(),
    Setting::object("stream_maps", "Stream maps", "Stream maps of the Meltano SDK.").refused(),
    Setting::object("stream_map_config", "Stream map config", "Values for the expressions of stream maps.").refused(),
    Setting::choice(
        "deletion_vectors",
        &["auto", "true", "false"],
        "\"auto\"",
        "Deletion vectors",
        "Whether a new table is created with deletion vectors. `auto`: it is not. A table that exists stays as it is.",
    )
    .per_stream(),
    Setting::choice(
        "on_no_pk",
        &["append", "row_hash", "fail"],
        "\"append\"",
        "On no primary key",
        "What an upsert without keys does.",
    )
    .supports(&["append"])
    .per_stream(),
    Setting::boolean(
        "primary_key_required",
        "false",
        "Primary key required",
        "Refuse a stream that has no keys.",
    )
    .per_stream(),
    Setting::boolean(
        "partial_updates",
        "true",
        "Partial updates",
        "Whether a field that is absent from a record keeps its value in an upsert.",
    )
    .per_stream()
    .refused(),
    Setting::choice(
        "commit_at",
        &["state", "end"],
        "\"state\"",
        "Commit at",
        "When tables are committed. `state`: at STATE messages. `end`: once per table, at a good end of the input; no STATE leaves \
         before.",
    ),
    Setting::integer(
        "batch_size_rows",
        1,
        "null",
        "Batch size",
        "Commit at the first STATE after so many rows of a stream.",
    )
    .per_stream(),
    Setting::seconds(
        "batch_wait_limit_seconds",
        true,
        "300",
        "Batch wait limit",
        "Commit at the first STATE after so many seconds; 0: at every STATE.",
    ),
    Setting::seconds(
        "commit_without_state_seconds",
        true,
        "300",
        "Commit without a STATE",
        "Commit without a STATE after so many seconds; 0: never. Not used with `commit_at: end`.",
    ),
    Setting::seconds(
        "commit_timeout_seconds",
        false,
        "900",
        "Commit timeout",
        "How long a commit is tried.",
    ),
    Setting::seconds(
        "state_interval_seconds",
        true,
        "5",
        "State interval",
        "The shortest time between two STATE lines on stdout; 0: none. The last one is always written.",
    ),
    Setting::integer(
        "memory_limit_bytes",
        64 << 20,
        "536870912",
        "Memory limit",
        "In-memory bytes of all streams. An input line may take a fifth of it.",
    ),
    Setting::integer(
        "target_file_bytes",
        1,
        "134217728",
        "Target file size",
        "Encoded bytes at which a data file is closed.",
    )
    .per_stream(),
    Setting::text("spill_directory", "null", "Spill directory", "Folder for what exceeds memory in an upsert.").refused(),
    Setting::integer("spill_limit_bytes", 1, "10737418240", "Spill limit", "Most bytes in the spill directory.").refused(),
    Setting::boolean(
        "single_writer",
        "false",
        "Single writer",
        "Write to a store that does not refuse to replace an object. Two writers at once lose commits there.",
    ),
    Setting::text(
        "compression",
        "\"zstd\"",
        "Compression",
        "Codec of data files, with a level where it has one: `zstd`, `zstd(3)`, `snappy`, `lz4`, `gzip`, `gzip(6)`, `none`. \
         Without it the property `delta.parquet.compression.codec` of a table wins.",
    )
    .per_stream(),
    Setting::boolean("auto_compact", "false", "Auto-compact", "Pack small files at the end of a load.").per_stream().refused(),
    Setting::text("vacuum_retention", "null", "Vacuum retention", "Delete files that no version of that age names.").per_stream().refused(),
    Setting::text("purge_after", "null", "Purge after", "Age at which replaced files of plain datasets are deleted.").per_stream().refused(),
    Setting::text("path_template", "null", "Path template", "Names of plain files.").per_stream().refused(),
    Setting::boolean("symlink_manifest", "false", "Symlink manifest", "Keep a manifest for Athena and Presto.").per_stream().refused(),
    Setting::boolean("lock", "false", "Lock", "Hold an advisory lease during a load.").per_stream().refused(),
    Setting::seconds("lock_timeout_seconds", false, "600", "Lock timeout", "How long a lease is waited for.").per_stream().refused(),
    Setting::boolean(
        "clean_up_batch_files",
        "false",
        "Clean up BATCH files",
        "Delete the files of BATCH messages after their commit.",
    )
    .per_stream(),
    Setting::text(
        "pipeline",
        "null",
        "Pipeline",
        "Name shown in commits. Without it: `{environment}:{extractor}-to-{loader}` from Meltano's variables.",
    ),
];

/// Other names of settings.
pub(super) static ALIASES: &[(&str, &str)] =
    &[("add_metadata_columns", "add_record_metadata"), ("data_flattening_max_level", "flattening_max_depth")];

/// Settings of other targets that mean nothing here, with the reason.
pub(super) static IGNORED: &[(&str, &str)] = &[
    ("batch_config", "BATCH messages are read whatever their encoding"),
    ("faker_config", "there are no generated values"),
    ("parallelism", "the work is spread over all cores"),
    ("parallelism_max", "the work is spread over all cores"),
    ("flush_all_streams", "a cut is one position of the input for all streams"),
    ("temp_dir", "nothing is written to a temporary folder"),
];

/// Returns the setting of that name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
