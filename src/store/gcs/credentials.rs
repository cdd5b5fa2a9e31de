//! Tokens for commits and data alike, refreshed by Google's library minutes before they expire, and got anew when the store says that
//! they have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use google_cloud_auth::credentials::{AccessTokenCredentials, CacheableResource, CredentialsProvider, EntityTag};
use google_cloud_auth::errors::CredentialsError;
use http::{Extensions, HeaderMap, HeaderValue};
use object_store::gcp::GcpCredential;
use tokio::sync::Mutex;

use super::keys::Source;
use crate::seam::Seam;
use crate::store::remote::answer::whole_text;
use crate::store::remote::redactor::Redactor;
use crate::store::remote::runtime;
use crate::{Error, Result};

/// How long a token may take: its source has no limit of its own, and the metadata service's address leads nowhere on most machines.
const LIMIT: Duration = Duration::from_secs(20);

/// The source of tokens. Clones share what was fetched.
#[derive(Clone)]
pub(super) struct Chain(Arc<Inner>);

struct Inner {
    source: Source,
    state: Mutex<State>,
    redactor: Redactor,
    seam: Seam,
}

#[derive(Default)]
struct State {
    /// What refreshes its tokens by itself.
    credentials: Option<AccessTokenCredentials>,
    /// The newest token.
    token: Arc<str>,
    had_token: bool,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chain")
    }
}

impl Chain {
    pub(super) fn new(source: Source, redactor: Redactor, seam: Seam) -> Self {
        Self(Arc::new(Inner { source, state: Mutex::default(), redactor, seam }))
    }

    /// Returns the option, variable or service that the credentials come from.
    pub(super) fn named_by(&self) -> &'static str {
        self.0.source.named_by()
    }

    /// Returns a token that is good for a while.
    ///
    /// **Errors:** `Denied` when there is none to be had, `Config` when the key is wrong, `Unavailable` when its source did not answer.
    pub(super) async fn get(&self) -> Result<Arc<str>> {
        let Inner { source, state, redactor, seam } = &*self.0;
        let mut state = state.lock().await;
        let credentials = match &state.credentials {
            Some(credentials) => credentials.clone(),
            None => {
                let key = source.load(redactor)?;
                // The task that refreshes tokens must not end with the runtime of whoever asks first.
                let runtime = runtime::handle()?;
                let _entered = runtime.enter();
                let built = key.into_credentials();
                built.map_err(|text| {
                    Error::config(format!("the key of `{}` is not one that Google's library takes", source.named_by()))
                        .source(redactor.clean(&text))
                })?
            }
        };
        state.credentials = Some(credentials.clone());
        let fetched = tokio::select! {
            fetched = credentials.access_token() => Some(fetched),
            () = seam.sleep(LIMIT) => None,
        };
        let error = match fetched {
            Some(Ok(fetched)) => {
                if *state.token != *fetched.token {
                    redactor.add(&fetched.token);
                    state.token = Arc::from(fetched.token);
                }
                state.had_token = true;
                return Ok(Arc::clone(&state.token));
            }
            Some(Err(error)) => {
                // Its task may have ended with the error: the next attempt begins anew.
                state.credentials = None;
                Some(error)
            }
            None => None,
        };
        Err(self.explain(error.as_ref(), state.had_token))
    }

    /// Forgets the token: the store said that it has expired.
    pub(super) async fn forget(&self) {
        self.0.state.lock().await.credentials = None;
    }

    fn explain(&self, error: Option<&CredentialsError>, had_token: bool) -> Error {
        let Inner { source, redactor, .. } = &*self.0;
        let cause = match error {
            Some(error) => redactor.clean(&without_bodies(&whole_text(error))),
            None => format!("no answer came within {} s", LIMIT.as_secs()),
        };
        let is_of_machine = matches!(source, Source::Metadata { .. });
        // On a machine that never gave a token, silence means that it is none of Google's.
        let may_go_better = error.is_none_or(CredentialsError::is_transient) && (had_token || !is_of_machine);
        if may_go_better {
            return Error::unavailable(format!("the source of the Google credentials ({}) did not answer", source.named_by()))
                .source(cause);
        }
        let denied = match source {
            Source::Metadata { .. } => Error::denied("there are no Google credentials that can be used"),
            source => Error::denied(format!("the credentials of `{}` give no token", source.named_by())),
        };
        denied
            .hint(
                "set `google_service_account` (a key file) in `storage_options`, or use what Google's tools use: \
                 GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the service account of the machine; \
                 `google_skip_signature = true` sends requests unsigned",
            )
            .source(cause)
    }
}

/// Returns the text without what a token service answered, save the code and description that it gives for people: the rest may be a
/// token of somebody.
fn without_bodies(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("body=<") {
        let ends = || after.match_indices('>').map(|(end, _)| end);
        // A text may hold the mark of its end: it ends where it is whole, and else as late as possible.
        let is_whole = |end: &usize| serde_json::from_str::<serde_json::Value>(&after[..*end]).is_ok();
        let end = ends().find(is_whole).or_else(|| ends().next_back());
        let (body, behind) = end.map_or((after, ""), |end| (&after[..end], &after[end + 1..]));
        clean.push_str(before);
        clean.push_str(&said_for_people(body));
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

fn said_for_people(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let part = |name: &str| json.get(name).and_then(serde_json::Value::as_str);
    let parts: Vec<&str> = [part("error"), part("error_description")].into_iter().flatten().collect();
    format!("({})", if parts.is_empty() { "its text is not shown".to_owned() } else { parts.join(": ") })
}

/// Tells the library's client of a token that our data client uses too.
impl CredentialsProvider for Chain {
    async fn headers(&self, _extensions: Extensions) -> std::result::Result<CacheableResource<HeaderMap>, CredentialsError> {
        let wrong = |text: String| CredentialsError::from_msg(false, text);
        let token = self.get().await.map_err(|error| wrong(error.to_string()))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| wrong("the token cannot be written into a header".to_owned()))?;
        value.set_sensitive(true);
        let data = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
        Ok(CacheableResource::New { entity_tag: EntityTag::new(), data })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl object_store::CredentialProvider for Chain {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let token = self.get().await.map_err(|error| object_store::Error::Generic { store: "GCS", source: Box::new(error) })?;
        Ok(Arc::new(GcpCredential { bearer: token.to_string() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_service_answers_is_cut_down() {
        let said = r#"{"error": "invalid_grant", "error_description": "a > b", "access_token": "hunter2"}"#;
        let text = format!("failed, body=<{said}>: status 400, body=<{said}> (https://x)");
        let clean = without_bodies(&text);
        assert_eq!(clean, "failed, (invalid_grant: a > b): status 400, (invalid_grant: a > b) (https://x)");
        assert_eq!(without_bodies("no <body> at all"), "no <body> at all");
        assert_eq!(without_bodies("failed, body=<<html>hunter2</html>>"), "failed, (its text is not shown)");
        assert_eq!(without_bodies("failed, body=<hunter2"), "failed, (its text is not shown)");
    }
}
