//! What an answer of Azure means, for the object that was asked for and for the user.

use http::HeaderMap;

use super::options::Keys;
use crate::Error;
use crate::store::remote::Meaning;
use crate::store::remote::answer::Answer;

/// Where requests go, for messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub account: String,
    pub container: String,
    pub endpoint: String,
}

/// Reads a failed answer. The code is in a header, the text being absent from answers to a HEAD.
pub(super) fn cut(status: u16, text: &str, headers: &HeaderMap) -> Answer {
    let mut answer = Answer { status: Some(status), ..Answer::of_text(text) };
    if let Some(code) = headers.get("x-ms-error-code").and_then(|code| code.to_str().ok()) {
        answer.code = code.to_owned();
    }
    // The detail of a failed authentication holds what was signed; the part of it that says what to do is kept.
    // Source: <https://learn.microsoft.com/en-us/rest/api/storageservices/common-rest-api-error-codes>
    let is_about = |words: &str| text.contains(words);
    if is_about("not valid in the specified time frame") || is_about("Request date header too old") {
        answer.message = OUT_OF_TIME.to_owned();
    } else {
        // Request id and time follow on lines of their own.
        answer.message.truncate(answer.message.find('\n').unwrap_or(answer.message.len()));
    }
    answer
}

/// How the message of a wrong key begins.
const NOT_AUTHENTICATED: &str = "Server failed to authenticate the request";

const OUT_OF_TIME: &str = "the signature is not valid at this time by the clock of the store";

/// Returns what an answer means for the object that was asked for.
pub(super) fn meaning(answer: &Answer, keys: &Keys) -> Meaning {
    match (answer.code.as_str(), answer.status) {
        // With a right to create alone, "it exists" is said as a lack of rights.
        ("BlobAlreadyExists" | "UnauthorizedBlobOverwrite", _) | (_, Some(412)) => Meaning::Exists,
        ("InvalidAuthenticationInfo" | "ExpiredToken", Some(401)) if matches!(keys, Keys::Identity(_)) => Meaning::Expired,
        ("ContainerBeingDeleted" | "ContainerDisabled" | "AccountIsDisabled", _) => Meaning::Refused,
        ("ContainerNotFound" | "FilesystemNotFound" | "AccountNotFound", _) => Meaning::Refused,
        ("Md5Mismatch" | "Crc64Mismatch", _) => Meaning::Unclear,
        (_, Some(404)) => Meaning::Absent,
        (_, Some(501)) => Meaning::NoCondition,
        (_, Some(400 | 401 | 403 | 405 | 411 | 413)) => Meaning::Refused,
        _ => Meaning::Unclear,
    }
}

/// Returns the typed error for an answer to the attempt to do something (`write`, `read`, `list`, `delete`).
pub(super) fn error(answer: &Answer, doing: &str, what: &str, place: &Place, keys: &Keys) -> Error {
    let Place { account, container, endpoint } = place;
    let denied = |message: String, hint: &str| Error::denied(message).hint(hint);
    let always = |message: String, hint: &str| denied(message, hint).for_every_request();
    let error = match (answer.code.as_str(), answer.status) {
        ("ContainerNotFound" | "FilesystemNotFound" | "ContainerBeingDeleted", _) => always(
            format!("there is no container `{container}` in the account `{account}` at `{endpoint}`"),
            "create the container, or correct the `destination` (or `azure_storage_endpoint` of `storage_options`)",
        ),
        ("AccountIsDisabled" | "AccountNotFound" | "InvalidResourceName" | "InvalidUri", _) => denied(
            format!(
                "the store at `{endpoint}` does not take `{account}`, `{container}` and `{what}` for names of account, container and blob"
            ),
            "correct the `destination` or `azure_storage_account_name` of `storage_options`; the cause below is the store's own word",
        ),
        ("KeyBasedAuthenticationNotPermitted", _) => always(
            format!("the account `{account}` allows no keys and no signatures made with them"),
            "use an identity of Entra (client secret, workload, managed identity, `az login`), or let the account allow shared keys",
        ),
        ("AuthenticationFailed", _) if answer.message == OUT_OF_TIME => match keys {
            Keys::Sas(_) => always(
                format!(
                    "the shared access signature has expired or does not hold yet, so `{what}` could not be asked for ({doing})"
                ),
                "set a new `azure_storage_sas_token` in `storage_options`; or set the clock of this machine (NTP), if it is wrong",
            ),
            _ => always(
                "the clock of this machine differs from the store's by more than a request may".to_owned(),
                "set the clock of this machine (NTP), then run the same command again",
            ),
        },
        // The emulator has the words of the service under another code.
        ("AuthorizationFailure", _) if answer.message.starts_with(NOT_AUTHENTICATED) => {
            let (which, hint) = credential(keys);
            always(format!("the store did not accept {which} to {doing} `{what}`"), hint)
        }
        ("AuthenticationFailed" | "InvalidAuthenticationInfo" | "NoAuthenticationInformation", _) => {
            let (which, hint) = credential(keys);
            always(format!("the store did not accept {which} to {doing} `{what}`"), hint)
        }
        ("AuthorizationSourceIPMismatch" | "AuthorizationFailure", _) => denied(
            format!("the account `{account}` does not let this machine {doing} `{what}` in container `{container}`"),
            "let the network rules of the account admit this machine (and check the permissions of the signature, if one is used)",
        ),
        (_, Some(501)) if doing == "write" => denied(
            format!("the store at `{endpoint}` has no put-if-absent: it answers 501 to a PUT with `If-None-Match`"),
            "use a store that has it; or set `single_writer = true` if no other process ever writes these tables",
        ),
        (_, Some(401 | 403)) => denied(
            format!("no permission to {doing} `{what}` in container `{container}` of the account `{account}`"),
            match (doing, keys) {
                ("write", Keys::Sas(_)) => "the signature needs the permissions `c` and `w` on objects of the container",
                ("list", Keys::Sas(_)) => "the signature needs the permission `l` on the container",
                ("delete", Keys::Sas(_)) => "the signature needs the permission `d` on objects of the container",
                (_, Keys::Sas(_)) => "the signature needs the permission `r` on objects of the container",
                _ => "the identity needs the role `Storage Blob Data Contributor` on the container or account",
            },
        ),
        (_, Some(400 | 404 | 405 | 409 | 411 | 413 | 501)) if meaning(answer, keys) != Meaning::Unclear => denied(
            format!("the store at `{endpoint}` refused to {doing} `{what}` in container `{container}`"),
            "correct the `destination` or `storage_options`; the cause below is the store's own word",
        ),
        _ => Error::unavailable(format!("cannot {doing} `{what}` in container `{container}` at `{endpoint}`")),
    };
    match answer.shown() {
        Some(shown) => error.source(shown),
        None => error,
    }
}

fn credential(keys: &Keys) -> (&'static str, &'static str) {
    match keys {
        Keys::Account(_) => (
            "the account key",
            "correct `azure_storage_account_key` (or `azure_storage_account_name`) in `storage_options`, or what the environment says",
        ),
        Keys::Sas(_) => (
            "the shared access signature",
            "set a new `azure_storage_sas_token` in `storage_options`, copied whole, for this account",
        ),
        Keys::Token(_) => (
            "the token",
            "set a new `azure_storage_token`, for `https://storage.azure.com/`, or use an identity, whose tokens are renewed by themselves",
        ),
        Keys::Identity(_) => (
            "the token of the identity",
            "the identity must belong to the tenant of the account (`azure_tenant_id`), and its clouds be the same (`azure_authority_host`)",
        ),
        Keys::Unsigned => (
            "a request without a signature",
            "set credentials in `storage_options` (`azure_skip_signature` is on), or let the container be read by all",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::store::remote::answer::is_final;

    fn place() -> Place {
        Place {
            account: "acct".to_owned(),
            container: "lake".to_owned(),
            endpoint: "https://acct.blob.core.windows.net".to_owned(),
        }
    }

    fn answer(status: u16, code: &str) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-error-code", code.parse().unwrap());
        let text = "<?xml?><Error><Code>X</Code><Message>m\nRequestId:1</Message><AuthenticationErrorDetail>hunter2</AuthenticationErrorDetail></Error>";
        cut(status, text, &headers)
    }

    #[test]
    fn an_answer_keeps_code_and_message_alone() {
        assert_eq!(
            answer(403, "AuthenticationFailed").to_xml(),
            "<Error><Code>AuthenticationFailed</Code><Message>m</Message></Error>"
        );
        let late = cut(
            403,
            "<Code>AuthenticationFailed</Code><AuthenticationErrorDetail>Signature not valid in the specified time frame: Start [x]</AuthenticationErrorDetail>",
            &HeaderMap::new(),
        );
        assert!(late.message == OUT_OF_TIME && late.code == "AuthenticationFailed");
        let sas = error(&late, "read", "t/1", &place(), &Keys::Sas(Vec::new()));
        assert!(sas.to_string().contains("has expired"), "{sas}");
        assert!(error(&late, "read", "t/1", &place(), &Keys::Account(Vec::new())).to_string().contains("clock"));
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let key = Keys::Account(Vec::new());
        for (status, code, words) in [
            (404, "ContainerNotFound", "there is no container `lake` in the account `acct`"),
            (409, "ContainerBeingDeleted", "create the container"),
            (403, "AuthenticationFailed", "did not accept the account key"),
            (403, "KeyBasedAuthenticationNotPermitted", "allows no keys"),
            (403, "AuthorizationPermissionMismatch", "Storage Blob Data Contributor"),
            (403, "AuthorizationFailure", "network rules"),
            (403, "AccountIsDisabled", "does not take `acct`"),
            (401, "NoAuthenticationInformation", "azure_storage_account_key"),
            (400, "InvalidHeaderValue", "refused to write"),
            (413, "RequestBodyTooLarge", "refused to write"),
            (501, "NotImplemented", "single_writer = true"),
        ] {
            let answer = answer(status, code);
            let error = error(&answer, "write", "t/1", &place(), &key);
            assert_eq!(error.kind(), ErrorKind::Denied, "{code}");
            assert!(error.render().contains(words), "{code}: {}", error.render());
            assert!(error.hint_text().is_some() && is_final(&error), "{code}");
            assert!(matches!(meaning(&answer, &key), Meaning::Refused | Meaning::NoCondition), "{code}");
            assert!(!error.render().contains("hunter2"));
        }
        let sas = error(&answer(403, "AuthorizationPermissionMismatch"), "write", "t/1", &place(), &Keys::Sas(Vec::new()));
        assert!(sas.render().contains("permissions `c` and `w`"));
    }

    #[test]
    fn what_may_go_better_is_unavailable() {
        let key = Keys::Account(Vec::new());
        for (status, code) in [
            (500, "InternalError"),
            (500, "OperationTimedOut"),
            (503, "ServerBusy"),
            (429, ""),
            (408, ""),
            (409, "LeaseAlreadyPresent"),
            (400, "Md5Mismatch"),
        ] {
            assert_eq!(meaning(&answer(status, code), &key), Meaning::Unclear, "{status}");
            assert_eq!(error(&answer(status, code), "write", "t/1", &place(), &key).kind(), ErrorKind::Unavailable, "{status}");
        }
    }

    #[test]
    fn what_is_there_and_what_is_not_are_told_apart() {
        let key = Keys::Account(Vec::new());
        for (status, code) in [(409, "BlobAlreadyExists"), (412, "ConditionNotMet"), (403, "UnauthorizedBlobOverwrite")] {
            assert_eq!(meaning(&answer(status, code), &key), Meaning::Exists, "{code}");
        }
        for (status, code) in [(404, "BlobNotFound"), (404, "PathNotFound"), (404, "ResourceNotFound")] {
            assert_eq!(meaning(&answer(status, code), &key), Meaning::Absent, "{code}");
        }
        let identity = Keys::Identity(super::super::options::Identity::Cli { tenant: None });
        assert_eq!(meaning(&answer(401, "InvalidAuthenticationInfo"), &identity), Meaning::Expired);
        assert_eq!(meaning(&answer(401, "InvalidAuthenticationInfo"), &key), Meaning::Refused);
    }
}
