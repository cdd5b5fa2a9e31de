//! Key files of Google, of every kind: read, checked as far as it goes without asking anybody, and made into credentials.

use std::fmt;
use std::path::PathBuf;

use google_cloud_auth::credentials::service_account::AccessSpecifier;
use google_cloud_auth::credentials::{
    AccessTokenCredentials, external_account, external_account_authorized_user, impersonated, mds, service_account, user_account,
};
use serde_json::Value;

use crate::store::remote::redactor::Redactor;
use crate::{Error, Result};

/// What tokens are asked for: all that objects need.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// What a federated token is asked for: the exchange grants nothing narrower.
const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Members of a key file that must not be shown.
const SECRET_MEMBERS: [&str; 3] = ["private_key", "client_secret", "refresh_token"];

/// Where a key comes from. It is read again when the store says that its tokens have expired.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A file.
    File { path: PathBuf, named_by: &'static str },
    /// The key's JSON text.
    Text { text: String, named_by: &'static str },
    /// The metadata service of the machine, which needs no key.
    Metadata { host: Option<String> },
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "File({})", path.display()),
            Self::Text { named_by, .. } => write!(f, "Text({named_by})"),
            Self::Metadata { host } => write!(f, "Metadata({host:?})"),
        }
    }
}

impl Source {
    /// Returns the option or variable that names the source.
    pub(super) fn named_by(&self) -> &'static str {
        match self {
            Self::File { named_by, .. } | Self::Text { named_by, .. } => named_by,
            Self::Metadata { .. } => "the metadata service",
        }
    }

    /// Reads and checks the key; its secrets are made known to `redactor`.
    ///
    /// **Errors:** `Config`, naming the source and the member that is missing or wrong; nothing of the key is shown.
    pub(super) fn load(&self, redactor: &Redactor) -> Result<Key> {
        let (text, what) = match self {
            Self::Metadata { host } => return Ok(Key::Metadata { host: host.clone() }),
            Self::File { path, named_by } => {
                if path.to_string_lossy().trim_start().starts_with('{') {
                    return Err(Error::config(format!("`{named_by}` is JSON text, not the path of a file"))
                        .hint("the text of a key is `google_service_account_key` of `storage_options`"));
                }
                let what = format!("the key file `{}` (`{named_by}`)", path.display());
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Error::config(format!("{what} cannot be read"))
                        .hint("correct the path, or the permissions of the file")
                        .source(error)
                })?;
                (text, what)
            }
            Self::Text { text, named_by } => (text.clone(), format!("the key of `{named_by}`")),
        };
        redactor.add(&text);
        let json: Value = serde_json::from_str(&text).map_err(|error| {
            // The library's message tells line, column and what it waited for, not what it met.
            let error = Error::config(format!("{what} is not JSON")).source(error);
            match self {
                Self::Text { .. } => error.hint("write the text of the key file here; its path is `google_service_account`"),
                _ => error.hint("name the JSON file that Google gave you"),
            }
        })?;
        hide(&json, redactor);
        Key::checked(json, self.named_by(), &what)
    }
}

/// Makes the secrets of a key known, in the forms in which a message may quote them.
fn hide(json: &Value, redactor: &Redactor) {
    let Some(members) = json.as_object() else { return };
    for (name, value) in members {
        match value {
            Value::String(secret) if SECRET_MEMBERS.contains(&name.as_str()) => {
                redactor.add(secret);
                redactor.add(&secret.escape_debug().to_string());
                // Lines of a private key, all but its first and last.
                secret.lines().filter(|line| line.len() > 16 && !line.starts_with("-----")).for_each(|line| redactor.add(line));
            }
            Value::Object(_) => hide(value, redactor),
            _ => {}
        }
    }
}

/// A checked key.
#[derive(Clone)]
pub(super) enum Key {
    /// One of the kinds of `type`.
    Json {
        kind: Kind,
        json: Value,
    },
    Metadata {
        host: Option<String>,
    },
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// What the member `type` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ServiceAccount,
    AuthorizedUser,
    Impersonated,
    External,
    ExternalUser,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "service_account" => Self::ServiceAccount,
            "authorized_user" => Self::AuthorizedUser,
            "impersonated_service_account" => Self::Impersonated,
            "external_account" => Self::External,
            "external_account_authorized_user" => Self::ExternalUser,
            _ => return None,
        })
    }

    fn needed_members(self) -> &'static [&'static str] {
        match self {
            Self::ServiceAccount => &["client_email", "private_key", "private_key_id"],
            Self::AuthorizedUser => &["client_id", "client_secret", "refresh_token"],
            Self::Impersonated => &["service_account_impersonation_url", "source_credentials"],
            Self::External => &["audience", "subject_token_type", "token_url", "credential_source"],
            Self::ExternalUser => &["client_id", "client_secret", "refresh_token"],
        }
    }
}

impl Key {
    fn checked(mut json: Value, named_by: &str, what: &str) -> Result<Self> {
        let wrong = |problem: String| {
            Error::config(format!("{what} {problem}")).hint(
                "use the file as Google gave it: a service account's key, or what `gcloud auth application-default login` wrote",
            )
        };
        if json.get("disable_oauth").and_then(Value::as_bool) == Some(true) {
            return Ok(Self::Json { kind: Kind::ServiceAccount, json });
        }
        let Some(members) = json.as_object_mut() else { return Err(wrong("is no JSON object".to_owned())) };
        let kind = match members.get("type").map(Value::as_str) {
            // Programs that build the text themselves leave it out.
            None if named_by.to_ascii_lowercase().contains("service_account") => Kind::ServiceAccount,
            None | Some(None) => return Err(wrong("has no `type`".to_owned())),
            Some(Some(kind)) => Kind::of(kind).ok_or_else(|| wrong(format!("has the type `{kind}`, which is not supported")))?,
        };
        let is_missing = |name: &&&str| members.get(**name).is_none_or(|value| value.is_null() || value.as_str() == Some(""));
        if let Some(missing) = kind.needed_members().iter().find(is_missing) {
            return Err(wrong(format!("has no `{missing}`")));
        }
        if let Some(domain) = members.get("universe_domain").and_then(Value::as_str)
            && domain != "googleapis.com"
        {
            return Err(wrong(format!("is for the universe `{domain}`; only `googleapis.com` is supported")));
        }
        if kind == Kind::ServiceAccount {
            // Google's library wants it and makes no use of it here; keys that programs build lack it.
            members.entry("project_id").or_insert_with(|| Value::String(String::new()));
        }
        Ok(Self::Json { kind, json })
    }

    /// Returns the endpoint that a key for an emulator names.
    pub(super) fn endpoint(&self) -> Option<String> {
        let Self::Json { json, .. } = self else { return None };
        json.get("gcs_base_url").and_then(Value::as_str).filter(|url| !url.is_empty()).map(str::to_owned)
    }

    /// Whether the key, which is for an emulator, says that requests are not signed.
    pub(super) fn is_unsigned(&self) -> bool {
        matches!(self, Self::Json { json, .. } if json.get("disable_oauth").and_then(Value::as_bool) == Some(true))
    }

    /// Returns credentials that fetch tokens and refresh them four minutes before they expire, on the current runtime.
    ///
    /// **Errors:** the library's text, not cleaned.
    pub(super) fn into_credentials(self) -> std::result::Result<AccessTokenCredentials, String> {
        let built = match self {
            // The library takes the whole address, and looks the variable up by itself too.
            Self::Metadata { host } => {
                // Its tokens have the scopes of the machine.
                let endpoint = host.map(|host| format!("http://{host}"));
                let builder = endpoint.into_iter().fold(mds::Builder::default(), mds::Builder::with_endpoint);
                builder.build_access_token_credentials()
            }
            Self::Json { kind: Kind::ServiceAccount, json } => service_account::Builder::new(json)
                .with_access_specifier(AccessSpecifier::from_scopes([SCOPE]))
                .build_access_token_credentials(),
            // What the login was granted is what counts: it may not have this scope by name.
            Self::Json { kind: Kind::AuthorizedUser, json } => user_account::Builder::new(json).build_access_token_credentials(),
            Self::Json { kind: Kind::Impersonated, json } => {
                impersonated::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials()
            }
            Self::Json { kind: Kind::External, json } => {
                external_account::Builder::new(json).with_scopes([CLOUD_SCOPE]).build_access_token_credentials()
            }
            Self::Json { kind: Kind::ExternalUser, json } => {
                external_account_authorized_user::Builder::new(json).build_access_token_credentials()
            }
        };
        built.map_err(|error| crate::store::remote::answer::whole_text(&error))
    }
}
