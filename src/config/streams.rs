//! The setting `streams`: its entries, whatever way their dotted names were nested.

use serde_json::{Map, Value};

use super::Problems;
use super::nearest::suggestion;
use super::settings::{Kind, Scope, Setting};
use super::table::{SETTINGS, setting};

/// One entry: the name or glob, and the settings under it as they were written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub settings: Map<String, Value>,
}

/// Returns the entries in the order of the config. Orchestrators nest every dotted key, so objects are joined with `.` until a
/// setting is reached: `{"public": {"orders": {"load_method": …}}}` is the stream `public.orders`.
pub(super) fn entries(streams: &Map<String, Value>, problems: &mut Problems) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (name, value) in streams {
        let is_whole = value.as_object().is_some_and(|object| object.keys().any(|key| stream_setting(key).is_some()));
        let mut place = Place { entries: &mut entries, problems: &mut *problems };
        if is_whole || value.as_object().is_some_and(Map::is_empty) || value.is_null() {
            // A dotted name that was written in one piece stays one, even if it holds the name of a setting.
            place.walk(name.clone(), value);
        } else {
            place.descend(String::new(), name, value);
        }
    }
    entries
}

struct Place<'a> {
    entries: &'a mut Vec<Entry>,
    problems: &'a mut Problems,
}

impl Place<'_> {
    /// Takes what stands under the stream name `prefix`, or the part of one.
    fn walk(&mut self, prefix: String, value: &Value) {
        match value {
            Value::Object(object) if object.is_empty() => {
                self.entry(&prefix);
            }
            Value::Object(object) => {
                for (key, value) in object {
                    self.descend(prefix.clone(), key, value);
                }
            }
            Value::Null => {}
            _ => {
                let near = near_setting(prefix.rsplit_once('.').map_or("", |(_, last)| last));
                match prefix.rsplit_once('.') {
                    Some((stream, name)) => {
                        self.problems.add(format!("`{name}` of `streams.{stream}` is not a setting of a stream{near}"));
                    }
                    None => self.problems.add(format!("`streams.{prefix}` is not an object of settings")),
                }
            }
        }
    }

    /// Takes one key below `prefix`; a dotted key part by part.
    fn descend(&mut self, mut prefix: String, key: &str, value: &Value) {
        let parts: Vec<&str> = key.split('.').collect();
        for (index, part) in parts.iter().enumerate() {
            if !prefix.is_empty()
                && let Some(setting) = stream_setting(part)
            {
                self.set(&prefix, setting, &parts[index + 1..], value);
                return;
            }
            if !prefix.is_empty() {
                prefix.push('.');
            }
            prefix.push_str(part);
        }
        self.walk(prefix, value);
    }

    fn set(&mut self, stream: &str, setting: &Setting, rest: &[&str], value: &Value) {
        if setting.scope == Scope::Load {
            self.problems
                .add(format!("`{}` of `streams.{stream}` is a setting of the whole load, not of a stream", setting.name));
            return;
        }
        let value = rest.iter().rev().fold(value.clone(), |value, part| {
            let mut object = Map::new();
            object.insert((*part).to_owned(), value);
            Value::Object(object)
        });
        let settings = &mut self.entry(stream).settings;
        match (settings.get_mut(setting.name), value) {
            (Some(Value::Object(known)), Value::Object(value)) if setting.kind == Kind::Object => known.extend(value),
            (_, value) => {
                settings.insert(setting.name.to_owned(), value);
            }
        }
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        let index = self.entries.iter().position(|entry| entry.name == name).unwrap_or_else(|| {
            self.entries.push(Entry { name: name.to_owned(), settings: Map::new() });
            self.entries.len() - 1
        });
        &mut self.entries[index]
    }
}

/// Returns the setting that `key` names inside an entry, one of the whole load included: it is refused by name.
fn stream_setting(key: &str) -> Option<&'static Setting> {
    setting(key).or_else(|| super::table::ALIASES.iter().find(|(alias, _)| *alias == key).and_then(|(_, name)| setting(name)))
}

fn near_setting(name: &str) -> String {
    suggestion(name, SETTINGS.iter().filter(|setting| setting.scope != Scope::Load).map(|setting| setting.name))
}

/// Whether a name in `streams` is a pattern.
pub(super) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '[', '{'])
}
