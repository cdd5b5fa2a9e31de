//! The destination as a URL.

use std::path::Path;

use url::Url;

use crate::{Error, Result};

/// Returns the URL of the root of all tables, with a trailing slash. A path is made absolute from `working_directory`.
///
/// **Errors**: `Config`.
pub(super) fn normalise(destination: &str, working_directory: &Path) -> Result<Url> {
    let wrong = |detail: &str| Error::config(format!("`destination` is \"{destination}\", which {detail}"));
    let has_scheme = destination.split_once("://").is_some_and(|(scheme, _)| scheme.len() > 1);
    let mut url = if has_scheme {
        Url::parse(destination).map_err(|error| wrong("is not a URL").source(error))?
    } else {
        Url::from_file_path(working_directory.join(destination)).map_err(|()| wrong("is not a path"))?
    };
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}
