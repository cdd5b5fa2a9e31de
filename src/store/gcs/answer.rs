//! What an answer of Google Cloud Storage means, for the object that was asked for and for the user.

use http::HeaderMap;
use serde_json::Value;

use crate::Error;
use crate::store::remote::Meaning;
use crate::store::remote::answer::Answer;

/// Reads a failed answer: XML of the data client's requests, JSON of the commits' and of gateways.
pub(super) fn cut(status: u16, text: &str, _headers: &HeaderMap) -> Answer {
    let answer = Answer { status: Some(status), ..Answer::of_text(text) };
    match serde_json::from_str::<Value>(text) {
        Ok(json) if answer.code.is_empty() => Answer { code: reason(&json), message: message(&json), ..answer },
        _ => answer,
    }
}

/// The machine's word for what went wrong, `{"error": {"errors": [{"reason": …}]}}`.
fn reason(json: &Value) -> String {
    let reason = json.pointer("/error/errors/0/reason").or_else(|| json.pointer("/error/status")).and_then(Value::as_str);
    reason.unwrap_or_default().to_owned()
}

fn message(json: &Value) -> String {
    json.pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the answer to a conditional put, which names a bucket but no object that must be there.
pub(super) fn of_put(answer: Answer) -> Answer {
    match answer.status {
        Some(404) => Answer { code: "NoSuchBucket".to_owned(), ..answer },
        _ => answer,
    }
}

/// Returns what an answer means for the object that was asked for.
pub(super) fn meaning(answer: &Answer) -> Meaning {
    match answer.status {
        Some(412) => Meaning::Exists,
        Some(401) => Meaning::Expired,
        Some(404) if answer.code != "NoSuchBucket" => Meaning::Absent,
        Some(501) => Meaning::NoCondition,
        _ if is_refusal(answer) => Meaning::Refused,
        _ => Meaning::Unclear,
    }
}

/// Whether the store said no for good: another try cannot go better before somebody acts. A request that did not arrive whole is also
/// a 400, and too many of them may be a 403; both may be sent again.
fn is_refusal(answer: &Answer) -> bool {
    match answer.status {
        Some(400) => {
            let message = answer.message.to_ascii_lowercase();
            let is_damaged = ["crc32c", "md5", "checksum"].iter().any(|word| message.contains(word));
            !is_damaged && !matches!(answer.code.as_str(), "BadDigest" | "IncompleteBody" | "RequestTimeout" | "badDigest")
        }
        Some(403) => !is_too_much(answer),
        Some(301 | 302 | 307 | 308 | 401 | 404 | 405 | 501) => true,
        _ => false,
    }
}

fn is_too_much(answer: &Answer) -> bool {
    let message = answer.message.to_ascii_lowercase();
    matches!(
        answer.code.as_str(),
        "rateLimitExceeded" | "userRateLimitExceeded" | "quotaExceeded" | "SlowDown" | "RESOURCE_EXHAUSTED"
    ) || message.contains("rate limit")
}

/// Where requests go, for messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub bucket: String,
    pub endpoint: String,
    pub is_signed: bool,
}

/// Returns the typed error for an answer to the attempt to do something (`write`, `read`, `list`, `delete`).
pub(super) fn error(answer: &Answer, doing: &str, what: &str, place: &Place) -> Error {
    let Place { bucket, endpoint, is_signed } = place;
    let denied = |message: String, hint: &str| Error::denied(message).hint(hint);
    let always = |message: String, hint: &str| denied(message, hint).for_every_request();
    let error = match (answer.code.as_str(), answer.status) {
        ("NoSuchBucket", _) => always(
            format!("there is no bucket `{bucket}` at `{endpoint}`"),
            "create the bucket, or correct the `destination` (or `google_base_url` of `storage_options`)",
        ),
        (_, Some(501)) if doing == "write" => denied(
            format!("the store at `{endpoint}` has no put-if-absent: it answers 501 to an upload with `ifGenerationMatch=0`"),
            "use a store that has it; or set `single_writer = true` if no other process ever writes these tables",
        ),
        (_, Some(401)) if *is_signed => always(
            format!(
                "the store does not accept the token that it was given to {doing} `{what}`: it has expired or is for another service"
            ),
            "renew the credentials (`gcloud auth application-default login`, a new key file), and set the clock of this machine (NTP)",
        ),
        (_, Some(401 | 403)) if !is_signed => denied(
            format!("nobody in particular may {doing} `{what}` in bucket `{bucket}`, and requests are not signed"),
            "take `google_skip_signature` (or STORAGE_EMULATOR_HOST) away and set `google_service_account` or the like",
        ),
        (_, Some(403)) if !is_too_much(answer) => denied(
            format!("no permission to {doing} `{what}` in bucket `{bucket}`"),
            match doing {
                "write" => "the credentials need storage.objects.create, and storage.objects.delete to replace an object",
                "read" => {
                    "the credentials need storage.objects.get, and storage.objects.list so that a missing object is told from a hidden one"
                }
                "list" => "the credentials need storage.objects.list",
                _ => "the credentials need storage.objects.delete",
            },
        ),
        _ if is_refusal(answer) => denied(
            format!("the store at `{endpoint}` refused to {doing} `{what}` in bucket `{bucket}`"),
            "correct the `destination` or `storage_options`; the cause below is the store's own word",
        ),
        _ => Error::unavailable(format!("cannot {doing} `{what}` in bucket `{bucket}` at `{endpoint}`")),
    };
    match answer.shown() {
        Some(shown) => error.source(shown),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::store::remote::answer::is_final;

    fn place(is_signed: bool) -> Place {
        Place { bucket: "lake".to_owned(), endpoint: "https://storage.googleapis.com".to_owned(), is_signed }
    }

    fn xml(status: u16, code: &str) -> Answer {
        let text = format!("<?xml?><Error><Code>{code}</Code><Message>m</Message><Details>hunter2</Details></Error>");
        cut(status, &text, &HeaderMap::new())
    }

    fn json(status: u16, reason: &str, message: &str) -> Answer {
        let error = serde_json::json!({"code": status, "message": message, "errors": [{"reason": reason, "token": "hunter2"}]});
        cut(status, &serde_json::json!({ "error": error }).to_string(), &HeaderMap::new())
    }

    #[test]
    fn both_apis_are_read() {
        assert_eq!(xml(403, "AccessDenied").shown().unwrap(), "403 AccessDenied m");
        assert_eq!(json(412, "conditionNotMet", "At least one").shown().unwrap(), "412 conditionNotMet At least one");
        assert_eq!(cut(502, "<html>bad gateway</html>", &HeaderMap::new()).shown().unwrap(), "502");
        assert_eq!(cut(502, "[1]", &HeaderMap::new()).shown().unwrap(), "502");
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        for (answer, is_signed, words) in [
            (xml(404, "NoSuchBucket"), true, "there is no bucket `lake`"),
            (of_put(json(404, "notFound", "m")), true, "there is no bucket `lake`"),
            (xml(403, "AccessDenied"), true, "storage.objects.create"),
            (json(403, "forbidden", "m"), true, "no permission to write `t/1`"),
            (json(401, "required", "m"), false, "requests are not signed"),
            (json(401, "authError", "m"), true, "renew the credentials"),
            (xml(501, ""), true, "single_writer = true"),
            (json(400, "invalid", "m"), true, "refused to write"),
            (xml(405, "MethodNotAllowed"), true, "refused to write"),
        ] {
            let error = error(&answer, "write", "t/1", &place(is_signed));
            assert_eq!(error.kind(), ErrorKind::Denied, "{answer:?}");
            assert!(error.render().contains(words), "{}", error.render());
            assert!(error.hint_text().is_some() && is_final(&error) && !error.render().contains("hunter2"), "{}", error.render());
            assert!(!matches!(meaning(&answer), Meaning::Unclear | Meaning::Exists), "{answer:?}");
        }
    }

    #[test]
    fn what_may_go_better_is_unavailable() {
        for answer in [
            xml(500, "InternalError"),
            xml(503, "SlowDown"),
            json(429, "rateLimitExceeded", "m"),
            json(403, "rateLimitExceeded", "m"),
            json(403, "", "Rate Limit Exceeded"),
            json(408, "", ""),
            json(409, "conflict", "m"),
            json(400, "invalid", "Provided CRC32C \"x\" doesn't match calculated CRC32C \"y\"."),
            xml(400, "IncompleteBody"),
        ] {
            assert_eq!(meaning(&answer), Meaning::Unclear, "{answer:?}");
            assert_eq!(error(&answer, "write", "t/1", &place(true)).kind(), ErrorKind::Unavailable, "{answer:?}");
        }
        assert_eq!(meaning(&json(412, "conditionNotMet", "m")), Meaning::Exists);
        assert_eq!(meaning(&xml(404, "NoSuchKey")), Meaning::Absent);
        assert_eq!(meaning(&cut(404, "", &HeaderMap::new())), Meaning::Absent);
    }
}
