//! What the program says about itself, from the table of settings: JSON for the tools of the Meltano hub, Markdown for the docs,
//! text for a terminal.

use serde_json::{Map, Value, json};

use super::settings::{Kind, Scope, Setting};
use super::storage_options::OPTIONS;
use super::table::{ALIASES, IGNORED, SETTINGS};

/// What works, in the words of the Meltano hub.
pub const CAPABILITIES: &[&str] = &["about", "batch", "structured-logging", "target-schema", "validate-records"];

/// What the program is, in a sentence.
pub const DESCRIPTION: &str = "Singer target that loads any stream of records into Delta Lake tables";

/// The name under which orchestrators know the target; the environment variables `TARGET_DELTA_…` follow from it.
const NAME: &str = "target-delta";

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutFormat {
    /// For a terminal.
    Text,
    /// For tools.
    Json,
    /// For the docs.
    Markdown,
}

/// Returns name, version, capabilities and settings. Ends with a line break.
pub fn about(format: AboutFormat) -> String {
    match format {
        AboutFormat::Text => text(),
        AboutFormat::Json => format!("{:#}\n", json()),
        AboutFormat::Markdown => markdown(),
    }
}

fn json() -> Value {
    json!({
        "name": NAME,
        "description": DESCRIPTION,
        "version": env!("CARGO_PKG_VERSION"),
        // No SDK and no Python: the keys are there for tools that expect them.
        "sdk_version": "none",
        "supported_python_versions": [],
        "capabilities": CAPABILITIES,
        "settings": settings_schema(),
    })
}

fn settings_schema() -> Value {
    let mut properties = Map::new();
    for setting in offered().filter(|setting| setting.scope != Scope::OnlyStream) {
        properties.insert(setting.name.to_owned(), property(setting));
    }
    let required: Vec<_> = SETTINGS.iter().filter(|setting| setting.is_required).map(|setting| setting.name).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn property(setting: &Setting) -> Value {
    let mut property = Map::new();
    let kind = match setting.kind {
        Kind::Boolean => "boolean",
        Kind::Integer { .. } => "integer",
        Kind::Seconds { .. } => "number",
        Kind::Text | Kind::Choice(_) => "string",
        Kind::Names => "array",
        Kind::Object => "object",
    };
    property.insert("type".to_owned(), if setting.is_required { json!([kind]) } else { json!([kind, "null"]) });
    if !setting.default_value().is_null() {
        property.insert("default".to_owned(), setting.default_value());
    }
    if !setting.choices().is_empty() {
        property.insert("enum".to_owned(), json!(setting.choices()));
    }
    match setting.kind {
        Kind::Integer { at_least } => {
            property.insert("minimum".to_owned(), at_least.into());
        }
        Kind::Names => {
            property.insert("items".to_owned(), json!({ "type": "string" }));
        }
        _ => {}
    }
    property.insert("title".to_owned(), setting.title.into());
    property.insert("description".to_owned(), setting.description.into());
    if setting.is_secret && setting.name != "storage_options" {
        property.insert("secret".to_owned(), true.into());
    }
    if setting.name == "storage_options" {
        // One by one, so that a form has a field for each, and hides those that are secret.
        property.insert("properties".to_owned(), storage_properties());
    }
    Value::Object(property)
}

fn storage_properties() -> Value {
    let mut properties = Map::new();
    for option in OPTIONS {
        let mut property = Map::new();
        property.insert("type".to_owned(), json!(["string", "null"]));
        property.insert("title".to_owned(), option.title.into());
        property.insert("description".to_owned(), format!("{}.", option.title).into());
        if option.is_secret {
            property.insert("secret".to_owned(), true.into());
        }
        properties.insert(option.name.to_owned(), Value::Object(property));
    }
    Value::Object(properties)
}

fn text() -> String {
    let mut text = format!(
        "{NAME} {}\n{DESCRIPTION}.\n\nCapabilities: {}\n\nSettings:\n",
        env!("CARGO_PKG_VERSION"),
        CAPABILITIES.join(", ")
    );
    for setting in offered() {
        text += &format!(
            "  {} ({}{})\n      {}\n",
            setting.name,
            type_words(setting),
            default_words(setting, "; default ", ""),
            setting.description
        );
    }
    text
}

fn markdown() -> String {
    let mut text = format!(
        "# Settings\n\n\
         <!-- Written by `delta-load --about --format markdown`; a test compares. -->\n\n\
         A config is a JSON object. Several `--config` are merged key by key, the later wins, `null` takes a setting back.\n\
         `--config ENV` reads `TARGET_DELTA_<SETTING>` and `DELTA_LOAD_<SETTING>` (upper case; the latter wins) from the environment and\n\
         from `.env` in the working directory; they win over files. A storage option is `DELTA_LOAD_STORAGE_OPTIONS_<OPTION>`.\n\
         Text is accepted for every type: `true`, `1`, `yes`, `on` for a bool, JSON for lists and objects.\n\
         An unknown setting is an error, and so is one whose work is not there yet.\n\n\
         {}{}",
        table_head(),
        rows(|setting| setting.scope != Scope::OnlyStream)
    );
    text += "\n\"Per stream\": also in an entry of `streams`. Only there:\n\n";
    text += &format!("{}{}", table_head(), rows(|setting| setting.scope == Scope::OnlyStream));
    text +=
        "\n## Storage options\n\nOther names that deltalake, dlt and object_store know for them are accepted, in any case.\n\n";
    text += "| option | meaning | secret |\n|---|---|---|\n";
    for option in OPTIONS {
        text += &format!("| `{}` | {} | {} |\n", option.name, option.title, if option.is_secret { "yes" } else { "" });
    }
    text += "\n## Other names\n\n| name | is |\n|---|---|\n";
    for (alias, name) in ALIASES {
        text += &format!("| `{alias}` | `{name}` |\n");
    }
    for (name, reason) in IGNORED {
        text += &format!("| `{name}` | ignored with a notice: {reason} |\n");
    }
    text += "\n## The environment besides\n\n\
             - `TARGET_DELTA_LOGLEVEL`, then `LOGLEVEL`, then `root.level` of the logging config that `SINGER_SDK_LOG_CONFIG` names: the\n  \
               least level of log lines (`DEBUG`, `INFO`, `WARNING`, `ERROR`).\n\
             - `SINGER_SDK_LOG_CONFIG`: when that file names `singer_sdk.logging.StructuredFormatter`, log lines are JSON.\n\
             - `NO_COLOR`: no colours on a terminal.\n";
    text += "\n## Not supported by this version\n\nThese are known and refused by name unless they have their default:\n\n";
    for setting in SETTINGS.iter().filter(|setting| !setting.is_supported()) {
        text += &format!("- `{}`\n", setting.name);
    }
    for (setting, choice) in refused_choices() {
        text += &format!("- `{}: {choice}`\n", setting.name);
    }
    text
}

fn table_head() -> &'static str {
    "| setting | type | default | per stream | meaning |\n|---|---|---|---|---|\n"
}

fn rows(is_wanted: impl Fn(&Setting) -> bool) -> String {
    let mut text = String::new();
    for setting in offered().filter(|setting| is_wanted(setting)) {
        let per_stream = if setting.scope == Scope::Load { "" } else { "yes" };
        let default = default_words(setting, "", "none");
        text +=
            &format!("| `{}` | {} | {default} | {per_stream} | {} |\n", setting.name, type_words(setting), setting.description);
    }
    text
}

fn type_words(setting: &Setting) -> String {
    let words = match setting.kind {
        Kind::Boolean => "bool".to_owned(),
        Kind::Integer { .. } => "integer".to_owned(),
        Kind::Seconds { .. } => "seconds".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Choice(_) => setting.choices().iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", "),
        Kind::Names => "list of names".to_owned(),
        Kind::Object => "object".to_owned(),
    };
    let secret = if setting.is_secret { ", secret" } else { "" };
    let required = if setting.is_required { ", required" } else { "" };
    format!("{words}{secret}{required}")
}

fn default_words(setting: &Setting, before: &str, none: &str) -> String {
    match setting.default_value() {
        Value::Null => none.to_owned(),
        Value::String(text) => format!("{before}`{text}`"),
        value if setting.name.ends_with("_bytes") => {
            format!("{before}{value} ({} MiB)", value.as_u64().unwrap_or_default() >> 20)
        }
        value => format!("{before}{value}"),
    }
}

/// Returns the settings that may be set.
fn offered() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.is_supported())
}

fn refused_choices() -> impl Iterator<Item = (&'static Setting, &'static str)> {
    SETTINGS.iter().flat_map(|setting| {
        let all: &[&str] = if let Kind::Choice(choices) = setting.kind { choices } else { &[] };
        all.iter()
            .filter(|choice| setting.is_supported() && !setting.choices().contains(choice))
            .map(move |choice| (setting, *choice))
    })
}
