//! What a store answered when it did not do what it was asked, and what that means for the user.

use crate::{Error, ErrorKind};

/// A failed answer, cut down to what may be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: Option<u16>,
    pub code: String,
    pub message: String,
    /// The region that the bucket is in, when the store says it.
    pub region: String,
}

/// Where requests go, for messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub bucket: String,
    pub region: String,
    pub endpoint: Option<String>,
}

impl Answer {
    /// Reads an answer's status, its text (XML, or JSON of a token service) and the region of its header.
    pub(super) fn read(status: u16, text: &str, region: Option<&str>) -> Self {
        let mut answer = Self { status: Some(status), ..Self::of_text(text) };
        if let Some(region) = region {
            answer.region = region.to_owned();
        }
        if answer.code.is_empty() && (status == 301 || status == 308) {
            answer.code = "PermanentRedirect".to_owned();
        }
        answer
    }

    /// Reads what a library's error text says of an answer.
    fn of_text(text: &str) -> Self {
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
        };
        let status = text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        let part = |name: &str| element(name).unwrap_or_default();
        Self { status, code: part("Code"), message: part("Message"), region: part("Region") }
    }

    /// Returns the answer of an error of the object store's client; without a status when none came.
    pub(super) fn of_client(error: &object_store::Error) -> Self {
        let text = whole_text(error);
        let mut answer = Self::of_text(&text);
        answer.status = match error {
            // Deletions are answered one by one within a 200.
            object_store::Error::Generic { .. } if answer.status.is_none() && text.contains("AccessDenied") => Some(403),
            object_store::Error::NotFound { .. } => Some(404),
            object_store::Error::PermissionDenied { .. } => Some(403),
            object_store::Error::Unauthenticated { .. } => Some(401),
            _ => answer.status,
        };
        answer
    }

    /// Returns the text that takes the place of the store's own.
    pub(super) fn to_xml(&self) -> String {
        let mut text = String::new();
        for (name, value) in [("Code", &self.code), ("Message", &self.message), ("Region", &self.region)] {
            if !value.is_empty() {
                text += &format!("<{name}>{value}</{name}>");
            }
        }
        if text.is_empty() { text } else { format!("<Error>{text}</Error>") }
    }

    /// Whether the store said no for good: another try cannot go better before somebody acts. A request that did not arrive whole is
    /// also a 400, and may be sent again.
    pub(super) fn is_refusal(&self) -> bool {
        match self.status {
            Some(400) => {
                !matches!(self.code.as_str(), "RequestTimeout" | "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch")
            }
            Some(301 | 308 | 401 | 403 | 404 | 501) => true,
            _ => false,
        }
    }

    /// Whether fresh credentials may help.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self.code.as_str(), "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired")
    }

    /// Returns the typed error for an answer to the attempt to do something (`write`, `read`, `list`, `delete`).
    pub(super) fn error(&self, doing: &str, what: &str, place: &Place) -> Error {
        let Place { bucket, region, endpoint } = place;
        let at = endpoint.as_ref().map(|endpoint| format!(" at `{endpoint}`")).unwrap_or_default();
        let denied = |message: String, hint: &str| Error::denied(message).hint(hint);
        let error = match (self.code.as_str(), self.status) {
            ("NoSuchBucket", _) => denied(
                format!("there is no bucket `{bucket}`{at}"),
                "create the bucket, or correct the `destination` (or `aws_endpoint_url` of `storage_options`)",
            ),
            (
                "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "TemporaryRedirect",
                _,
            ) => {
                let there = if self.region.is_empty() { "another one".to_owned() } else { format!("`{}`", self.region) };
                denied(
                    format!("bucket `{bucket}` is not in the region `{region}` but in {there}"),
                    "set `aws_region` in `storage_options` (or AWS_REGION) to the region of the bucket",
                )
            }
            ("InvalidAccessKeyId" | "InvalidClientTokenId", _) => denied(
                format!("the store does not know the access key id that it was given to {doing} `{what}`"),
                "correct `aws_access_key_id` in `storage_options`, or what the AWS environment variables and profile say",
            ),
            ("SignatureDoesNotMatch", _) => denied(
                format!(
                    "the store did not accept the signature of a request to {doing} `{what}`: the secret access key is wrong"
                ),
                "correct `aws_secret_access_key` in `storage_options`, or what the AWS environment variables and profile say",
            ),
            (code, _) if self.is_expired() || code == "InvalidToken" => denied(
                format!("the session token has expired or is not valid, so `{what}` could not be asked for ({doing})"),
                "renew the credentials (`aws sso login`, a new session token), or use a source that is refreshed by itself: a role or a profile",
            ),
            ("RequestTimeTooSkewed", _) => denied(
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
                    "write" => {
                        "the credentials need s3:PutObject (and kms:GenerateDataKey where the bucket is encrypted with a key)"
                    }
                    "read" => {
                        "the credentials need s3:GetObject, and s3:ListBucket so that a missing object is told from a hidden one"
                    }
                    "list" => "the credentials need s3:ListBucket",
                    _ => "the credentials need s3:DeleteObject",
                },
            ),
            (_, Some(400 | 404 | 501)) if self.is_refusal() => denied(
                format!("the store{at} refused to {doing} `{what}` in bucket `{bucket}`"),
                "correct the `destination` or `storage_options`; the cause below is the store's own word",
            ),
            _ => Error::unavailable(format!("cannot {doing} `{what}` in bucket `{bucket}`{at}")),
        };
        match self.shown() {
            Some(shown) => error.source(shown),
            None => error,
        }
    }

    fn shown(&self) -> Option<String> {
        let status = self.status.map(|status| status.to_string()).unwrap_or_default();
        let parts = [status.as_str(), &self.code, &self.message];
        let shown = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        (!shown.is_empty()).then_some(shown)
    }
}

/// Returns the text of an error with those of its causes.
pub(super) fn whole_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Whether an error says that a person has to act.
pub(super) fn is_final(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { bucket: "lake".to_owned(), region: "eu-west-1".to_owned(), endpoint: None }
    }

    fn answer(status: u16, code: &str) -> Answer {
        Answer::read(
            status,
            &format!("<?xml?><Error><Code>{code}</Code><Message>m</Message><Token-0>hunter2</Token-0></Error>"),
            None,
        )
    }

    #[test]
    fn an_answer_keeps_code_message_and_region_alone() {
        let text = answer(400, "ExpiredToken").to_xml();
        assert_eq!(text, "<Error><Code>ExpiredToken</Code><Message>m</Message></Error>");
        let moved = Answer::read(301, "", Some("us-west-2"));
        assert_eq!(moved.to_xml(), "<Error><Code>PermanentRedirect</Code><Region>us-west-2</Region></Error>");
        assert_eq!(Answer::read(500, "", None).to_xml(), "");
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
            let error = answer.error("write", "t/1", &place());
            assert_eq!(error.kind(), ErrorKind::Denied, "{code}");
            assert!(error.render().contains(words), "{code}: {}", error.render());
            assert!(error.hint_text().is_some() && answer.is_refusal() && is_final(&error), "{code}");
            assert!(!error.render().contains("hunter2"));
        }
    }

    #[test]
    fn what_may_go_better_is_unavailable() {
        for (status, code) in
            [(500, "InternalError"), (503, "SlowDown"), (429, ""), (408, ""), (409, "OperationAborted"), (412, "")]
        {
            assert!(!answer(status, code).is_refusal(), "{status}");
            assert_eq!(answer(status, code).error("write", "t/1", &place()).kind(), ErrorKind::Unavailable, "{status}");
        }
        assert!(!answer(400, "RequestTimeout").is_refusal());
    }

    #[test]
    fn the_region_of_a_bucket_is_named() {
        let error = Answer::read(301, "", Some("us-west-2")).error("list", "", &place());
        assert!(error.to_string().contains("not in the region `eu-west-1` but in `us-west-2`"), "{error}");
    }
}
