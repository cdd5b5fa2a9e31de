//! Properties of new tables.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::value;

/// Returns the properties under their dotted names, whatever way they were nested, with text values.
///
/// **Errors**: a sentence about the property.
pub(super) fn parse(given: &Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let mut properties = BTreeMap::new();
    collect(String::new(), given, &mut properties)?;
    Ok(properties)
}

fn collect(prefix: String, given: &Map<String, Value>, properties: &mut BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in given {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Null => {}
            Value::Object(inner) => collect(name, inner, properties)?,
            value => match value::text_or_boolean(value) {
                Some(text) => {
                    properties.insert(name, text);
                }
                None => {
                    return Err(value::mismatch(&format!("table_properties.{name}"), value, "text, a number or a bool", false));
                }
            },
        }
    }
    Ok(())
}
