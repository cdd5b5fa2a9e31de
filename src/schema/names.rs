//! Names of columns and of stream directories.
//!
//! A name depends on the source's name and on what is taken, never on time or chance, so that a restart finds the same column; two
//! source names never get one column.

use std::collections::HashSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::ColumnNames;

/// Parquet has no limit, but file systems take 255 bytes for a path part, and a partition column's name is in one.
const LONGEST_BYTES: usize = 255;

/// Returns the column name that `key` gets when nothing else has it.
pub(super) fn column_name(key: &str, style: ColumnNames) -> String {
    if !key.chars().any(|c| is_kept(c, style)) {
        return format!("column_{}", short_hash(key));
    }
    let name = match style {
        ColumnNames::Clean => key.to_owned(),
        ColumnNames::Lower => key.to_lowercase(),
        ColumnNames::SnakeCase => snake_case(key),
    };
    let name: String = name.chars().map(|c| if is_kept(c, style) { c } else { '_' }).collect();
    shortened(name, key)
}

/// Returns the name of the column that takes values of another type than the column `name`.
pub(super) fn variant_name(name: &str, label: &str) -> String {
    let full = format!("{name}__{label}");
    shortened(full.clone(), &full)
}

/// Returns `name`, or the first of `name_2`, `name_3`, … whose folded form is not in `taken`, and takes it.
pub(super) fn take(name: &str, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1u64;
    while !taken.insert(folded(&candidate)) {
        number += 1;
        let suffix = format!("_{number}");
        candidate = format!("{}{suffix}", cut(name, LONGEST_BYTES - suffix.len()));
    }
    candidate
}

/// Returns the form in which two names are equal for a reader that ignores case, as Spark does.
pub(super) fn folded(name: &str) -> String {
    // By way of the upper case, as Java compares: dotless and dotted i, long s and the Kelvin sign are letters of ASCII there.
    let upper = name.chars().map(|c| if c == 'İ' { 'i' } else { c }).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// Returns the path part of a stream: `/ \ : * ? " < > | % # ~`, control characters and a leading `.` or `_` become `~hh`.
///
/// Different streams have different parts. An empty name is `~`; one that is too long for a file system is cut and ends in `~x` and
/// a hash.
pub fn stream_directory(stream: &str) -> String {
    if stream.is_empty() {
        return "~".to_owned();
    }
    let mut part = String::with_capacity(stream.len());
    for (at, c) in stream.chars().enumerate() {
        let is_special = matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '%' | '#' | '~');
        if is_special || c.is_control() || (at == 0 && matches!(c, '.' | '_')) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(part, "~{byte:02x}");
            }
        } else {
            part.push(c);
        }
    }
    if part.len() > LONGEST_BYTES {
        let suffix = format!("~x{}", hash(stream, 8));
        part = format!("{}{suffix}", cut(&part, LONGEST_BYTES - suffix.len()));
    }
    part
}

/// Spark refuses ` ,;{}()\n\t=` in a column of a table without column mapping:
/// <https://docs.delta.io/latest/delta-column-mapping.html#supported-characters-in-column-names>
fn is_kept(c: char, style: ColumnNames) -> bool {
    let is_valid = !matches!(c, ' ' | ',' | ';' | '{' | '}' | '(' | ')' | '=') && !c.is_control();
    match style {
        ColumnNames::Clean | ColumnNames::Lower => is_valid,
        ColumnNames::SnakeCase => is_valid && (!c.is_ascii() || c.is_ascii_alphanumeric() || c == '_'),
    }
}

fn snake_case(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    let mut name = String::with_capacity(key.len() + 8);
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| chars[before]);
        let after = chars.get(at + 1).copied();
        let starts_word = c.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_numeric()
                    || (before.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
            });
        if starts_word {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

fn shortened(name: String, of: &str) -> String {
    if name.len() <= LONGEST_BYTES {
        return name;
    }
    let suffix = format!("_{}", short_hash(of));
    format!("{}{suffix}", cut(&name, LONGEST_BYTES - suffix.len()))
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn short_hash(text: &str) -> String {
    hash(text, 4)
}

fn hash(text: &str, bytes: usize) -> String {
    Sha256::digest(text.as_bytes()).iter().take(bytes).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(key: &str) -> String {
        column_name(key, ColumnNames::Clean)
    }

    #[test]
    fn case_and_leading_digits_stay_and_invalid_characters_become_underscores() {
        assert_eq!(clean("Order Id"), "Order_Id");
        assert_eq!(clean("2fa"), "2fa");
        assert_eq!(clean("a,b;c{d}(e)\nf\tg=h"), "a_b_c_d__e__f_g_h");
        assert_eq!(clean("größe.cm-é"), "größe.cm-é");
        assert_eq!(clean("nul\0\u{85}x"), "nul__x");
    }

    #[test]
    fn snake_case_and_lower_case() {
        for (key, name) in [
            ("OrderId", "order_id"),
            ("HTTPServer", "http_server"),
            ("userID", "user_id"),
            ("_sdc_lsn", "_sdc_lsn"),
            ("line2Text", "line2_text"),
            ("Order Id", "order_id"),
            ("a-b.c", "a_b_c"),
            ("ÄpfelBirnen", "äpfel_birnen"),
        ] {
            assert_eq!(column_name(key, ColumnNames::SnakeCase), name);
        }
        assert_eq!(column_name("Order Id", ColumnNames::Lower), "order_id");
        assert_eq!(column_name("OrderId", ColumnNames::Lower), "orderid");
    }

    #[test]
    fn empty_invalid_and_long_names_get_a_stable_hash() {
        assert_eq!(clean(""), "column_e3b0c442");
        assert_eq!(clean(" "), "column_36a9e7f1");
        assert_ne!(clean(";;"), clean("=="));
        let long = clean(&"ä".repeat(200));
        assert!(long.len() <= 255 && long.starts_with("ää") && long.len() > 240);
        assert_ne!(long, clean(&"ä".repeat(201)));
        assert_eq!(clean(&"x".repeat(255)), "x".repeat(255));
    }

    #[test]
    fn equal_names_are_numbered_without_regard_to_case() {
        let mut taken = HashSet::new();
        let names: Vec<_> = ["Id", "id", "ID", "iD_2"].iter().map(|key| take(&clean(key), &mut taken)).collect();
        assert_eq!(names, ["Id", "id_2", "ID_3", "iD_2_2"]);
        let long = "x".repeat(255);
        assert_eq!(take(&long, &mut taken), long);
        assert_eq!(take(&long, &mut taken).len(), 255);
    }

    #[test]
    fn stream_names_become_path_parts() {
        assert_eq!(stream_directory("public-orders"), "public-orders");
        assert_eq!(stream_directory(r#"a/\:*?"<>|%#~b"#), "a~2f~5c~3a~2a~3f~22~3c~3e~7c~25~23~7eb");
        assert_eq!(stream_directory("_x_.y"), "~5fx_.y");
        assert_eq!(stream_directory(".."), "~2e.");
        assert_eq!(stream_directory("a\n\u{85}"), "a~0a~c2~85");
        assert_eq!(stream_directory(""), "~");
        assert_eq!(stream_directory("größe 1"), "größe 1");
        assert!(stream_directory(&"/".repeat(200)).len() <= 255);
    }

    proptest! {
        #[test]
        fn names_are_valid_and_fit(key in any::<String>()) {
            for style in [ColumnNames::Clean, ColumnNames::SnakeCase, ColumnNames::Lower] {
                let name = column_name(&key, style);
                prop_assert!(!name.is_empty() && name.len() <= 255);
                prop_assert!(name.chars().all(|c| is_kept(c, ColumnNames::Clean)));
            }
        }

        #[test]
        fn different_streams_have_different_directories(a in ".{0,3}|[~/_.x27e]{0,4}", b in ".{0,3}|[~/_.x27e]{0,4}") {
            prop_assert_eq!(stream_directory(&a) == stream_directory(&b), a == b);
        }
    }
}
