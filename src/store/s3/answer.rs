//! What an answer of S3 means, for the object that was asked for and for the user.

use crate::Error;
use crate::store::remote::Meaning;
use crate::store::remote::answer::Answer;

/// Where requests go, for messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub bucket: String,
    pub region: String,
    pub endpoint: Option<String>,
}

/// Reads an answer's status, its text (XML, or JSON of a token service) and the region of its header.
pub(super) fn read(status: u16, text: &str, region: Option<&str>) -> Answer {
    let mut answer = Answer { status: Some(status), ..Answer::of_text(text) };
    if let Some(region) = region {
        answer.region = region.to_owned();
    }
    if answer.code.is_empty() && (status == 301 || status == 308) {
        answer.code = "PermanentRedirect".to_owned();
    }
    answer
}

/// Returns what an answer means for the object that was asked for.
pub(super) fn meaning(answer: &Answer) -> Meaning {
    match answer.status {
        _ if is_expired(answer) => Meaning::Expired,
        Some(412) => Meaning::Exists,
        Some(404) if answer.code != "NoSuchBucket" => Meaning::Absent,
        Some(501) => Meaning::NoCondition,
        _ if is_refusal(answer) => Meaning::Refused,
        _ => Meaning::Unclear,
    }
}

/// Whether the store said no for good: another try cannot go better before somebody acts. A request that did not arrive whole is
/// also a 400, and may be sent again.
fn is_refusal(answer: &Answer) -> bool {
    match answer.status {
        Some(400) => {
            !matches!(answer.code.as_str(), "RequestTimeout" | "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch")
        }
        Some(301 | 308 | 401 | 403 | 404 | 501) => true,
        _ => false,
    }
}

/// Whether fresh credentials may help. The answer to a HEAD has no text: an expired token is a bare 400 there.
fn is_expired(answer: &Answer) -> bool {
    let is_said = matches!(answer.code.as_str(), "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired");
    is_said || (answer.status == Some(400) && answer.code.is_empty())
}

/// Returns the typed error for an answer to the attempt to do something (`write`, `read`, `list`, `delete`).
pub(super) fn error(answer: &Answer, doing: &str, what: &str, place: &Place) -> Error {
    let Place { bucket, region, endpoint } = place;
    let at = endpoint.as_ref().map(|endpoint| format!(" at `{endpoint}`")).unwrap_or_default();
    let denied = |message: String, hint: &str| Error::denied(message).hint(hint);
    let always = |message: String, hint: &str| denied(message, hint).for_every_request();
    let error = match (answer.code.as_str(), answer.status) {
        ("NoSuchBucket", _) => always(
            format!("there is no bucket `{bucket}`{at}"),
            "create the bucket, or correct the `destination` (or `aws_endpoint_url` of `storage_options`)",
        ),
        (
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "TemporaryRedirect",
            _,
        ) => {
            let there = if answer.region.is_empty() { "another one".to_owned() } else { format!("`{}`", answer.region) };
            always(
                format!("bucket `{bucket}` is not in the region `{region}` but in {there}"),
                "set `aws_region` in `storage_options` (or AWS_REGION) to the region of the bucket",
            )
        }
        ("InvalidAccessKeyId" | "InvalidClientTokenId", _) => always(
            format!("the store does not know the access key id that it was given to {doing} `{what}`"),
            "correct `aws_access_key_id` in `storage_options`, or what the AWS environment variables and profile say",
        ),
        ("SignatureDoesNotMatch", _) => always(
            format!("the store did not accept the signature of a request to {doing} `{what}`: the secret access key is wrong"),
            "correct `aws_secret_access_key` in `storage_options`, or what the AWS environment variables and profile say",
        ),
        (code, _) if is_expired(answer) || code == "InvalidToken" => always(
            format!("the session token has expired or is not valid, so `{what}` could not be asked for ({doing})"),
            "renew the credentials (`aws sso login`, a new session token), or use a source that is refreshed by itself: a role or a profile",
        ),
        ("RequestTimeTooSkewed", _) => always(
            "the clock of this machine differs from the store's by more than a request may".to_owned(),
            "set the clock of this machine (NTP), then run the same command again",
        ),
        ("NotImplemented", _) | (_, Some(501)) if doing == "write" => denied(
            format!("the store{at} has no put-if-absent: it answers 501 to a PUT with `If-None-Match`"),
            "use a store that has it; or set `single_writer = true` if no other process ever writes these tables",
        ),
        (_, Some(401 | 403)) => denied(
            format!("no permission to {doing} `{what}` in bucket `{bucket}`"),
            match doing {
                "write" => "the credentials need s3:PutObject (and kms:GenerateDataKey where the bucket is encrypted with a key)",
                "read" => {
                    "the credentials need s3:GetObject, and s3:ListBucket so that a missing object is told from a hidden one"
                }
                "list" => "the credentials need s3:ListBucket",
                _ => "the credentials need s3:DeleteObject",
            },
        ),
        (_, Some(400 | 404 | 501)) if is_refusal(answer) => denied(
            format!("the store{at} refused to {doing} `{what}` in bucket `{bucket}`"),
            "correct the `destination` or `storage_options`; the cause below is the store's own word",
        ),
        _ => Error::unavailable(format!("cannot {doing} `{what}` in bucket `{bucket}`{at}")),
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

    fn place() -> Place {
        Place { bucket: "lake".to_owned(), region: "eu-west-1".to_owned(), endpoint: None }
    }

    fn answer(status: u16, code: &str) -> Answer {
        read(status, &format!("<?xml?><Error><Code>{code}</Code><Message>m</Message><Token-0>hunter2</Token-0></Error>"), None)
    }

    #[test]
    fn an_answer_keeps_code_message_and_region_alone() {
        let text = answer(400, "ExpiredToken").to_xml();
        assert_eq!(text, "<Error><Code>ExpiredToken</Code><Message>m</Message></Error>");
        let moved = read(301, "", Some("us-west-2"));
        assert_eq!(moved.to_xml(), "<Error><Code>PermanentRedirect</Code><Region>us-west-2</Region></Error>");
        assert_eq!(read(500, "", None).to_xml(), "");
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        for (status, code, words) in [
            (404, "NoSuchBucket", "there is no bucket `lake`"),
            (301, "PermanentRedirect", "not in the region `eu-west-1`"),
            (400, "AuthorizationHeaderMalformed", "set `aws_region`"),
            (403, "InvalidAccessKeyId", "correct `aws_access_key_id`"),
            (403, "SignatureDoesNotMatch", "the secret access key is wrong"),
            (400, "ExpiredToken", "renew the credentials"),
            (403, "RequestTimeTooSkewed", "the clock of this machine"),
            (501, "NotImplemented", "no put-if-absent"),
            (501, "", "single_writer = true"),
            (403, "AccessDenied", "s3:PutObject"),
            (401, "", "no permission to write `t/1`"),
            (400, "InvalidArgument", "refused to write"),
        ] {
            let answer = answer(status, code);
            let error = error(&answer, "write", "t/1", &place());
            assert_eq!(error.kind(), ErrorKind::Denied, "{code}");
            assert!(error.render().contains(words), "{code}: {}", error.render());
            assert!(error.hint_text().is_some() && is_refusal(&answer) && is_final(&error), "{code}");
            assert!(!error.render().contains("hunter2"));
        }
    }

    #[test]
    fn what_may_go_better_is_unavailable() {
        for (status, code) in
            [(500, "InternalError"), (503, "SlowDown"), (429, ""), (408, ""), (409, "OperationAborted"), (412, "")]
        {
            assert!(!is_refusal(&answer(status, code)), "{status}");
            assert_eq!(error(&answer(status, code), "write", "t/1", &place()).kind(), ErrorKind::Unavailable, "{status}");
        }
        assert!(!is_refusal(&answer(400, "RequestTimeout")));
    }

    #[test]
    fn the_region_of_a_bucket_is_named() {
        let error = super::error(&read(301, "", Some("us-west-2")), "list", "", &place());
        assert!(error.to_string().contains("not in the region `eu-west-1` but in `us-west-2`"), "{error}");
    }
}
