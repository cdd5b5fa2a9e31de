//! Secrets that must not be shown, and texts without them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// Knows the secrets in use. Clones share them.
#[derive(Clone, Default)]
pub(in crate::store) struct Redactor(Arc<RwLock<Vec<String>>>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Adds a secret, in the forms in which it may come back.
    pub(in crate::store) fn add(&self, secret: &str) {
        // A secret of a few characters would blot out half of every text.
        if secret.len() < 4 {
            return;
        }
        let encoded = percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string();
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for form in [secret.to_owned(), encoded] {
            if !secrets.contains(&form) {
                secrets.push(form);
            }
        }
    }

    /// Returns `text` without the secrets, and without what stands before `@` in a URL or signs it.
    pub(in crate::store) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        without_signatures(&without_user_info(&text))
    }
}

/// Signatures are made for each request, so that they are known by their names alone: `sig` on Azure, `X-Amz-Signature`,
/// `X-Goog-Signature`.
fn without_signatures(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = ["sig=", "ignature="].iter().filter_map(|name| Some(rest.find(name)? + name.len())).min() {
        let (before, after) = rest.split_at(end);
        clean.push_str(before);
        clean.push_str(HIDDEN);
        let is_end = |c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | ')' | '`' | ',' | ';');
        rest = &after[after.find(is_end).unwrap_or(after.len())..];
    }
    clean.push_str(rest);
    clean
}

fn without_user_info(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end =
            after.find(|c: char| c == '/' || c.is_whitespace() || matches!(c, '"' | ')' | '\'' | '`')).unwrap_or(after.len());
        let (host, behind) = after.split_at(end);
        match host.rsplit_once('@') {
            Some((_, host)) => {
                clean.push_str(HIDDEN);
                clean.push('@');
                clean.push_str(host);
            }
            None => clean.push_str(host),
        }
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let redactor = Redactor::default();
        redactor.add("se/cr+et");
        redactor.add("ab");
        assert_eq!(redactor.clean("a se/cr+et, se%2Fcr%2Bet about"), "a ***, *** about");
        assert_eq!(
            redactor.clean("proxy http://me:pass@proxy:80/x and s3://b/k@1"),
            "proxy http://***@proxy:80/x and s3://b/k@1"
        );
        assert_eq!(
            redactor.clean("url (https://a/b?sv=1&sig=hun%2Fter2&se=3): refused, X-Amz-Signature=abc"),
            "url (https://a/b?sv=1&sig=***&se=3): refused, X-Amz-Signature=***"
        );
        assert_eq!(format!("{redactor:?}"), "Redactor");
    }
}
