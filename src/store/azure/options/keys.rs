//! Which credentials the options and the environment name.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use super::super::names::variables;
use super::{EMULATOR_KEY, Variables, variable_of};
use crate::store::remote::options::{Given, parse_bool};
use crate::store::remote::redactor::Redactor;

/// Where the authorization of requests comes from.
#[derive(Clone)]
pub(in crate::store::azure) enum Keys {
    /// The key of the account, decoded.
    Account(Vec<u8>),
    /// A given shared access signature, as the pairs of its query.
    Sas(Vec<(String, String)>),
    /// A given token.
    Token(String),
    /// An identity of Entra, which gets tokens.
    Identity(Identity),
    /// None: requests are not signed.
    Unsigned,
}

/// Who gets tokens, and how.
#[derive(Clone)]
pub(in crate::store::azure) enum Identity {
    /// An application with a secret.
    Secret { tenant: String, client: String, secret: String },
    /// A workload with a token of its cluster, which is in a file.
    Workload { tenant: String, client: String, file: String },
    /// The identity of the machine, at the address given instead of the metadata service's.
    Managed { principal: Option<Principal>, endpoint: Option<Url> },
    /// The login of the Azure CLI.
    Cli { tenant: Option<String> },
    /// The identity of the machine, else the login of the Azure CLI.
    Found { principal: Option<Principal> },
}

/// One of several identities of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::azure) enum Principal {
    Client(String),
    Object(String),
    Resource(String),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Account(_) => "Account",
            Self::Sas(_) => "Sas",
            Self::Token(_) => "Token",
            Self::Identity(Identity::Secret { .. }) => "Secret",
            Self::Identity(Identity::Workload { .. }) => "Workload",
            Self::Identity(Identity::Managed { .. }) => "Managed",
            Self::Identity(Identity::Cli { .. }) => "Cli",
            Self::Identity(Identity::Found { .. }) => "Found",
            Self::Unsigned => "Unsigned",
        })
    }
}

/// What a connection string says.
/// Source: <https://learn.microsoft.com/en-us/azure/storage/common/storage-configure-connection-string>
pub(super) struct ConnectionString {
    pub account: Option<String>,
    pub endpoint: Option<String>,
    /// It is the emulator's.
    pub is_development: bool,
    key: Option<String>,
    sas: Option<String>,
    /// It is an option, not a variable.
    is_option: bool,
}

impl ConnectionString {
    /// **Errors:** what is wrong, without the text.
    pub(super) fn parse(text: &str, is_option: bool, redactor: &Redactor) -> Result<Self, String> {
        let (mut account, mut key, mut sas, mut blob, mut suffix, mut protocol) = (None, None, None, None, None, None);
        let mut is_development = false;
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err("the connection string is not a list of `name=value` with `;` between".to_owned());
            };
            let value = value.trim().to_owned();
            match name.trim().to_ascii_lowercase().as_str() {
                "accountname" => account = Some(value),
                "accountkey" => key = Some(value),
                "sharedaccesssignature" => sas = Some(value),
                "blobendpoint" => blob = Some(value),
                "endpointsuffix" => suffix = Some(value),
                "defaultendpointsprotocol" => protocol = Some(value),
                "usedevelopmentstorage" => is_development = parse_bool(&value).unwrap_or(false),
                // Addresses of the other services.
                _ => {}
            }
        }
        for secret in [&key, &sas].into_iter().flatten() {
            redactor.add(secret);
        }
        let of_parts = || {
            let account = account.as_deref()?;
            let protocol = protocol.as_deref().unwrap_or("https");
            suffix.as_deref().map(|suffix| format!("{protocol}://{account}.blob.{suffix}"))
        };
        let endpoint = blob.or_else(of_parts);
        if !is_development && key.is_none() && sas.is_none() {
            return Err("the connection string has neither `AccountKey` nor `SharedAccessSignature`".to_owned());
        }
        Ok(Self { account, endpoint, is_development, key, sas, is_option })
    }

    fn keys(&self, given: &mut Given) -> Option<Keys> {
        match (&self.key, &self.sas) {
            (Some(key), _) => account_key(given, key),
            (None, Some(text)) => sas(given, text),
            (None, None) => None,
        }
    }
}

/// One look-up of names: the options alone, or the options and then the environment.
struct LookUp<'a> {
    given: &'a mut Given,
    variable: Option<Variables<'a>>,
}

impl LookUp<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.given.peek(name).or_else(|| variable_of(name, self.variable?))
    }

    fn yes(&self, name: &str) -> bool {
        self.text(name).and_then(|text| parse_bool(&text)).unwrap_or(false)
    }
}

/// The names that hold credentials.
const NAMES: [&str; 11] = [
    "azure_storage_account_key",
    "azure_storage_sas_token",
    "azure_storage_token",
    "azure_client_id",
    "azure_client_secret",
    "azure_tenant_id",
    "azure_federated_token_file",
    "azure_msi_endpoint",
    "azure_object_id",
    "azure_msi_resource_id",
    "azure_use_azure_cli",
];

/// Those of them that name an identity.
const IDENTITY: [&str; 8] = [
    "azure_client_id",
    "azure_client_secret",
    "azure_tenant_id",
    "azure_federated_token_file",
    "azure_msi_endpoint",
    "azure_object_id",
    "azure_msi_resource_id",
    "azure_use_azure_cli",
];

/// Returns the credentials that the options name, or else the options and the environment together; the identity of the machine where
/// neither does.
pub(super) fn keys(
    given: &mut Given,
    connection: Option<&ConnectionString>,
    variable: Variables<'_>,
    is_emulator: bool,
    redactor: &Redactor,
) -> Keys {
    for name in ["azure_storage_account_key", "azure_storage_sas_token", "azure_storage_token", "azure_client_secret"] {
        for secret in given.peek(name).into_iter().chain(variables(name).into_iter().filter_map(|name| variable(&name))) {
            redactor.add(secret.trim());
        }
    }
    for name in ["azure_use_azure_cli", "azure_skip_signature"] {
        if given.peek(name).is_some_and(|text| parse_bool(&text).is_none()) {
            given.problems.push(format!("storage option `{name}` is neither `true` nor `false`"));
        }
    }
    exclusive(given, connection);
    let found = if given.peek("azure_skip_signature").and_then(|text| parse_bool(&text)) == Some(true) {
        Some(Keys::Unsigned)
    } else if let Some(connection) = connection.filter(|connection| connection.is_option) {
        connection.keys(given)
    } else {
        named(&mut LookUp { given: &mut *given, variable: None })
    };
    let found = found.or_else(|| connection?.keys(given));
    // The emulator's key is its own, whatever the environment says of a real account.
    let found = found.or_else(|| if is_emulator { account_key(given, EMULATOR_KEY) } else { None });
    let found = found.or_else(|| named(&mut LookUp { given: &mut *given, variable: Some(variable) }));
    let keys = found.unwrap_or_else(|| machine(&mut LookUp { given: &mut *given, variable: Some(variable) }));
    if let Keys::Sas(pairs) = &keys {
        pairs.iter().filter(|(name, _)| name == "sig").for_each(|(_, signature)| redactor.add(signature));
    }
    for name in NAMES.into_iter().chain(["azure_skip_signature"]) {
        given.text(name);
    }
    keys
}

/// Two kinds of credentials in the options leave open which one is meant.
fn exclusive(given: &mut Given, connection: Option<&ConnectionString>) {
    let mut kinds: Vec<&str> = [
        "azure_storage_account_key",
        "azure_storage_sas_token",
        "azure_storage_token",
        "azure_client_secret",
        "azure_federated_token_file",
    ]
    .into_iter()
    .filter(|name| given.peek(name).is_some())
    .collect();
    if connection.is_some_and(|connection| connection.is_option) {
        kinds.push("azure_storage_connection_string");
    }
    if let [one, other, ..] = kinds[..] {
        given.problems.push(format!("storage options `{one}` and `{other}` exclude each other"));
    }
}

fn named(look: &mut LookUp<'_>) -> Option<Keys> {
    // Options that name an identity are not passed over for a key in the environment.
    let is_identity = IDENTITY.iter().any(|name| look.given.peek(name).is_some());
    let text = |name: &str| if is_identity { look.given.peek(name) } else { look.text(name) };
    let (key, signature, token) =
        (text("azure_storage_account_key"), text("azure_storage_sas_token"), text("azure_storage_token"));
    if let Some(key) = key {
        return account_key(look.given, &key);
    }
    if let Some(signature) = signature {
        return sas(look.given, &signature);
    }
    if let Some(token) = token {
        return Some(Keys::Token(token));
    }
    let (client, tenant) = (look.text("azure_client_id"), look.text("azure_tenant_id"));
    let (secret, file) = (look.text("azure_client_secret"), look.text("azure_federated_token_file"));
    match (client, tenant, secret, file) {
        (Some(client), Some(tenant), Some(secret), _) => {
            return Some(Keys::Identity(Identity::Secret { tenant, client, secret }));
        }
        (Some(client), Some(tenant), None, Some(file)) => {
            return Some(Keys::Identity(Identity::Workload { tenant, client, file }));
        }
        (client, tenant, secret, file) if look.variable.is_some() && (secret.is_some() || file.is_some()) => {
            let kind = if secret.is_some() { "azure_client_secret" } else { "azure_federated_token_file" };
            for (name, value) in [("azure_client_id", client), ("azure_tenant_id", tenant)] {
                if value.is_none() {
                    look.given.problems.push(format!("storage option `{kind}` is set, `{name}` is not"));
                }
            }
        }
        _ => {}
    }
    look.yes("azure_use_azure_cli").then(|| Keys::Identity(Identity::Cli { tenant: look.text("azure_tenant_id") }))
}

fn machine(look: &mut LookUp<'_>) -> Keys {
    let endpoint = look.text("azure_msi_endpoint").and_then(|text| match Url::parse(&text) {
        Ok(url) => Some(url),
        Err(_) => {
            look.given.problems.push(format!("storage option `azure_msi_endpoint` is `{text}`, which is not a URL"));
            None
        }
    });
    let client = look.text("azure_client_id").map(Principal::Client);
    let object = look.text("azure_object_id").map(Principal::Object);
    let resource = look.text("azure_msi_resource_id").map(Principal::Resource);
    let has_id = object.is_some() || resource.is_some() || look.given.peek("azure_client_id").is_some();
    let principal = resource.or(object).or(client);
    if look.given.peek("azure_tenant_id").is_some() {
        look.given.problems.push(
            "storage option `azure_tenant_id` needs `azure_client_id`, and `azure_client_secret` or `azure_federated_token_file`"
                .to_owned(),
        );
    }
    // App Service and the like say in the environment where their identity is.
    let is_told = look.variable.is_some_and(|variable| variable("IDENTITY_ENDPOINT").is_some_and(|text| !text.is_empty()));
    Keys::Identity(match endpoint.is_some() || has_id || is_told {
        true => Identity::Managed {
            principal,
            endpoint: endpoint.filter(|_| !is_told || look.given.peek("azure_msi_endpoint").is_some()),
        },
        false => Identity::Found { principal },
    })
}

fn account_key(given: &mut Given, text: &str) -> Option<Keys> {
    match BASE64_STANDARD.decode(text.trim()) {
        Ok(key) if !key.is_empty() => Some(Keys::Account(key)),
        // Not shown: it is a secret, or nearly one.
        _ => {
            given.problems.push("the account key is not base64: copy it whole, with the `=` at its end".to_owned());
            None
        }
    }
}

/// Reads a signature as the portal gives it: a query, with or without `?`, or at the end of an address.
fn sas(given: &mut Given, text: &str) -> Option<Keys> {
    let text = text.rsplit_once('?').map_or(text, |(_, query)| query);
    // Some tools hand it on encoded once more.
    let text = if text.contains('&') { text.to_owned() } else { percent_decode_str(text).decode_utf8_lossy().into_owned() };
    let pairs: Vec<(String, String)> = text
        .split('&')
        .filter_map(|pair| pair.trim().split_once('='))
        .map(|(name, value)| (name.to_owned(), percent_decode_str(value).decode_utf8_lossy().into_owned()))
        .collect();
    if !pairs.iter().any(|(name, _)| name == "sig") || !pairs.iter().any(|(name, _)| name == "sv") {
        given.problems.push("the shared access signature has no `sv` or no `sig`: copy it whole, as `sv=…&sig=…`".to_owned());
        return None;
    }
    Some(Keys::Sas(pairs))
}
