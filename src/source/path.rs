//! Where the file of a BATCH manifest's entry is.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::{Error, Result};

/// Returns the local file that an entry of a BATCH manifest names: a path, relative ones below `working_directory`, or a `file:` URL with
/// one, two or three slashes. Taps percent-encode or do not: the text as it is comes first, then decoded.
///
/// # Errors
/// `Input` when no such file exists, and for files in an object store.
pub fn resolve_batch_path(manifest_entry: &str, working_directory: &Path) -> Result<PathBuf> {
    let entry = manifest_entry.trim();
    if let Some(scheme) = other_scheme(entry) {
        // What follows `?` may be a signature.
        let shown = entry.split(['?', '#']).next().unwrap_or_default();
        return Err(Error::input(format!("the BATCH file `{shown}` is behind `{scheme}://`, and only local files are read"))
            .hint("let the tap write its batch files to a local directory (`batch_config.storage.root` with `file://`)"));
    }
    let tried = candidates(entry, working_directory);
    if let Some(path) = tried.iter().find(|path| path.exists()) {
        return Ok(path.clone());
    }
    let shown = tried.first().map(|path| path.display().to_string()).unwrap_or_default();
    Err(Error::input(format!("the BATCH file `{entry}` does not exist (looked for `{shown}`)")))
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
