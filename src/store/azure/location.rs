//! The spellings of a place on Azure: which account, which container, which path.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::{Error, Result};

/// The schemes of Azure destinations. Sources: the Hadoop driver (`abfs abfss wasb wasbs`), adlfs (`az abfs adl`), object_store
/// (`azure`), and the web addresses of containers.
pub(in crate::store) const SCHEMES: [&str; 8] = ["abfs", "abfss", "adl", "az", "azure", "wasb", "wasbs", "https"];

/// What follows the account in the name of a host: the service's name (`blob`, `dfs`) and one of these.
/// Source: <https://learn.microsoft.com/en-us/azure/storage/common/storage-account-overview#storage-account-endpoints>
const SUFFIXES: [&str; 5] =
    ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "storage.azure.net", "fabric.microsoft.com"];

/// What a URL says of the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    /// The account that the host names.
    pub account: Option<String>,
    pub container: String,
    /// The path within the container, as it stands in the URL (encoded, slashes at its ends).
    pub path: String,
    /// The root of the blob service, when the URL names a host.
    pub endpoint: Option<String>,
    /// The host is no name of Azure's: which account it serves, and whether that stands in the path, is not said by the URL.
    pub is_custom: bool,
}

/// Returns the URL of a destination with a trailing slash.
///
/// **Errors:** `Config`, naming what is wrong with the text; never showing what may be a secret.
pub(in crate::store) fn normalise(text: &str) -> Result<Url> {
    // The text is not shown: people paste addresses with a SAS, and write keys before the account.
    let mut url = Url::parse(text).map_err(|error| Error::config("`destination` is not a URL of a container").source(error))?;
    if url.password().is_some() {
        return Err(Error::config("`destination` has a password before the account")
            .hint("keys belong into `storage_options` (`azure_storage_account_key`); before the `@` stands the container"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::config("`destination` has a query or fragment, which a container has not").hint(
            "a shared access signature belongs into `storage_options` (`azure_storage_sas_token`); in a path write `?` as `%3F` and `#` as `%23`",
        ));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{path}/"));
    locate(&url)?;
    Ok(url)
}

/// Reads a URL that [`normalise`] made.
///
/// **Errors:** `Config` when it names no container, or is another store's.
pub(super) fn locate(url: &Url) -> Result<Location> {
    let no_container = || {
        Error::config(format!("`destination` `{url}` names no container"))
            .hint("write `abfss://container@account.dfs.core.windows.net/path`, or `az://container/path` with `azure_storage_account_name`")
    };
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let user = percent_decode_str(url.username()).decode_utf8_lossy().into_owned();
    if url.scheme() != "https" && user.is_empty() && !host.contains('.') {
        // `az://container/path`
        if host.is_empty() {
            return Err(no_container());
        }
        if url.port().is_some() {
            return Err(Error::config("`destination` has a port behind the container")
                .hint("another host is the `azure_storage_endpoint` of `storage_options`"));
        }
        return Ok(Location { account: None, container: host, path: url.path().to_owned(), endpoint: None, is_custom: false });
    }
    if let Some(error) = of_another_store(&host) {
        return Err(error);
    }
    let (container, path) = match user.is_empty() {
        false if url.scheme() == "https" => {
            return Err(Error::config("`destination` has a user before its host")
                .hint("write `https://account.blob.core.windows.net/container/path`"));
        }
        // `abfss://container@account.dfs.core.windows.net/path`
        false => (user, url.path().to_owned()),
        // `https://account.blob.core.windows.net/container/path`
        true => {
            let (container, path) = url.path().trim_start_matches('/').split_once('/').unwrap_or_default();
            (percent_decode_str(container).decode_utf8_lossy().into_owned(), format!("/{path}"))
        }
    };
    if container.is_empty() || host.is_empty() {
        return Err(no_container());
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let Some((account, suffix)) = split_host(&host) else {
        let endpoint = Some(format!("https://{host}{port}"));
        return Ok(Location { account: None, container, path, endpoint, is_custom: true });
    };
    let endpoint = Some(format!("https://{account}.blob.{suffix}{port}"));
    // `account.z12` for accounts that live in a DNS zone, `account-secondary` is read-only and is not meant.
    let name = account.split('.').next().unwrap_or_default().to_owned();
    Ok(Location { account: Some(name), container, path, endpoint, is_custom: false })
}

/// Returns account and suffix of a host of Azure's.
fn split_host(host: &str) -> Option<(&str, &str)> {
    ["dfs", "blob"].into_iter().find_map(|service| {
        let (account, suffix) = host.split_once(&format!(".{service}."))?;
        (SUFFIXES.contains(&suffix) && !account.is_empty()).then_some((account, suffix))
    })
}

fn of_another_store(host: &str) -> Option<Error> {
    let (store, hint) = match host {
        _ if host.ends_with(".amazonaws.com") => ("Amazon S3", "write `s3://bucket/path`"),
        "storage.googleapis.com" | "storage.cloud.google.com" => ("Google Cloud Storage", "write `gs://bucket/path`"),
        _ => return None,
    };
    Some(Error::config(format!("`https://{host}` is {store}; web addresses are taken for containers on Azure")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> (String, String, String, String) {
        let Location { account, container, path, endpoint, .. } = locate(&normalise(text).unwrap()).unwrap();
        (account.unwrap_or_default(), container, path, endpoint.unwrap_or_default())
    }

    fn problem(text: &str) -> String {
        let error = normalise(text).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{text}");
        error.render()
    }

    #[test]
    fn every_spelling_means_the_same_place() {
        let blob = "https://acct.blob.core.windows.net";
        for text in [
            "abfss://lake@acct.dfs.core.windows.net/a b/c",
            "abfs://lake@acct.dfs.core.windows.net/a b/c/",
            "abfss://lake@ACCT.blob.core.windows.net/a b/c//",
            "wasbs://lake@acct.blob.core.windows.net/a b/c",
            "az://acct.blob.core.windows.net/lake/a b/c",
            "abfss://acct.dfs.core.windows.net/lake/a b/c",
            "https://acct.blob.core.windows.net/lake/a b/c",
            "https://acct.dfs.core.windows.net/lake/a b/c/",
        ] {
            assert_eq!(place(text), ("acct".into(), "lake".into(), "/a%20b/c/".into(), blob.into()), "{text}");
        }
        for scheme in ["az", "azure", "adl", "abfs", "abfss"] {
            assert_eq!(place(&format!("{scheme}://lake/a")), (String::new(), "lake".into(), "/a/".into(), String::new()));
            assert_eq!(place(&format!("{scheme}://lake")).2, "/");
        }
    }

    #[test]
    fn clouds_zones_and_fabric_have_their_own_hosts() {
        assert_eq!(place("abfss://c@a.dfs.core.chinacloudapi.cn/x").3, "https://a.blob.core.chinacloudapi.cn");
        assert_eq!(place("https://a.z12.blob.storage.azure.net/c/x").3, "https://a.z12.blob.storage.azure.net");
        assert_eq!(place("https://a.z12.blob.storage.azure.net/c/x").0, "a");
        let fabric = place("abfss://My%20Workspace@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Tables");
        assert_eq!(
            (fabric.0.as_str(), fabric.1.as_str(), fabric.2.as_str()),
            ("onelake", "My Workspace", "/lake.Lakehouse/Tables/")
        );
        assert_eq!(fabric.3, "https://onelake.blob.fabric.microsoft.com");
    }

    #[test]
    fn a_host_of_ones_own_is_an_endpoint() {
        let custom = locate(&normalise("https://storage.example.com:8443/lake/x").unwrap()).unwrap();
        assert!(custom.is_custom && custom.account.is_none() && custom.container == "lake" && custom.path == "/x/");
        assert_eq!(custom.endpoint.as_deref(), Some("https://storage.example.com:8443"));
    }

    #[test]
    fn wrong_places_say_what_is_wrong_and_show_no_secret() {
        assert!(
            problem("az://").contains("names no container")
                && problem("https://a.blob.core.windows.net/").contains("no container")
        );
        for text in ["https://a.blob.core.windows.net/c?sv=1&sig=hunter2", "abfss://c:hunter2@a.dfs.core.windows.net/x"] {
            assert!(problem(text).contains("storage_options") && !problem(text).contains("hunter2"), "{}", problem(text));
        }
        assert!(problem("https://b.s3.eu-west-1.amazonaws.com/x").contains("s3://bucket"));
        assert!(problem("https://storage.googleapis.com/b/x").contains("gs://bucket"));
        assert!(problem("https://me@a.blob.core.windows.net/c/x").contains("has a user"));
        assert!(problem("az://lake:80/x").contains("azure_storage_endpoint"));
    }
}
