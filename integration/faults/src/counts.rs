//! How many requests came, by what they ask for and where, how long they took, and how many faults of each kind were made.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::Uri;
use serde_json::{Value, json};

use crate::fault::{Kind, Operation, decoded};

#[derive(Default)]
pub struct Counts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    requests: BTreeMap<String, u64>,
    /// By the same names; of those that were answered.
    seconds: BTreeMap<String, f64>,
    faults: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts one request, as `put log`, `get data` and so on; returns that name.
    pub fn begun(&self, operation: Operation, uri: &Uri, fault: Option<Kind>) -> String {
        let path = decoded(uri, operation);
        let place = if path.contains("_delta_log") { "log" } else { "data" };
        let name = format!("{} {place}", operation.name());
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.requests.entry(name.clone()).or_default() += 1;
        if let Some(fault) = fault {
            *counted.faults.entry(fault.name()).or_default() += 1;
        }
        name
    }

    /// Adds what the request of that name took.
    pub fn answered(&self, name: String, took: Duration) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.seconds.entry(name).or_default() += took.as_secs_f64();
    }

    pub fn to_json(&self) -> Value {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json!({"requests": counted.requests, "seconds": counted.seconds, "faults": counted.faults})
    }
}
