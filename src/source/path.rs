//! Where the file of a BATCH manifest's entry is.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::{Error, Result};

/// Where an entry of a BATCH manifest leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchPlace {
    /// A file on local disk, which exists.
    Local(PathBuf),
    /// An object in a store; nobody looked for it so far.
    Object(BatchObject),
}

/// An object that an entry of a BATCH manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchObject {
    /// The URL of the store's root: `s3://bucket/`.
    pub root: String,
    /// The path below the root: as it was written, then percent-decoded if that is another one. Never empty.
    pub paths: Vec<String>,
    /// The entry without what may be a secret in it.
    pub shown: String,
}

/// Returns where an entry of a BATCH manifest leads: a path, relative ones below `working_directory`, a `file:` URL with one, two or
/// three slashes, or the URL of an object. Taps percent-encode or do not: the text as it is comes first, then decoded.
///
/// # Errors
/// `Input` when no such local file exists, or the entry is no place for an object.
pub fn resolve_batch_path(manifest_entry: &str, working_directory: &Path) -> Result<BatchPlace> {
    let entry = manifest_entry.trim();
    if let Some(scheme) = other_scheme(entry) {
        return object(entry, scheme).map(BatchPlace::Object);
    }
    let tried = candidates(entry, working_directory);
    if let Some(path) = tried.iter().find(|path| path.exists()) {
        return Ok(BatchPlace::Local(path.clone()));
    }
    let shown = tried.first().map(|path| path.display().to_string()).unwrap_or_default();
    Err(Error::input(format!("the BATCH file `{entry}` does not exist (looked for `{shown}`)")))
}

fn object(entry: &str, scheme: &str) -> Result<BatchObject> {
    let rest = &entry[scheme.len() + "://".len()..];
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // What follows `?` may be a signature, and what stands before `@` a password.
    let shown_authority = match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("***@{host}"),
        _ => authority.to_owned(),
    };
    let shown = format!("{scheme}://{shown_authority}/{}", path.split(['?', '#']).next().unwrap_or_default());
    // By its web address a store is named up to the first part of the path.
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let (container, path) = match path.split_once('/') {
        Some((container, path)) if is_web => (format!("{container}/"), path),
        None if is_web => (String::new(), ""),
        _ => (String::new(), path),
    };
    let root = format!("{scheme}://{authority}/{container}");
    let decoded = percent_decode_str(path).decode_utf8().ok().map(|decoded| decoded.into_owned());
    let mut paths: Vec<String> = [Some(path.to_owned()), decoded].into_iter().flatten().collect();
    paths.dedup();
    paths.retain(|path| path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0')));
    if authority.is_empty() || paths.is_empty() {
        return Err(Error::input(format!("the BATCH file `{shown}` is no place for an object in a store"))
            .hint("write the bucket and the whole path, `s3://bucket/folder/file.jsonl.gz`, without empty or dotted parts"));
    }
    Ok(BatchObject { root, paths, shown })
}

/// Returns the scheme of a URL that is not `file:`. A drive letter is none.
fn other_scheme(entry: &str) -> Option<&str> {
    let (scheme, _) = entry.split_once("://")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (is_scheme && !scheme.eq_ignore_ascii_case("file")).then_some(scheme)
}

fn candidates(entry: &str, working_directory: &Path) -> Vec<PathBuf> {
    let is_url = entry.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    let text = if is_url { &entry[5..] } else { entry };
    let mut texts = Vec::new();
    match text.strip_prefix("//").filter(|_| is_url) {
        Some(rest) => {
            texts.push(rest.strip_prefix("localhost/").map_or_else(|| rest.to_owned(), |path| format!("/{path}")));
            // `file://tmp/x` is either relative or lacks its third slash.
            if !rest.starts_with('/') {
                texts.push(format!("/{rest}"));
            }
        }
        None => texts.push(text.to_owned()),
    }
    let decoded: Vec<String> = texts
        .iter()
        .filter(|text| text.contains('%'))
        .filter_map(|text| percent_decode_str(text).decode_utf8().ok().map(|decoded| decoded.into_owned()))
        .collect();
    texts.into_iter().chain(decoded).filter(|text| !text.is_empty()).map(|text| working_directory.join(text)).collect()
}
