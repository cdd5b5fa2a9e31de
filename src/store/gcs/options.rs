//! `storage_options` as deltalake and dlt users write them → what the clients are built from. Each option works or is refused by name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use object_store::{ClientOptions, RetryConfig};
use url::Url;

use super::keys::{Key, Source};
use super::names::{canonical, refusal};
use crate::store::remote::options::{Given, client, parse_bool, prefix_of, retry};
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// Where requests go unless an option says otherwise.
const ENDPOINT: &str = "https://storage.googleapis.com";

/// Everything about a bucket that the user said.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub bucket: String,
    /// Keys begin with it: no slashes at its ends.
    pub prefix: String,
    /// Without a slash at its end.
    pub endpoint: String,
    /// `None`: requests are not signed.
    pub source: Option<Source>,
    pub client: ClientOptions,
    pub retry: RetryConfig,
    pub attempt: Duration,
    pub content_type: Option<String>,
    pub user_agent: Option<String>,
}

/// Returns the settings of the bucket that `url` names; `variable` looks up the environment. Reads the file of the credentials.
///
/// **Errors:** `Config`, with everything that is wrong.
pub(super) fn parse(
    url: &Url,
    options: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
    redactor: &Redactor,
) -> Result<Settings> {
    let variable = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let bucket = url.host_str().unwrap_or_default().to_owned();
    let prefix = prefix_of(url, url.path())?;
    let mut given = Given::new(options, canonical, refusal);
    if let Some(named) = given.text("bucket")
        && named != bucket
    {
        given.problems.push(format!("storage option `bucket` is `{named}`, the destination's bucket is `{bucket}`"));
    }
    let emulator =
        variable("STORAGE_EMULATOR_HOST").map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let endpoint = given.text("google_base_url").or_else(|| variable("GOOGLE_BASE_URL"));
    let is_emulator = endpoint.is_none() && emulator.is_some();
    let source = source(&mut given, &variable, redactor, is_emulator)?;
    let key = source.as_ref().map(|source| source.load(redactor)).transpose()?;
    let endpoint = endpoint.or(emulator).or_else(|| key.as_ref()?.endpoint());
    let endpoint = endpoint.map_or_else(|| ENDPOINT.to_owned(), |endpoint| endpoint.trim_end_matches('/').to_owned());
    let source = source.filter(|_| !key.as_ref().is_some_and(Key::is_unsigned));

    let allow_http = given.yes("allow_http").or_else(|| parse_bool(&variable("GOOGLE_ALLOW_HTTP")?)).unwrap_or(false);
    given.problems.extend(wrong_endpoint(&endpoint, allow_http || source.is_none()));
    let (content_type, user_agent) = (given.peek("default_content_type"), given.peek("user_agent"));
    let retry = retry(&mut given);
    let (client, attempt) = client(&mut given, endpoint.starts_with("http://"));
    if !given.problems.is_empty() {
        return Err(Error::config(given.problems.join("; ")));
    }
    Ok(Settings { bucket, prefix, endpoint, source, client, retry, attempt, content_type, user_agent })
}

fn wrong_endpoint(endpoint: &str, allow_http: bool) -> Option<String> {
    let Ok(url) = Url::parse(endpoint) else {
        return Some(format!("the endpoint `{endpoint}` is not a URL such as `{ENDPOINT}`"));
    };
    match url.scheme() {
        _ if url.password().is_some() || !url.username().is_empty() => {
            // Not shown: it has a password in it.
            Some("the endpoint has a user name or password in it; set `google_service_account` or the like".to_owned())
        }
        "https" => None,
        "http" if allow_http => None,
        "http" => Some(format!(
            "the endpoint `{endpoint}` is not encrypted, and requests to it would carry a token; set the storage option `allow_http` to `true` \
             to allow that, or `google_skip_signature` to `true` to send none"
        )),
        scheme => Some(format!("the endpoint `{endpoint}` has the scheme `{scheme}`; `https` and `http` work")),
    }
}

/// Returns where credentials come from: options, then the environment, then what `gcloud` has left, then the machine.
fn source(
    given: &mut Given,
    variable: &impl Fn(&str) -> Option<String>,
    redactor: &Redactor,
    is_emulator: bool,
) -> Result<Option<Source>> {
    let file = |named_by: &'static str, path: String| Source::File { path: PathBuf::from(path), named_by };
    let text = |named_by: &'static str, text: String| {
        redactor.add(&text);
        Source::Text { text, named_by }
    };
    let options = [
        given.text("google_service_account").map(|path| file("google_service_account", path)),
        given.text("google_service_account_key").map(|key| text("google_service_account_key", key)),
        given.text("google_application_credentials").map(|path| file("google_application_credentials", path)),
    ];
    let is_unsigned = given.yes("google_skip_signature");
    let mut named: Vec<Source> = options.into_iter().flatten().collect();
    if is_unsigned == Some(true) && !named.is_empty() {
        given.problems.push(format!("storage options `google_skip_signature` and `{}` exclude each other", named[0].named_by()));
    }
    if let [one, other, ..] = &named[..] {
        given.problems.push(format!("storage options `{}` and `{}` exclude each other", one.named_by(), other.named_by()));
    }
    let is_unsigned = is_unsigned.or_else(|| parse_bool(&variable("GOOGLE_SKIP_SIGNATURE")?).filter(|_| named.is_empty()));
    if is_unsigned == Some(true) || (is_emulator && named.is_empty()) {
        return Ok(None);
    }
    if let Some(source) = named.pop() {
        return Ok(Some(source));
    }
    let of_environment = ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS"]
        .into_iter()
        .find_map(|name| Some(file(name, variable(name)?)));
    let of_environment =
        of_environment.or_else(|| Some(text("GOOGLE_SERVICE_ACCOUNT_KEY", variable("GOOGLE_SERVICE_ACCOUNT_KEY")?)));
    let of_gcloud = || {
        let folder = variable("CLOUDSDK_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config/gcloud")))?;
        let path = folder.join("application_default_credentials.json");
        path.exists().then_some(Source::File { path, named_by: "gcloud auth application-default login" })
    };
    let of_machine = || Source::Metadata { host: variable("GCE_METADATA_HOST") };
    Ok(Some(of_environment.or_else(of_gcloud).unwrap_or_else(of_machine)))
}

#[cfg(test)]
mod tests;
