//! Destinations as users write them, and the URL that they mean.

use std::path::{Component, Path, PathBuf};

use url::Url;

use super::azure;
use crate::{Error, Result};

/// Schemes that work, beside those of Azure.
const SUPPORTED: [&str; 6] = ["file", "memory", "s3", "s3a", "gs", "gcs"];

/// All schemes that mean something here.
fn known() -> impl Iterator<Item = &'static str> {
    SUPPORTED.into_iter().chain(azure::SCHEMES)
}

/// Returns the URL (with a trailing slash) that a user's `destination` means: a path, absolute or from the working directory, or
/// a URL. Does not look whether it exists.
///
/// **Errors:** `Config`, naming what is wrong with the text.
pub fn normalise_destination(text: &str) -> Result<Url> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::config("`destination` is empty").hint("name a folder or a URL, for example `/lake` or `file:///lake`"));
    }
    match scheme_of(text) {
        None => directory_url(Path::new(text)),
        Some("file") => file_url(text),
        Some("memory") => memory_url(text),
        Some(scheme) if azure::SCHEMES.contains(&scheme) => azure::normalise(text),
        Some("s3" | "s3a" | "gs" | "gcs") => bucket_url(text),
        Some(scheme) => Err(refuse_scheme(scheme)),
    }
}

/// Returns the error for a scheme that [`super::open`] has no store for.
pub(super) fn refuse_scheme(scheme: &str) -> Error {
    let scheme = scheme.to_ascii_lowercase();
    let near: Vec<String> =
        known().filter(|name| strsim::damerau_levenshtein(name, &scheme) <= 1).map(|name| format!("`{name}://`")).collect();
    let error = Error::config(format!("unknown scheme `{scheme}://` in `destination`"));
    match near.is_empty() {
        true => error.hint(
            "use a folder on local disk (`/lake`, `file:///lake`), a bucket (`s3://bucket/lake`, `gs://bucket/lake`) or a container on \
             Azure (`abfss://container@account.dfs.core.windows.net/lake`)",
        ),
        false => error.hint(format!("did you mean {}?", near.join(" or "))),
    }
}

/// Returns the scheme of a text that is a URL. A path may hold a colon, so only `scheme:/…` is taken for one.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let mut characters = scheme.chars();
    let is_scheme = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|other| other.is_ascii_alphanumeric() || matches!(other, '+' | '-' | '.'));
    if !is_scheme || !rest.starts_with('/') {
        return None;
    }
    // Schemes are compared in lower case; the known ones are the only ones that matter here.
    match known().find(|known| known.eq_ignore_ascii_case(scheme)) {
        Some(known) => Some(known),
        // One slash after an unknown word is a folder's name with a colon at its end.
        None if rest.starts_with("//") => Some(scheme),
        None => None,
    }
}

fn file_url(text: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|error| Error::config(format!("`destination` `{text}` is not a URL")).source(error))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::config(format!("`destination` `{text}` has a query or fragment, which a file has not"))
            .hint("write `?` as `%3F` and `#` as `%23`, or write the plain path without `file://`"));
    }
    let names_a_host = || {
        Error::config(format!("`destination` `{text}` names `{}` as a host", url.host_str().unwrap_or_default()))
            .hint("a file URL has three slashes, `file:///lake`; a relative path is written without `file://`, `./lake`")
    };
    if url.host_str().is_some_and(|host| !host.eq_ignore_ascii_case("localhost")) {
        return Err(names_a_host());
    }
    let path = url.to_file_path().map_err(|()| names_a_host())?;
    directory_url(&path)
}

fn memory_url(text: &str) -> Result<Url> {
    let mut url =
        Url::parse(text).map_err(|error| Error::config(format!("`destination` `{text}` is not a URL")).source(error))?;
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

fn bucket_url(text: &str) -> Result<Url> {
    // The text is not shown: people write keys before the bucket.
    let mut url = Url::parse(text).map_err(|error| Error::config("`destination` is not a URL of a bucket").source(error))?;
    if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
        return Err(Error::config("`destination` has a user, a password or a port before the bucket's path").hint(
            "keys belong into `storage_options` (`aws_access_key_id` and `aws_secret_access_key`, `google_service_account`), another host is its \
             `aws_endpoint_url` or `google_base_url`",
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(Error::config(format!("`destination` `{text}` names no bucket"))
            .hint("write `s3://bucket/path` or `gs://bucket/path`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::config(format!("`destination` `{text}` has a query or fragment, which a bucket has not"))
            .hint("write `?` as `%3F` and `#` as `%23`"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{path}/"));
    if url.scheme() == "gcs" {
        url.set_scheme("gs").map_err(|()| Error::internal("a bucket's URL does not change its scheme"))?;
    }
    Ok(url)
}

/// Returns the URL of the directory `path`, made absolute.
fn directory_url(path: &Path) -> Result<Url> {
    if path.starts_with("~") {
        return Err(Error::config(format!("`~` in `destination` `{}` is a shell's word for a home folder", path.display()))
            .hint("write the folder's full path; a folder that is really called `~` is `./~`"));
    }
    let path = absolute(path)?;
    Url::from_directory_path(&path)
        .map_err(|()| Error::config(format!("`destination` `{}` cannot be written as a URL", path.display())))
}

/// Returns `path` from the root of the file system, without `.` and `..`; a `..` after a symbolic link leads to the parent of
/// what the link points to, as everywhere.
fn absolute(path: &Path) -> Result<PathBuf> {
    let here = match path.is_absolute() {
        true => PathBuf::new(),
        false => std::env::current_dir().map_err(|error| {
            Error::config(format!("`destination` `{}` is relative, but there is no working directory", path.display()))
                .source(error)
        })?,
    };
    let mut result = here;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if let Ok(real) = result.canonicalize() {
                    result = real;
                }
                result.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => result.push(component),
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> String {
        normalise_destination(text).map_or_else(|error| error.render(), |url| url.to_string())
    }

    #[test]
    fn paths_become_file_urls_with_a_trailing_slash() {
        assert_eq!(url("/lake"), "file:///lake/");
        assert_eq!(url("/lake/"), "file:///lake/");
        assert_eq!(url("/a/./b/../lake"), "file:///a/lake/");
        assert_eq!(url("/my lake/50%/é#?"), "file:///my%20lake/50%25/%C3%A9%23%3F/");
        assert_eq!(url("/a=1/b:c"), "file:///a=1/b:c/");
        assert_eq!(url("/"), "file:///");
    }

    #[test]
    fn relative_paths_start_at_the_working_directory() {
        let here = Url::from_directory_path(std::env::current_dir().unwrap()).unwrap();
        assert_eq!(url("./lake"), format!("{here}lake/"));
        assert_eq!(url("lake"), format!("{here}lake/"));
        assert_eq!(url("."), here.to_string());
        assert_eq!(url("./~"), format!("{here}~/"));
        assert_eq!(url("a:b"), format!("{here}a:b/"));
    }

    #[test]
    fn a_parent_of_a_symbolic_link_is_the_parent_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::os::unix::fs::symlink(root.join("real/deep"), root.join("link")).unwrap();
        let url = normalise_destination(root.join("link/../lake").to_str().unwrap()).unwrap();
        assert_eq!(url.to_file_path().unwrap(), root.join("real/lake"));
    }

    #[test]
    fn file_urls_are_decoded_once() {
        assert_eq!(url("file:///x"), "file:///x/");
        assert_eq!(url("FILE:///x"), "file:///x/");
        assert_eq!(url("file:/x"), "file:///x/");
        assert_eq!(url("file://localhost/x"), "file:///x/");
        assert_eq!(url("file:///my%20lake"), "file:///my%20lake/");
        assert_eq!(normalise_destination("file:///50%2525").unwrap().to_file_path().unwrap(), Path::new("/50%25"));
    }

    #[test]
    fn memory_is_a_root_of_its_own() {
        assert_eq!(url("memory://"), "memory:///");
        assert_eq!(url("memory:///"), "memory:///");
        assert_eq!(url("memory:///a/b"), "memory:///a/b/");
    }

    #[test]
    fn a_bucket_has_a_path_with_a_trailing_slash() {
        assert_eq!(url("s3://lake"), "s3://lake/");
        assert_eq!(url("s3a://my.lake_1/a b/é//"), "s3a://my.lake_1/a%20b/%C3%A9/");
        assert_eq!(url("gs://my.lake_1/a b"), "gs://my.lake_1/a%20b/");
        assert_eq!((url("gcs://lake"), url("GCS://lake/x")), ("gs://lake/".to_owned(), "gs://lake/x/".to_owned()));
    }

    #[test]
    fn wrong_destinations_say_what_is_wrong() {
        let text = |destination: &str| {
            let error = normalise_destination(destination).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{destination}");
            error.render()
        };
        assert!(text("").contains("`destination` is empty"));
        assert!(text("file://lake/x").contains("names `lake` as a host") && text("file://lake/x").contains("three slashes"));
        assert!(text("file:///a?b").contains("query"));
        assert!(text("~/lake").contains("home folder"));
        assert!(text("az://").contains("names no container") && text("abfss:/").contains("names no container"));
        assert!(text("s3://").contains("names no bucket") && text("s3:/b/x").contains("names no bucket"));
        assert!(text("s3://b/x?y").contains("query"));
        let secret = text("s3a://AKIA:hunter2@bucket/x");
        assert!(secret.contains("aws_access_key_id") && !secret.contains("hunter2"), "{secret}");
        assert!(text("s4://bucket").contains("unknown scheme `s4://`") && text("s4://bucket").contains("did you mean `s3://`"));
        assert!(text("flie:///lake").contains("did you mean `file://`?"));
        assert!(text("ftp://host/x").contains("unknown scheme `ftp://`"));
    }
}
