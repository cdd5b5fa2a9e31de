//! What a store answered when it did not do what it was asked. Each cloud's own `answer` says what that means for the user.

use crate::{Error, ErrorKind};

/// A failed answer, cut down to what may be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::store) struct Answer {
    pub status: Option<u16>,
    pub code: String,
    pub message: String,
    /// The region that the bucket is in, when the store (S3) says it.
    pub region: String,
}

impl Answer {
    /// Reads the text of an answer, or what a library's error text says of one.
    pub(in crate::store) fn of_text(text: &str) -> Self {
        let element = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
        };
        let status = text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        let part = |name: &str| element(name).unwrap_or_default();
        Self { status, code: part("Code"), message: part("Message"), region: part("Region") }
    }

    /// Returns the answer of an error of the object store's client; without a status when none came.
    pub(in crate::store) fn of_client(error: &object_store::Error) -> Self {
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
    pub(in crate::store) fn to_xml(&self) -> String {
        let mut text = String::new();
        for (name, value) in [("Code", &self.code), ("Message", &self.message), ("Region", &self.region)] {
            if !value.is_empty() {
                text += &format!("<{name}>{value}</{name}>");
            }
        }
        if text.is_empty() { text } else { format!("<Error>{text}</Error>") }
    }

    /// Returns status, code and message as a cause.
    pub(in crate::store) fn shown(&self) -> Option<String> {
        let status = self.status.map(|status| status.to_string()).unwrap_or_default();
        let parts = [status.as_str(), &self.code, &self.message];
        let shown = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        (!shown.is_empty()).then_some(shown)
    }
}

/// Returns the text of an error with those of its causes.
pub(in crate::store) fn whole_text(error: &(dyn std::error::Error + 'static)) -> String {
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
pub(in crate::store) fn is_final(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict)
}
