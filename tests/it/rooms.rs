//! Rooms import downward only; stdout, clock, randomness and ids each have one place.

use crate::sources::{self, mentions, without_comments};

/// The rooms, uppermost first; those of one line stand side by side and do not import each other, but for the last line.
const ORDER: &[&[&str]] = &[
    &["main"],
    &["cli"],
    &["config"],
    &["load"],
    &["care", "inspect"],
    &["upsert"],
    &["dataset"],
    &["data_file"],
    &["map"],
    &["batch"],
    &["position"],
    &["delta"],
    &["source"],
    &["singer"],
    &["schema"],
    &["store"],
    &["report"],
    &["error", "seam"],
];

fn rank(room: &str) -> Option<usize> {
    ORDER.iter().position(|rooms| rooms.contains(&room))
}

/// Returns what is wrong with the imports of `text`, a file at `path` below `src/`.
fn violations(path: &str, text: &str) -> Vec<String> {
    let room = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    if room == "lib" {
        return Vec::new();
    }
    let Some(own) = rank(room) else { return vec![format!("{path}: the room `{room}` has no place in the order")] };
    let code = without_comments(text);
    let mut wrong = Vec::new();
    for name in imports(&code, depth(path)) {
        match rank(&name) {
            _ if name == room => {}
            None => wrong.push(format!("{path}: `crate::{name}` is no room")),
            Some(other) if other < own => wrong.push(format!("{path}: `{room}` imports `{name}`, which is above it")),
            Some(other) if other == own => wrong.push(format!("{path}: `{room}` imports `{name}`, which is beside it")),
            Some(_) => {}
        }
    }
    wrong
}

/// Returns how many `super::` lead from a file to the crate's root.
fn depth(path: &str) -> usize {
    let parts: Vec<&str> = path.split('/').collect();
    if parts.last() == Some(&"mod.rs") { parts.len() - 1 } else { parts.len() }
}

/// Returns the rooms named after `crate::` (or as many `super::` as lead there), in paths and in braces.
fn imports(code: &str, depth: usize) -> Vec<String> {
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for marker in ["crate::", &to_root] {
        for (at, _) in code.match_indices(marker) {
            // `$crate::`, `super::super::` seen from its middle, or the end of a longer word.
            if code[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '$')) {
                continue;
            }
            let is_by_super = marker != "crate::";
            let names = names_after(&code[at + marker.len()..]);
            // Within an inline module `super` leads less far, to a module of the same room.
            found.extend(names.into_iter().filter(|name| !is_by_super || rank(name).is_some()));
        }
    }
    found
}

/// Returns the first parts of the paths at the beginning of `text`: `store::Local …`, `{batch, store::{self, Local}} …`.
fn names_after(text: &str) -> Vec<String> {
    let Some(group) = text.strip_prefix('{') else { return first_part(text).into_iter().collect() };
    let (mut names, mut open, mut start) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => open += 1,
            ',' | '}' if open == 0 => {
                names.extend(first_part(group[start..at].trim_start()));
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            '}' => open -= 1,
            _ => {}
        }
    }
    names
}

/// Returns the room of a path. What begins with a capital is re-exported from `error`.
fn first_part(path: &str) -> Option<String> {
    let name: String = path.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect();
    let first = name.chars().next()?;
    Some(if first.is_uppercase() { "error".to_owned() } else { name })
}

#[test]
fn no_room_imports_upward() {
    let wrong: Vec<String> = sources::all().iter().flat_map(|file| violations(&file.path, &file.text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_upward_is_found_in_every_spelling() {
    for text in [
        "use crate::delta::Table;",
        "use crate::{Error, seam::{self, Seam}, delta};",
        "use crate::{\n    Error,\n    delta::{\n        self,\n    },\n};",
        "fn f() { let x = crate::delta::Table::new(); }",
        "pub(crate) use crate::delta;",
        "use super::delta;",
    ] {
        assert_eq!(violations("store/mod.rs", text), ["store/mod.rs: `store` imports `delta`, which is above it"], "{text}");
    }
    assert_eq!(violations("store/local.rs", "use super::super::load::Plan;").len(), 1);
    assert_eq!(violations("singer/lines.rs", "use crate::source::Records;").len(), 1);
    assert_eq!(violations("seam.rs", "use crate::Error;").len(), 1);
    assert_eq!(violations("new_room/mod.rs", "").len(), 1);
    assert_eq!(violations("store/mod.rs", "use crate::stroe::Store;").len(), 1);
}

#[test]
fn an_import_downward_is_none_of_them() {
    for text in [
        "use crate::{Error, Result, seam::Seam};",
        "use crate::store::Entry;",
        "// use crate::delta::Table;",
        "/// See [`Table`](crate::delta::Table).",
        "use super::*;",
        "use delta_kernel::Snapshot; use object_store::path::Path;",
        "macro_rules! x { () => { $crate::delta::y() } }",
    ] {
        assert_eq!(violations("store/local.rs", text), [""; 0], "{text}");
    }
    assert_eq!(
        violations("delta/table.rs", "use crate::store::{self, Numbered}; mod tests { use super::super::store; }"),
        [""; 0]
    );
}

/// Returns the places outside of `allowed` files that hold one of `words`.
fn places(words: &[&str], is_allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources::all().iter().filter(|file| !is_allowed(&file.path)) {
        for word in words {
            let lines = mentions(&file.text, word);
            found.extend(lines.iter().map(|(number, line)| format!("src/{}:{number}: {}", file.path, line.trim())));
        }
    }
    found
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

#[test]
fn stdout_belongs_to_the_acknowledgement_and_to_help() {
    // `cli` prints help, version and --about, and hands stdout to the load, where only `load::ack` writes to it.
    let is_allowed = |path: &str| path == "load/ack.rs" || path.starts_with("cli/") || is_test(path);
    let found = places(&["stdout()", "Stdout", "print!(", "println!(", "dbg!("], is_allowed);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn time_randomness_and_ids_come_from_the_seam() {
    let words =
        ["Instant::now", "SystemTime::now", "Utc::now", "Local::now", "Uuid::new_v4", "rand::", "thread_rng", "thread::sleep"];
    let found =
        places(&[&words[..], &["tokio::time::sleep", "time::timeout", "time::interval"]].concat(), |path| path == "seam.rs");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn mentions_are_whole_words_outside_of_comments() {
    assert_eq!(mentions("let x = rand::random();", "rand::").len(), 1);
    assert_eq!(mentions("use operand::x; // rand::random\n/// rand::", "rand::").len(), 0);
    assert_eq!(mentions("eprintln!(\"x\"); println!(\"y\")", "println!(").len(), 1);
    assert_eq!(mentions("io::stdout().lock()", "stdout()").len(), 1);
}
