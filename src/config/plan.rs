//! Checked settings → the plan of a load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::settings::{Scope, Setting};
use super::sources::unknown;
use super::table::{SETTINGS, setting};
use super::{Environment, Problems, storage_options, streams, value};
use crate::load::{Cuts, DeletionVectors, LoadMethod, OnBadLine, Plan, StreamPatch, StreamPlan, StreamPlans, TablePath};
use crate::{batch, data_file, delta, schema, store};

/// Values of known settings, each of its type, supported.
type Values = BTreeMap<&'static str, Value>;

/// Where tables lie when `table_path` is not set: without and with `default_target_schema`.
const STREAM_TEMPLATE: &str = "{stream}";
const SCHEMA_TEMPLATE: &str = "{schema}/{table}";

/// Returns the plan; `None` only when a problem was added.
pub(super) fn build(settings: Map<String, Value>, environment: &Environment, problems: &mut Problems) -> Option<Plan> {
    let given = check(&settings, "", problems);
    let streams = stream_plans(&given, problems);
    let root = destination(&given, problems);
    let options = match given.get("storage_options").and_then(Value::as_object) {
        Some(options) => storage_options::parse(options, problems),
        None => BTreeMap::new(),
    };
    if let Some(root) = &root {
        storage_options::notice_unused(&options, root.scheme(), problems);
    }
    let cuts = cuts(&given);
    Some(Plan {
        destination: root?,
        store: store::Options { storage_options: options, single_writer: is_on(&given, "single_writer") },
        cuts,
        memory_limit_bytes: number(&given, "memory_limit_bytes"),
        on_bad_line: if text(&given, "on_bad_line") == "skip" { OnBadLine::Skip } else { OnBadLine::Fail },
        streams,
        pipeline: given.get("pipeline").and_then(Value::as_str).map(str::to_owned).or_else(|| orchestrated(environment)),
        working_directory: environment.working_directory.clone(),
        notices: std::mem::take(&mut problems.notices),
    })
}

/// Returns the known and supported settings among `settings`; `place` is put before their names in errors.
fn check(settings: &Map<String, Value>, place: &str, problems: &mut Problems) -> Values {
    let mut values = Values::new();
    for (name, given) in settings {
        let shown = format!("{place}{name}");
        let Some(setting) = setting(name) else {
            problems.add(unknown(name));
            continue;
        };
        if place.is_empty() && setting.scope == Scope::OnlyStream {
            problems
                .add(format!("`{name}` is a setting of a stream; for all of them: \"streams\": {{\"*\": {{\"{name}\": …}}}}"));
            continue;
        }
        if given.is_null() {
            continue;
        }
        match value::coerce(setting, &shown, given) {
            Err(problem) => problems.add(problem),
            Ok(value) => match setting.refusal(&value) {
                Some(refusal) if place.is_empty() => problems.add(refusal),
                Some(refusal) => problems.add(format!("{}: {refusal}", place.trim_end_matches('.'))),
                None => {
                    values.insert(setting.name, value);
                }
            },
        }
    }
    values
}

fn destination(given: &Values, problems: &mut Problems) -> Option<url::Url> {
    let Some(text) = given.get("destination").and_then(Value::as_str) else {
        // One that is there and wrong is told already.
        if !problems.errors.iter().any(|error| error.starts_with("`destination`")) {
            problems.add("`destination` is not set: the root of all tables, a path or a URL");
            problems.hints.push(
                "pass `--config FILE` with {\"destination\": \"/lake\"}, or `--config ENV` with DELTA_LOAD_DESTINATION=/lake"
                    .to_owned(),
            );
        }
        return None;
    };
    match store::normalise_destination(text) {
        Ok(url) => Some(url),
        Err(error) => {
            problems.add(error.to_string());
            problems.hints.extend(error.hint_text().map(str::to_owned));
            None
        }
    }
}

fn cuts(given: &Values) -> Cuts {
    let at_end = text(given, "commit_at") == "end";
    let without_state = seconds(given, "commit_without_state_seconds");
    Cuts {
        batch_wait: seconds(given, "batch_wait_limit_seconds"),
        without_state: (!at_end && !without_state.is_zero()).then_some(without_state),
        commit_timeout: seconds(given, "commit_timeout_seconds"),
        state_interval: seconds(given, "state_interval_seconds"),
        at_end,
    }
}

/// Returns what the orchestrator calls the pipeline. No job or run id is passed to a target.
fn orchestrated(environment: &Environment) -> Option<String> {
    let extractor = environment.variable("MELTANO_EXTRACTOR_NAME")?;
    let loader = environment.variable("MELTANO_LOADER_NAME")?;
    let name = format!("{extractor}-to-{loader}");
    Some(environment.variable("MELTANO_ENVIRONMENT").map_or(name.clone(), |environment| format!("{environment}:{name}")))
}

fn stream_plans(given: &Values, problems: &mut Problems) -> StreamPlans {
    let mut base = empty_plan();
    let all = SETTINGS.iter().filter(|setting| setting.scope != Scope::Load);
    let defaults = all.filter(|setting| !given.contains_key(setting.name)).map(|setting| (setting, setting.default_value()));
    let set = given.iter().filter_map(|(name, value)| Some((setting(name)?, value.clone())));
    // By name within what is given, as in a patch: `table_path` after `default_target_schema`, over which it wins.
    for (setting, value) in defaults.chain(set.filter(|(setting, _)| setting.scope != Scope::Load)) {
        if let Err(found) = apply(setting, &value, &mut base) {
            found.into_iter().for_each(|problem| problems.add(problem));
        }
    }
    // The default came the same way; a table's own codec wins over it.
    base.is_compression_set = given.contains_key("compression");
    let mut plans = StreamPlans { base, exact: BTreeMap::new(), globs: Vec::new() };
    let empty = Map::new();
    let streams = given.get("streams").and_then(Value::as_object).unwrap_or(&empty);
    let mut exact = Vec::new();
    for entry in streams::entries(streams, problems) {
        let place = format!("streams.{}.", entry.name);
        let values = check(&entry.settings, &place, problems);
        let mut patch = Vec::new();
        for (name, value) in values {
            let Some(setting) = setting(name) else { continue };
            match apply(setting, &value, &mut plans.base.clone()) {
                Ok(()) => patch.push((setting, value)),
                Err(found) => found.iter().for_each(|problem| problems.add(format!("streams.{}: {problem}", entry.name))),
            }
        }
        let patch = stream_patch(patch, given.get("table_path").cloned());
        if !streams::is_glob(&entry.name) {
            exact.push((entry.name, patch));
            continue;
        }
        match globset::Glob::new(&entry.name) {
            Ok(glob) => plans.globs.push((glob.compile_matcher(), entry.name, patch)),
            Err(error) => problems.add(format!("`streams.{}` is not a glob: {}", entry.name, error.kind())),
        }
    }
    // Globs that stand after an exact name count for it too, so all of them are known first.
    for (name, patch) in exact {
        let mut plan = plans.resolve(&name);
        (patch.0)(&mut plan);
        plans.exact.insert(name, plan);
    }
    check_streams(&plans, problems);
    plans
}

/// `table_path`: the one of the whole load, which an entry's `default_target_schema` must not replace.
fn stream_patch(mut values: Vec<(&'static Setting, Value)>, table_path: Option<Value>) -> StreamPatch {
    let has = |values: &[(&Setting, Value)], name| values.iter().any(|(setting, _)| setting.name == name);
    if let (Some(path), Some(setting)) = (table_path, setting("table_path"))
        && has(&values, "default_target_schema")
        && !has(&values, "table_path")
    {
        values.push((setting, path));
    }
    StreamPatch(Arc::new(move |plan| {
        for (setting, value) in &values {
            let applied = apply(setting, value, plan);
            debug_assert!(applied.is_ok(), "a value that was checked is refused: the stream would run with another setting");
        }
    }))
}

/// Finds settings of one stream that contradict each other.
fn check_streams(plans: &StreamPlans, problems: &mut Problems) {
    let mut all = vec![(String::new(), plans.base.clone())];
    all.extend(plans.exact.iter().map(|(name, plan)| (format!("streams.{name}: "), plan.clone())));
    for (_, name, patch) in &plans.globs {
        let mut plan = plans.base.clone();
        (patch.0)(&mut plan);
        all.push((format!("streams.{name}: "), plan));
    }
    for (place, plan) in &all {
        let property = plan.table_properties.get("delta.enableDeletionVectors").map(|text| text.to_ascii_lowercase());
        let property = property.as_deref();
        let differs = match plan.deletion_vectors {
            DeletionVectors::Auto => false,
            DeletionVectors::On => property == Some("false"),
            DeletionVectors::Off => property == Some("true"),
        };
        if differs {
            problems.add(format!("{place}`deletion_vectors` and the table property `delta.enableDeletionVectors` differ"));
        }
    }
}

/// Returns a plan for [`apply`] to fill from the table of settings.
fn empty_plan() -> StreamPlan {
    StreamPlan {
        load_method: LoadMethod::Append,
        overwrite_at_end: false,
        table_path: TablePath { template: STREAM_TEMPLATE.to_owned(), default_target_schema: None },
        schema: schema::Options::default(),
        batch: batch::Options::default(),
        data_file: data_file::Options::default(),
        is_compression_set: false,
        key_properties: None,
        partition_by: Vec::new(),
        table_properties: BTreeMap::new(),
        deletion_vectors: DeletionVectors::Auto,
        validate_records: false,
        primary_key_required: false,
        max_rejects: 0,
        batch_size_rows: None,
        process_activate_version_messages: true,
        hard_delete: false,
        clean_up_batch_files: false,
    }
}

/// Puts a value of the setting's type into the plan; null: none.
///
/// **Errors**: sentences, for values whose form the type does not tell (codecs, templates, column types, properties).
pub(super) fn apply(setting: &Setting, value: &Value, plan: &mut StreamPlan) -> Result<(), Vec<String>> {
    let text = value.as_str().unwrap_or_default();
    let is_on = value.as_bool().unwrap_or_default();
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    match setting.name {
        "load_method" => {
            plan.load_method = match text {
                "overwrite" => LoadMethod::Overwrite,
                _ => LoadMethod::Append,
            };
        }
        "overwrite_at_end" => plan.overwrite_at_end = is_on,
        "table_path" => {
            let is_default = value.is_null();
            plan.table_path.template =
                if is_default { STREAM_TEMPLATE.to_owned() } else { template(text).map_err(|problem| vec![problem])? };
        }
        "default_target_schema" => {
            plan.table_path.default_target_schema = value.as_str().map(str::to_owned);
            if !value.is_null() && plan.table_path.template == STREAM_TEMPLATE {
                plan.table_path.template = SCHEMA_TEMPLATE.to_owned();
            }
        }
        "key_properties" => plan.key_properties = value.as_array().map(|names| texts(names)),
        "partition_by" => plan.partition_by = value.as_array().map(|names| texts(names)).unwrap_or_default(),
        "table_properties" => plan.table_properties = table_properties(object)?,
        "columns" => plan.schema.columns = column_types(object)?,
        "add_record_metadata" => plan.schema.add_record_metadata = is_on,
        "hard_delete" => plan.hard_delete = is_on,
        "process_activate_version_messages" => plan.process_activate_version_messages = is_on,
        "validate_records" => plan.validate_records = is_on,
        "on_bad_value" => {
            plan.batch.on_bad_value = match text {
                "set_null" => batch::OnBadValue::SetNull,
                "reject" => batch::OnBadValue::Reject,
                _ => batch::OnBadValue::Fail,
            };
        }
        "max_rejects" => plan.max_rejects = value.as_u64().unwrap_or_default(),
        "schema_contract" => {
            plan.schema.schema_contract = match text {
                "freeze" => schema::SchemaContract::Freeze,
                "discard_columns" => schema::SchemaContract::DiscardColumns,
                "discard_rows" => schema::SchemaContract::DiscardRows,
                _ => schema::SchemaContract::Evolve,
            };
        }
        "on_type_conflict" => {
            plan.schema.on_type_conflict = match text {
                "fail" => schema::OnTypeConflict::Fail,
                "string" => schema::OnTypeConflict::String,
                _ => schema::OnTypeConflict::VariantColumn,
            };
        }
        "nested" => plan.schema.nested = if text == "json" { schema::Nested::Json } else { schema::Nested::Struct },
        "column_names" => {
            plan.schema.column_names = match text {
                "snake_case" => schema::ColumnNames::SnakeCase,
                "lower" => schema::ColumnNames::Lower,
                _ => schema::ColumnNames::Clean,
            };
        }
        "naive_timestamps" => {
            let meaning = if text == "ntz" { schema::NaiveTimestamps::Ntz } else { schema::NaiveTimestamps::Utc };
            plan.schema.naive_timestamps = meaning;
            plan.batch.naive_timestamps = meaning;
        }
        "binary_columns" => {
            plan.schema.binary_columns =
                if text == "decode" { schema::BinaryColumns::Decode } else { schema::BinaryColumns::Text };
        }
        "keep_nan" => plan.batch.keep_nan = is_on,
        "deletion_vectors" => {
            plan.deletion_vectors = match text {
                "true" => DeletionVectors::On,
                "false" => DeletionVectors::Off,
                _ => DeletionVectors::Auto,
            };
        }
        "primary_key_required" => plan.primary_key_required = is_on,
        "batch_size_rows" => plan.batch_size_rows = value.as_u64(),
        "target_file_bytes" => plan.data_file.target_file_bytes = value.as_u64().unwrap_or(plan.data_file.target_file_bytes),
        "compression" => {
            plan.data_file.compression =
                data_file::Compression::parse(text).map_err(|detail| vec![format!("`compression` is \"{text}\", {detail}")])?;
            plan.is_compression_set = true;
        }
        "clean_up_batch_files" => plan.clean_up_batch_files = is_on,
        // What is refused, or has one supported choice, was checked and changes nothing.
        name => {
            let is_fixed = setting.support == super::Support::Refused || setting.choices().len() == 1;
            debug_assert!(is_fixed, "the setting {name} is read by nobody: it would be ignored in silence");
        }
    }
    Ok(())
}

/// Returns the types by source name; names that an orchestrator nested at their dots are joined again.
fn column_types(given: &Map<String, Value>) -> Result<BTreeMap<String, String>, Vec<String>> {
    let (mut types, mut found) = (BTreeMap::new(), Vec::new());
    for (name, value) in value::joined(given) {
        match &value {
            Value::Null => {}
            Value::String(text) => match schema::check_column_type(text) {
                Ok(()) => drop(types.insert(name, text.clone())),
                Err(problem) => found.push(format!("the type \"{text}\" of `columns.{name}` {problem}")),
            },
            value => found.push(value::mismatch(&format!("columns.{name}"), value, "a type such as \"decimal(18,4)\"", false)),
        }
    }
    if found.is_empty() { Ok(types) } else { Err(found) }
}

/// Returns the properties under their dotted names, whatever way they were nested, with text values.
fn table_properties(given: &Map<String, Value>) -> Result<BTreeMap<String, String>, Vec<String>> {
    let (mut properties, mut found) = (BTreeMap::new(), Vec::new());
    for (name, value) in value::joined(given).into_iter().filter(|(_, value)| !value.is_null()) {
        let Some(text) = value::text_or_boolean(&value) else {
            found.push(value::mismatch(&format!("table_properties.{name}"), &value, "text, a number or a bool", false));
            continue;
        };
        // One by one, so that all that is wrong is told.
        if let Err(error) = delta::check_table_properties(&BTreeMap::from([(name.clone(), text.clone())])) {
            let hint = error.hint_text().map(|hint| format!(" ({hint})")).unwrap_or_default();
            found.push(format!("{error}{hint}"));
        }
        properties.insert(name, text);
    }
    if found.is_empty() { Ok(properties) } else { Err(found) }
}

/// Returns a checked `table_path`, without slashes at its ends.
fn template(text: &str) -> Result<String, String> {
    let wrong = |detail: &str| Err(format!("`table_path` is \"{text}\", {detail}"));
    let mut rest = text;
    while let Some(start) = rest.find(['{', '}']) {
        match ["{stream}", "{schema}", "{table}"].into_iter().find(|known| rest[start..].starts_with(known)) {
            Some(known) => rest = &rest[start + known.len()..],
            None => return wrong("whose braces hold something else than `{stream}`, `{schema}` or `{table}`"),
        }
    }
    let path = text.trim_matches('/');
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return wrong("which is not a path below the destination");
    }
    if path.split('/').next().is_some_and(|first| first == "_delta_load" || first == "_rejects") {
        return wrong("a folder that delta-load keeps for itself");
    }
    Ok(path.to_owned())
}

fn texts(names: &[Value]) -> Vec<String> {
    names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn value_of(given: &Values, name: &str) -> Value {
    given.get(name).cloned().unwrap_or_else(|| setting(name).map_or(Value::Null, Setting::default_value))
}

fn is_on(given: &Values, name: &str) -> bool {
    value_of(given, name).as_bool().unwrap_or_default()
}

fn number(given: &Values, name: &str) -> u64 {
    value_of(given, name).as_u64().unwrap_or_default()
}

fn text(given: &Values, name: &str) -> String {
    value_of(given, name).as_str().unwrap_or_default().to_owned()
}

fn seconds(given: &Values, name: &str) -> Duration {
    Duration::from_secs_f64(value_of(given, name).as_f64().unwrap_or_default())
}
