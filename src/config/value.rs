//! One value: from what a config holds to the type of its setting.

use serde_json::{Map, Number, Value};

use super::settings::{Kind, Setting};

/// Returns `value` in the form of the setting's kind: a bool, a whole number where it is whole, text, a list of texts or an object.
/// Text is accepted for all of them, as orchestrators send settings that they do not know.
///
/// **Errors**: a whole sentence about the setting, named `name` as the user wrote it; without the value if it is secret.
pub(super) fn coerce(setting: &Setting, name: &str, value: &Value) -> Result<Value, String> {
    let wrong = |wanted: &str| Err(mismatch(name, value, wanted, setting.is_secret));
    match setting.kind {
        Kind::Boolean => match boolean(value) {
            Some(yes) => Ok(Value::Bool(yes)),
            None => wrong("true or false"),
        },
        Kind::Integer { at_least } => match whole_number(value) {
            Some(number) if number >= at_least => Ok(number.into()),
            _ if at_least == 0 => wrong("a whole number"),
            _ => wrong(&format!("a whole number of at least {at_least}")),
        },
        Kind::Seconds { is_zero_allowed } => match seconds(value) {
            Some(number) if number > 0.0 || is_zero_allowed => Ok(plain_number(number)),
            _ if is_zero_allowed => wrong("a number of seconds, at least 0"),
            _ => wrong("a number of seconds above 0"),
        },
        Kind::Text => match text(value) {
            Some(text) if !text.is_empty() => Ok(Value::String(text)),
            Some(_) => Err(format!("`{name}` is empty")),
            None => wrong("text"),
        },
        Kind::Choice(choices) => {
            let given = match value {
                Value::Bool(yes) => Some(yes.to_string()),
                Value::String(text) => Some(text.trim().to_owned()),
                _ => None,
            };
            match given.and_then(|given| choices.iter().find(|choice| choice.eq_ignore_ascii_case(&given))) {
                Some(choice) => Ok(Value::String((*choice).to_owned())),
                None => wrong(&format!("one of `{}`", setting.choices().join("`, `"))),
            }
        }
        Kind::Names => match names(value) {
            Some(names) => Ok(Value::Array(names.into_iter().map(Value::String).collect())),
            None => wrong("a list of names, as in [\"id\"]"),
        },
        Kind::Object => match object(value) {
            Some(object) => Ok(Value::Object(object)),
            None => wrong("a JSON object"),
        },
    }
}

/// Returns the sentence for a value of the wrong type.
pub(super) fn mismatch(name: &str, value: &Value, wanted: &str, is_secret: bool) -> String {
    if is_secret {
        return format!("`{name}` is not {wanted}");
    }
    let shown: String = value.to_string().chars().take(100).collect();
    format!("`{name}` is {shown}, which is not {wanted}")
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(yes) => Some(*yes),
        Value::Number(number) => match number.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok().or_else(|| whole(text.trim().parse().ok()?)),
        _ => None,
    }
}

/// Doubles are exact up to 2^53; no setting is counted beyond that in exponent form.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}

/// A century bounds what is sensible, and keeps every duration far from an overflow.
fn seconds(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.0..=3_155_760_000.0).contains(&number).then_some(number)
}

fn plain_number(number: f64) -> Value {
    whole(number).map_or_else(|| Number::from_f64(number).map_or(Value::Null, Value::Number), Value::from)
}

/// Returns text; a number counts as its digits, since YAML takes the quotes off.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns text for a value whose reader takes text only: properties and storage options.
pub(super) fn text_or_boolean(value: &Value) -> Option<String> {
    match value {
        Value::Bool(yes) => Some(yes.to_string()),
        value => text(value),
    }
}

fn names(value: &Value) -> Option<Vec<String>> {
    let array = match value {
        Value::Array(array) => array.clone(),
        Value::String(text) => serde_json::from_str(text).ok()?,
        _ => return None,
    };
    array.into_iter().map(|name| name.as_str().filter(|name| !name.is_empty()).map(str::to_owned)).collect()
}

fn object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Returns the values under names joined with `.`: an orchestrator nests every dotted key. An empty object stands for nothing.
pub(super) fn joined(object: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut flat = Vec::new();
    for (name, value) in object {
        match value {
            Value::Object(inner) => flat.extend(joined(inner).into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value))),
            value => flat.push((name.clone(), value.clone())),
        }
    }
    flat
}
