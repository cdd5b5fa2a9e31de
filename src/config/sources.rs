//! The files and the environment → one map of settings under their own names.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::nearest::suggestion;
use super::storage_options;
use super::table::{ALIASES, IGNORED, SETTINGS, setting};
use super::{Environment, Problems};
use crate::{Error, Result};

/// What `--config` takes for the environment.
const ENVIRONMENT: &str = "ENV";
/// The later wins.
const PREFIXES: [&str; 2] = ["TARGET_DELTA_", "DELTA_LOAD_"];

/// Returns what all sources set together, keys by their own names, later files over earlier ones and the environment over all
/// files. A null takes back what came before.
///
/// **Errors**: `Config` when a file cannot be read or is no JSON object: without it nothing else can be judged.
pub(super) fn read(sources: &[String], environment: &Environment, problems: &mut Problems) -> Result<Map<String, Value>> {
    let mut merged = Map::new();
    for source in sources.iter().filter(|source| *source != ENVIRONMENT) {
        let settings = read_file(&environment.working_directory.join(source), source)?;
        merge(&mut merged, canonical(settings, problems));
    }
    if sources.iter().any(|source| source == ENVIRONMENT) {
        let (settings, options) = read_environment(environment)?;
        merge(&mut merged, canonical(settings, problems));
        if !options.is_empty() {
            merge_storage_options(&mut merged, options);
        }
    }
    Ok(merged)
}

fn read_file(path: &Path, shown: &str) -> Result<Map<String, Value>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::config(format!("the config file `{shown}` cannot be read")).source(error))?;
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| Error::config(format!("the config file `{shown}` is not JSON")).source(error))?;
    match value {
        Value::Object(settings) => Ok(settings),
        _ => Err(Error::config(format!("the config file `{shown}` is not a JSON object"))),
    }
}

fn merge(merged: &mut Map<String, Value>, settings: Map<String, Value>) {
    for (name, value) in settings {
        // Taken out first, so that a later file also decides the place in the order.
        merged.shift_remove(&name);
        if !value.is_null() {
            merged.insert(name, value);
        }
    }
}

/// Returns the settings under their own names: aliases resolved, dotted names nested, what means nothing here left out with a notice.
fn canonical(settings: Map<String, Value>, problems: &mut Problems) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, value) in settings {
        if let Some((_, reason)) = IGNORED.iter().find(|(ignored, _)| *ignored == name) {
            problems.notice(format!("the setting `{name}` is ignored: {reason}"));
            continue;
        }
        if let Some((_, target)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            // Other targets send 0 for "no flattening"; there is none to turn off.
            let is_off = name == "data_flattening_max_level" && (value == 0 || value == "0");
            if is_off {
                continue;
            }
            if found.get(*target).is_some_and(|other| *other != value) {
                problems.add(format!("`{name}` and `{target}` are one setting and differ"));
            }
            problems.notice(format!("the setting `{name}` is read as `{target}`"));
            found.insert((*target).to_owned(), value);
            continue;
        }
        if setting(&name).is_none()
            && let Some((first, rest)) = name.split_once('.')
            && setting(first).is_some()
        {
            nest(&mut found, first, rest, value);
            continue;
        }
        if let Some(other) = found.get(&name)
            && let Some((alias, _)) = ALIASES.iter().find(|(_, target)| *target == name)
            && *other != value
        {
            problems.add(format!("`{alias}` and `{name}` are one setting and differ"));
        }
        match (found.get_mut(&name), value) {
            // Dotted names of the same object came before it.
            (Some(Value::Object(known)), Value::Object(value)) => known.extend(value),
            (_, value) => {
                found.insert(name, value);
            }
        }
    }
    found
}

/// Puts `value` at the dotted path `rest` into the object `first`.
fn nest(settings: &mut Map<String, Value>, first: &str, rest: &str, value: Value) {
    let parts: Vec<&str> = rest.split('.').collect();
    let mut place = settings.entry(first).or_insert_with(|| Value::Object(Map::new()));
    for part in parts {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(object) = place else { return };
        place = object.entry(part).or_insert(Value::Null);
    }
    *place = value;
}

/// Returns the settings and the storage options that the environment and `.env` hold. Names that are not known are no errors:
/// orchestrators export many that are meant for others.
fn read_environment(environment: &Environment) -> Result<(Map<String, Value>, Map<String, Value>)> {
    let file = read_dotenv(&environment.working_directory.join(".env"))?;
    let find = |name: &str| {
        let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
        let places = [&file, &environment.variables];
        let values = places.iter().flat_map(|place| PREFIXES.iter().map(|prefix| place.get(&format!("{prefix}{name}"))));
        // An empty variable is the shell's way to say "not set".
        values.flatten().rfind(|value| !value.is_empty()).cloned()
    };
    let names = SETTINGS.iter().map(|setting| setting.name);
    let others = ALIASES.iter().chain(IGNORED).map(|(name, _)| *name);
    let settings = names.chain(others).filter_map(|name| Some((name.to_owned(), Value::String(find(name)?)))).collect();
    let options = storage_options::names()
        .filter_map(|name| Some((name.clone(), Value::String(find(&format!("storage_options_{name}"))?))))
        .collect();
    Ok((settings, options))
}

fn read_dotenv(path: &Path) -> Result<BTreeMap<String, String>> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let wrong = |error: dotenvy::Error| match error {
        // The text of a line may be a secret.
        dotenvy::Error::LineParse(_, index) => {
            Error::config(format!("`.env` has a line that is no NAME=VALUE, at character {index}"))
        }
        error => Error::config("`.env` cannot be read").source(error),
    };
    let lines = dotenvy::from_path_iter(path).map_err(wrong)?;
    lines.map(|line| line.map_err(wrong)).collect()
}

/// Puts options of the environment over those of the files, one by one.
fn merge_storage_options(merged: &mut Map<String, Value>, options: Map<String, Value>) {
    let known = match merged.get("storage_options") {
        Some(Value::Object(known)) => known.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => Map::new(),
    };
    let mut known: Map<String, Value> =
        known.into_iter().filter(|(name, _)| !options.contains_key(&name.to_ascii_lowercase())).collect();
    known.extend(options);
    merged.insert("storage_options".to_owned(), Value::Object(known));
}

/// Returns the sentence about a name that is no setting.
pub(super) fn unknown(name: &str) -> String {
    let known = SETTINGS.iter().map(|setting| setting.name).chain(ALIASES.iter().map(|(alias, _)| *alias));
    format!("`{name}` is not a setting{}", suggestion(name, known))
}
