//! Sources of tokens: Entra for applications with a secret or a federated token, the metadata service for machines.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};

use crate::seam;

pub(crate) const TENANT: &str = "00000000-1111-2222-3333-444444444444";
pub(crate) const CLIENT: &str = "55555555-6666-7777-8888-999999999999";
pub(crate) const CLIENT_SECRET: &str = "client~secret/of+the=test";
/// What the file of a workload's token holds.
pub(crate) const FEDERATED: &str = "ey.federated.token";

/// What a token was given out for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Issued {
    Secret,
    Federated,
    /// The client id that was asked for.
    Machine(Option<String>),
}

#[derive(Default)]
pub(super) struct Tokens {
    /// Tokens with the second in which they expire.
    good: Mutex<BTreeMap<String, u64>>,
    issued: Mutex<Vec<Issued>>,
    /// 0: an hour.
    life: AtomicU64,
}

fn now() -> u64 {
    u64::try_from(seam::real().now_us() / 1_000_000).unwrap()
}

impl Tokens {
    pub(super) fn let_tokens_live(&self, seconds: u64) {
        self.life.store(seconds, Ordering::Relaxed);
    }

    pub(super) fn revoke(&self) {
        self.good.lock().unwrap().clear();
    }

    pub(super) fn issued(&self) -> Vec<Issued> {
        self.issued.lock().unwrap().clone()
    }

    pub(super) fn is_good(&self, token: &str) -> bool {
        self.good.lock().unwrap().get(token).is_some_and(|expiry| *expiry >= now())
    }

    fn issue(&self, what: Issued) -> (String, u64) {
        let life = match self.life.load(Ordering::Relaxed) {
            0 => 3600,
            life => life,
        };
        let mut issued = self.issued.lock().unwrap();
        issued.push(what);
        let token = format!("token/secret+{}", issued.len());
        self.good.lock().unwrap().insert(token.clone(), now() + life);
        (token, life)
    }

    /// Answers a request for a token.
    pub(super) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let json = |status: u16, value: serde_json::Value| {
            Response::builder()
                .status(status)
                .header("content-type", "application/json")
                .body(Bytes::from(value.to_string()))
                .unwrap()
        };
        if request.uri().path() == format!("/{TENANT}/oauth2/v2.0/token") {
            let form: BTreeMap<String, String> = url::form_urlencoded::parse(request.body()).into_owned().collect();
            let value = |name: &str| form.get(name).map_or("", String::as_str);
            let is_known = value("client_id") == CLIENT
                && value("grant_type") == "client_credentials"
                && value("scope") == "https://storage.azure.com/.default";
            let what = match (value("client_secret"), value("client_assertion")) {
                (CLIENT_SECRET, "") => Some(Issued::Secret),
                ("", FEDERATED) => Some(Issued::Federated),
                _ => None,
            };
            let Some(what) = what.filter(|_| is_known) else {
                let said = format!("AADSTS7000215: Invalid client secret provided: {}", value("client_secret"));
                return json(
                    401,
                    serde_json::json!({"error": "invalid_client", "error_description": said, "error_codes": [7_000_215]}),
                );
            };
            let (token, life) = self.issue(what);
            return json(200, serde_json::json!({"token_type": "Bearer", "expires_in": life, "access_token": token}));
        }
        let query = super::authorization::query(request);
        let is_metadata = request.uri().path() == "/metadata/identity/oauth2/token"
            && request.headers().get("metadata").is_some_and(|value| value == "true")
            && query.get("resource").is_some_and(|resource| resource == "https://storage.azure.com");
        if is_metadata {
            let (token, life) = self.issue(Issued::Machine(query.get("client_id").cloned()));
            let expires_on = (now() + life).to_string();
            return json(
                200,
                serde_json::json!({"access_token": token, "expires_on": expires_on, "resource": "https://storage.azure.com", "token_type": "Bearer"}),
            );
        }
        json(400, serde_json::json!({"error": "invalid_request"}))
    }
}
