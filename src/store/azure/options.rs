//! `storage_options` as deltalake, dlt and adlfs users write them → what the clients are built from. Each option works or is refused by
//! name. Variables of the environment count where an option is not set.

mod keys;

use std::collections::BTreeMap;

use object_store::{ClientOptions, RetryConfig};
use url::Url;

use super::location::{Location, locate};
use super::names::{canonical, refusal, variables};
use crate::store::remote::options::{Given, client, parse_bool, prefix_of, retry};
use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};
use keys::{ConnectionString, keys};
pub(super) use keys::{Identity, Keys, Principal};

/// The account and key of the emulator, which are public.
/// Source: <https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key>
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000";

/// Everything about a container that the user said.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub account: String,
    pub container: String,
    /// Keys begin with it: no slashes at its ends.
    pub prefix: String,
    /// The root of the blob service; its path is empty, or names the account.
    pub endpoint: Url,
    pub keys: Keys,
    /// Where identities get their tokens; without it the public cloud's.
    pub authority: Option<Url>,
    pub client: ClientOptions,
    pub retry: RetryConfig,
    pub content_type: Option<String>,
}

/// Looks up the environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the first variable that sets an option.
fn variable_of(known: &str, variables_of: Variables<'_>) -> Option<String> {
    let named = |name: String| variables_of(&name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    variables(known).into_iter().find_map(named)
}

/// Returns the settings of the container that `url` names; `variable` looks up the environment.
///
/// **Errors:** `Config`, with everything that is wrong.
pub(super) fn parse(
    url: &Url,
    options: &BTreeMap<String, String>,
    variable: Variables<'_>,
    redactor: &Redactor,
) -> Result<Settings> {
    let mut location = locate(url)?;
    let mut given = Given::new(options, canonical, refusal);
    with_account_in_path(&mut location, &given, variable);
    for name in ["azure_container_name", "bucket"] {
        if let Some(named) = given.text(name)
            && named != location.container
        {
            given
                .problems
                .push(format!("storage option `{name}` is `{named}`, the destination's container is `{}`", location.container));
        }
    }
    // Nothing here sets tags.
    given.yes("azure_disable_tagging");
    let flag = |name: &str| parse_bool(&variable_of(name, variable)?);
    let is_fabric = given.yes("azure_use_fabric_endpoint").or_else(|| flag("azure_use_fabric_endpoint")).unwrap_or(false);
    let allow_http = given.yes("allow_http").or_else(|| parse_bool(&variable("AZURE_ALLOW_HTTP")?)).unwrap_or(false);
    let connection = connection(&mut given, variable, redactor);
    let is_emulator = given.yes("azure_storage_use_emulator").or_else(|| flag("azure_storage_use_emulator")).unwrap_or(false)
        || connection.as_ref().is_some_and(|connection| connection.is_development);
    let account = account(&mut given, &location, connection.as_ref(), variable, is_emulator);
    let endpoint = endpoint(&mut given, &location, connection.as_ref(), variable, &account, (is_emulator, is_fabric));
    // What does not leave the machine needs no encryption.
    let allow_http = allow_http || Url::parse(&endpoint).is_ok_and(|endpoint| is_loopback(&endpoint));
    let endpoint = checked(&mut given, endpoint, "the endpoint", allow_http);
    let keys = keys(&mut given, connection.as_ref(), variable, is_emulator, redactor);
    let authority =
        given.text("azure_authority_host").or_else(|| variable_of("azure_authority_host", variable)).and_then(|host| {
            let host = if host.contains("://") { host } else { format!("https://{host}") };
            let authority = checked(&mut given, host, "the authority host", true)?;
            if authority.scheme() == "http" && !is_loopback(&authority) {
                given.problems.push(format!("the authority host `{authority}` is not encrypted, and secrets are sent to it"));
            }
            Some(authority)
        });
    if let (Some(endpoint), Keys::Token(_) | Keys::Identity(_)) = (&endpoint, &keys)
        && endpoint.scheme() == "http"
        && !is_loopback(endpoint)
    {
        given.problems.push(format!("the endpoint `{endpoint}` is not encrypted, and tokens are sent to encrypted ones only"));
    }
    let retry = retry(&mut given);
    let content_type = given.peek("default_content_type");
    let (client, _) = client(&mut given, allow_http);
    if account.is_empty() {
        given.problems.push(
            "the storage account is not known: set `azure_storage_account_name`, or write \
             `abfss://container@account.dfs.core.windows.net/path`"
                .to_owned(),
        );
    }
    let endpoint = match endpoint {
        Some(endpoint) if given.problems.is_empty() => endpoint,
        _ => return Err(Error::config(given.problems.join("; "))),
    };
    let prefix = prefix_of(url, &location.path)?;
    Ok(Settings { account, container: location.container, prefix, endpoint, keys, authority, client, retry, content_type })
}

fn connection(given: &mut Given, variable: Variables<'_>, redactor: &Redactor) -> Option<ConnectionString> {
    let (text, is_option) = match given.text("azure_storage_connection_string") {
        Some(text) => (text, true),
        None => (variable_of("azure_storage_connection_string", variable)?, false),
    };
    match ConnectionString::parse(&text, is_option, redactor) {
        Ok(connection) => Some(connection),
        Err(problem) => {
            given.problems.push(problem);
            None
        }
    }
}

fn account(
    given: &mut Given,
    location: &Location,
    connection: Option<&ConnectionString>,
    variable: Variables<'_>,
    is_emulator: bool,
) -> String {
    let named = given.text("azure_storage_account_name");
    if let (Some(named), Some(of_url)) = (&named, &location.account)
        && named != of_url
    {
        given
            .problems
            .push(format!("storage option `azure_storage_account_name` is `{named}`, the destination's account is `{of_url}`"));
    }
    let of_connection = || connection.and_then(|connection| connection.account.clone());
    let found = location.account.clone().or(named).or_else(of_connection);
    let found = found.or_else(|| variable_of("azure_storage_account_name", variable));
    found.or_else(|| is_emulator.then(|| EMULATOR_ACCOUNT.to_owned())).unwrap_or_default()
}

/// Returns the root of the blob service as it is said somewhere; of Azure's own where nothing says it.
fn endpoint(
    given: &mut Given,
    location: &Location,
    connection: Option<&ConnectionString>,
    variable: Variables<'_>,
    account: &str,
    (is_emulator, is_fabric): (bool, bool),
) -> String {
    let host = given.text("azure_account_host");
    let host = host.map(|host| if host.contains("://") { host } else { format!("https://{host}") });
    let set = given.text("azure_storage_endpoint").or(host);
    let of_connection = || connection.and_then(|connection| connection.endpoint.clone());
    let of_emulator = || {
        let root = variable("AZURITE_BLOB_STORAGE_URL").filter(|url| !url.is_empty());
        is_emulator.then(|| root.unwrap_or_else(|| EMULATOR_ENDPOINT.to_owned()))
    };
    // The emulator takes the account in the path.
    let with_account = |root: String| {
        let root = root.trim_end_matches('/').to_owned();
        let has_path = root.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        if is_emulator && !has_path { format!("{root}/{account}") } else { root }
    };
    let of_azure = || match is_fabric {
        true => format!("https://{account}.blob.fabric.microsoft.com"),
        false => format!("https://{account}.blob.core.windows.net"),
    };
    let found = set
        .or_else(of_emulator)
        .or_else(|| location.endpoint.clone())
        .or_else(of_connection)
        .or_else(|| variable_of("azure_storage_endpoint", variable));
    with_account(found.unwrap_or_else(of_azure))
}

/// A host of one's own may serve many accounts, the account being the first part of the path: it is where that is the account's name.
fn with_account_in_path(location: &mut Location, given: &Given, variable: Variables<'_>) {
    let named = given.peek("azure_storage_account_name").or_else(|| variable_of("azure_storage_account_name", variable));
    let (true, Some(named), Some(endpoint)) = (location.is_custom, named, location.endpoint.clone()) else { return };
    if location.container != named {
        return;
    }
    let (container, path) = location.path.trim_start_matches('/').split_once('/').unwrap_or_default();
    if !container.is_empty() {
        let (container, path) = (container.to_owned(), format!("/{path}"));
        *location = Location { container, path, endpoint: Some(format!("{endpoint}/{named}")), ..location.clone() };
    }
}

/// Returns the URL of an endpoint, if it may be used.
fn checked(given: &mut Given, text: String, what: &str, allow_http: bool) -> Option<Url> {
    let Ok(url) = Url::parse(&text) else {
        given.problems.push(format!("{what} `{text}` is not a URL such as `https://account.blob.core.windows.net`"));
        return None;
    };
    if url.password().is_some() || !url.username().is_empty() || url.query().is_some() {
        // Not shown: it has a secret in it.
        given.problems.push(format!(
            "{what} has a user, a password or a query; set `azure_storage_account_key` or `azure_storage_sas_token`"
        ));
        return None;
    }
    match url.scheme() {
        "https" => Some(url),
        "http" if allow_http => Some(url),
        "http" => {
            given.problems.push(format!(
                "{what} `{url}` is not encrypted; set the storage option `azure_allow_http` to `true` to allow that"
            ));
            None
        }
        scheme => {
            given.problems.push(format!("{what} `{url}` has the scheme `{scheme}`; `https` and `http` work"));
            None
        }
    }
}

/// Whether an address does not leave the machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests;
