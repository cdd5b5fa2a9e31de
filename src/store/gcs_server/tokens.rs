//! The services that give tokens, on an address of their own, and the tokens that they gave.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use rustls::pki_types::alg_id::RSA_PKCS1_SHA256;
use serde_json::{Value, json};

use crate::seam;
use crate::store::test_server::{Fault, Operation, Server, Service};

const EMAIL: &str = "loader@project.iam.gserviceaccount.com";
const REFRESH_TOKEN: &str = "1//refresh-token-of-a-test";
const CLIENT_SECRET: &str = "client-secret-of-a-test";
const SUBJECT: &str = "subject-token-of-a-test";

/// A key made for these tests.
pub(crate) fn private_key() -> &'static str {
    include_str!("key.pem")
}

/// Clones share the services and what they gave.
#[derive(Clone)]
pub(crate) struct Tokens {
    state: Arc<State>,
    server: Arc<Server>,
}

struct State {
    inner: Mutex<Inner>,
}

struct Inner {
    count: u64,
    /// Tokens that are good for objects.
    valid: BTreeSet<String>,
    /// Tokens that are good for getting another.
    intermediate: BTreeSet<String>,
    newest: String,
    /// What tokens say of their life, in seconds.
    lifetime: u64,
    /// How many requests a token is good for, if it is not for ever.
    uses: Option<u64>,
    admits_anybody: bool,
    /// Answers all requests instead.
    failure: Option<(u16, Value)>,
    /// What was asked for, in order.
    asked: Vec<String>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

impl Inner {
    fn give(&mut self, is_for_objects: bool) -> String {
        self.count += 1;
        let token = format!("ya29.token-number-{}-of-a-test", self.count);
        let set = if is_for_objects { &mut self.valid } else { &mut self.intermediate };
        set.insert(token.clone());
        self.newest.clone_from(&token);
        token
    }
}

impl Tokens {
    pub(super) fn start() -> Self {
        let inner = Inner {
            count: 0,
            valid: BTreeSet::new(),
            intermediate: BTreeSet::new(),
            newest: String::new(),
            lifetime: 3600,
            uses: None,
            admits_anybody: false,
            failure: None,
            asked: Vec::new(),
        };
        let state = Arc::new(State { inner: Mutex::new(inner) });
        let server = Arc::new(Server::start(Endpoint(Arc::clone(&state)), |_| Fault::Pass));
        Self { state, server }
    }

    /// The newest token that was given or borne.
    pub(super) fn newest(&self) -> String {
        self.state.lock().newest.clone()
    }

    /// Remembers the token that a request bears.
    pub(super) fn see(&self, headers: &http::HeaderMap) {
        if let Some(token) = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer ")) {
            token.clone_into(&mut self.state.lock().newest);
        }
    }

    /// Whether a request with this header may be answered.
    pub(super) fn admits(&self, header: Option<&str>) -> bool {
        let mut state = self.state.lock();
        let Some(header) = header else { return state.admits_anybody };
        let Some(token) = header.strip_prefix("Bearer ") else { return false };
        if is_signed_by_us(token) {
            return true;
        }
        let is_valid = state.valid.contains(token);
        if let Some(uses) = &mut state.uses {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                state.valid.clear();
                state.uses = Some(3);
            }
        }
        is_valid
    }

    /// From here on requests need no token.
    pub(crate) fn admit_anybody(&self) {
        self.state.lock().admits_anybody = true;
    }

    /// From here on every token is good for three requests.
    pub(crate) fn wear_out(&self) {
        self.state.lock().uses = Some(3);
    }

    /// Tokens that are given from here on say that they live so long.
    pub(crate) fn set_lifetime(&self, seconds: u64) {
        self.state.lock().lifetime = seconds;
    }

    /// Every request for a token is answered so.
    pub(crate) fn fail(&self, status: u16, answer: Value) {
        self.state.lock().failure = Some((status, answer));
    }

    /// Returns what tokens were asked for since the last time.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// Returns host and port.
    pub(crate) fn host(&self) -> String {
        self.server.endpoint().replace("http://", "")
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.endpoint())
    }

    pub(crate) fn service_account(&self) -> Value {
        json!({
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "key-1",
            "private_key": private_key(),
            "client_email": EMAIL,
            "token_uri": self.url("/token"),
        })
    }

    pub(crate) fn authorized_user(&self) -> Value {
        json!({
            "type": "authorized_user",
            "client_id": "client",
            "client_secret": CLIENT_SECRET,
            "refresh_token": REFRESH_TOKEN,
            "token_uri": self.url("/token"),
        })
    }

    pub(crate) fn impersonated(&self) -> Value {
        json!({
            "type": "impersonated_service_account",
            "service_account_impersonation_url": self.impersonation_url(),
            "source_credentials": self.authorized_user(),
        })
    }

    fn impersonation_url(&self) -> String {
        self.url(&format!("/v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken"))
    }

    /// Workload identity federation, with the subject's token in a file or at the token service.
    pub(crate) fn external_account(&self, file: Option<&std::path::Path>, is_impersonated: bool) -> Value {
        let source = match file {
            Some(file) => {
                std::fs::write(file, SUBJECT).unwrap();
                json!({ "file": file })
            }
            None => json!({
                "url": self.url("/subject"),
                "headers": {"x-asks": "delta-load"},
                "format": {"type": "json", "subject_token_field_name": "id_token"},
            }),
        };
        let mut account = json!({
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": self.url("/sts"),
            "credential_source": source,
        });
        if is_impersonated {
            account["service_account_impersonation_url"] = json!(self.impersonation_url());
        }
        account
    }

    /// A login through workforce identity federation.
    pub(crate) fn external_user(&self) -> Value {
        json!({
            "type": "external_account_authorized_user",
            "audience": "//iam.googleapis.com/locations/global/workforcePools/pool/providers/provider",
            "client_id": "client",
            "client_secret": CLIENT_SECRET,
            "refresh_token": REFRESH_TOKEN,
            "token_url": self.url("/oauthtoken"),
        })
    }
}

struct Endpoint(Arc<State>);

#[async_trait]
impl Service for Endpoint {
    fn operation(&self, _request: &Request<Bytes>) -> Operation {
        Operation::Get
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (status, answer) = answer(&mut self.0.lock(), &request).unwrap_or_else(|| {
            (401, json!({"error": "invalid_grant", "error_description": "not for you", "sent": String::from_utf8_lossy(request.body())}))
        });
        Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(Bytes::from(answer.to_string()))
            .unwrap()
    }

    fn failure(&self, status: u16, _code: &str) -> Response<Bytes> {
        Response::builder().status(status).body(Bytes::new()).unwrap()
    }
}

/// Answers a request for a token; `None` when it is not one that we know.
fn answer(state: &mut Inner, request: &Request<Bytes>) -> Option<(u16, Value)> {
    let path = request.uri().path().to_owned();
    state.asked.push(path.clone());
    if let Some(failure) = &state.failure {
        return Some(failure.clone());
    }
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let form =
        || url::form_urlencoded::parse(request.body()).into_owned().collect::<std::collections::BTreeMap<String, String>>();
    let lifetime = state.lifetime;
    let token = |state: &mut Inner, is_for_objects| {
        let token = state.give(is_for_objects);
        Some((200, json!({"access_token": token, "token_type": "Bearer", "expires_in": lifetime})))
    };
    match path.as_str() {
        "/token" => {
            let asked: Value = serde_json::from_slice(request.body()).ok()?;
            let is_known = asked["grant_type"] == "refresh_token"
                && asked["refresh_token"] == REFRESH_TOKEN
                && asked["client_secret"] == CLIENT_SECRET
                && asked["client_id"] == "client";
            if !is_known {
                return None;
            }
            let given = token(state, true)?;
            // Good for impersonating too.
            let newest = state.newest.clone();
            state.intermediate.insert(newest);
            Some(given)
        }
        "/sts" => {
            let form = form();
            let is_known = form.get("grant_type").map(String::as_str) == Some("urn:ietf:params:oauth:grant-type:token-exchange")
                && form.get("subject_token").map(String::as_str) == Some(SUBJECT);
            if !is_known {
                return None;
            }
            // A token to impersonate with is good for nothing else.
            let is_for_objects = !form.get("scope").is_some_and(|scope| scope.ends_with("auth/iam"));
            let (status, mut given) = token(state, is_for_objects)?;
            given["issued_token_type"] = json!("urn:ietf:params:oauth:token-type:access_token");
            Some((status, given))
        }
        "/oauthtoken" => {
            let is_known = form().get("refresh_token").map(String::as_str) == Some(REFRESH_TOKEN);
            if is_known { token(state, true) } else { None }
        }
        "/subject" => (header("x-asks") == Some("delta-load")).then(|| (200, json!({ "id_token": SUBJECT }))),
        "/computeMetadata/v1/instance/service-accounts/default/token" => {
            if header("metadata-flavor") == Some("Google") {
                token(state, true)
            } else {
                None
            }
        }
        path if path.ends_with(":generateAccessToken") => {
            let bearer = header("authorization")?.strip_prefix("Bearer ")?;
            if !state.intermediate.contains(bearer) {
                return None;
            }
            let seconds = i64::try_from(lifetime).unwrap();
            let expires =
                chrono::DateTime::from_timestamp_micros(seam::real().now_us()).unwrap() + chrono::Duration::seconds(seconds);
            let token = state.give(true);
            Some((200, json!({"accessToken": token, "expireTime": expires.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)})))
        }
        _ => None,
    }
}

/// Whether a token is one that our service account has signed for objects, and that holds now.
fn is_signed_by_us(token: &str) -> bool {
    let Some((signed, signature)) = token.rsplit_once('.') else { return false };
    let (Some((_, claims)), Ok(signature)) = (signed.split_once('.'), URL_SAFE_NO_PAD.decode(signature)) else { return false };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let algorithms = provider.signature_verification_algorithms.all.iter();
    let is_genuine = algorithms
        .filter(|algorithm| algorithm.signature_alg_id() == RSA_PKCS1_SHA256)
        .any(|algorithm| algorithm.verify_signature(include_bytes!("public.der"), signed.as_bytes(), &signature).is_ok());
    let claims: Value =
        URL_SAFE_NO_PAD.decode(claims).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let is_in_time = claims["exp"].as_i64().is_some_and(|expiry| expiry > seam::real().now_us() / 1_000_000);
    let is_for_objects = claims["scope"].as_str().is_some_and(|scope| scope.contains("devstorage.read_write"));
    is_genuine && is_in_time && is_for_objects && claims["iss"] == EMAIL
}
