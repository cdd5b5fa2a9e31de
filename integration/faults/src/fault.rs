//! The kinds of faults, and which request gets which: drawn from a seed, so that a run can be repeated.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use hyper::{HeaderMap, Method, Uri};

/// What happens to a request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// It is applied, and the connection is closed without an answer
    ApplyDrop,
    /// It is applied, and answered with 500
    #[value(name = "apply-500")]
    Apply500,
    /// It is applied, and answered with 503
    #[value(name = "apply-503")]
    Apply503,
    /// It is applied, and answered with 429
    #[value(name = "apply-429")]
    Apply429,
    /// It is applied, and its answer comes after `--stall-ms`
    ApplyStall,
    /// It is applied, and answered with 409
    #[value(name = "apply-409")]
    Apply409,
    /// It is not applied, and answered with 409
    #[value(name = "answer-409")]
    Answer409,
    /// It is not applied, and answered with 503
    #[value(name = "answer-503")]
    Answer503,
    /// It is not applied, and the connection is closed without an answer
    Drop,
    /// It is sent twice, and the second answer is passed on
    Twice,
    /// It is answered with 503, and applied after `--late-ms`
    Late,
    /// Lists: the answer comes `--slow-ms` later
    SlowList,
    /// Reads: half of the body comes, then the connection is closed
    HalfBody,
    /// Conditional puts: the condition is taken off, so that an object that exists is replaced
    Overwrite,
}

impl Kind {
    /// The name as it is given and counted.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether the kind can happen to such a request.
    fn fits(self, operation: Operation) -> bool {
        match self {
            Kind::SlowList => operation == Operation::List,
            Kind::HalfBody => operation == Operation::Get,
            Kind::Overwrite | Kind::Twice | Kind::Late | Kind::Apply409 | Kind::Answer409 => operation == Operation::Put,
            _ => true,
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Operation {
    Put,
    Get,
    Head,
    List,
    Post,
    Delete,
}

impl Operation {
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let is_list = query.split('&').any(|part| part.starts_with("list-type") || part.starts_with("prefix="));
        match *method {
            Method::PUT => Self::Put,
            Method::GET if is_list => Self::List,
            Method::GET => Self::Get,
            Method::HEAD => Self::Head,
            Method::DELETE => Self::Delete,
            _ => Self::Post,
        }
    }

    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Which requests have faults, how many of them, and of which kinds.
pub struct Faults {
    pub seed: u64,
    pub percent: u64,
    pub kinds: Vec<Kind>,
    pub operations: Vec<Operation>,
    /// Text that the decoded path, of a list its prefix, must hold.
    pub path: String,
    /// How often each request was seen, so that a repeated one is drawn anew.
    seen: Mutex<HashMap<(Operation, String), u64>>,
}

impl Faults {
    pub fn new(seed: u64, percent: u64, kinds: Vec<Kind>, operations: Vec<Operation>, path: String) -> Self {
        Self { seed, percent, kinds, operations, path, seen: Mutex::default() }
    }

    /// Draws for one request. The draw depends on the seed, the operation, the path and how often they were seen, not on what other
    /// requests come in between: the third put of version 7 has the same fault in every run of a seed.
    pub fn draw(&self, operation: Operation, uri: &Uri, headers: &HeaderMap) -> Option<Kind> {
        let path = decoded(uri, operation);
        if self.percent == 0 || !self.operations.contains(&operation) || !path.contains(&self.path) {
            return None;
        }
        let is_conditional = headers.contains_key(hyper::header::IF_NONE_MATCH);
        let fitting = |kind: &&Kind| kind.fits(operation) && (**kind != Kind::Overwrite || is_conditional);
        let kinds: Vec<&Kind> = self.kinds.iter().filter(fitting).collect();
        if kinds.is_empty() {
            return None;
        }
        let count = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let count = seen.entry((operation, path.clone())).or_default();
            *count += 1;
            *count
        };
        let named = path
            .bytes()
            .chain(operation.name().bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut state = mix(self.seed) ^ mix(named) ^ mix(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = mix(state);
        if state % 100 >= self.percent {
            return None;
        }
        let drawn = mix(state) % kinds.len() as u64;
        kinds.get(drawn as usize).map(|kind| **kind)
    }
}

/// The path without its encoding; of a list the path and the prefix.
pub fn decoded(uri: &Uri, operation: Operation) -> String {
    let text = match (operation, uri.query()) {
        (Operation::List, Some(query)) => {
            let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
            format!("{}/{prefix}", uri.path())
        }
        _ => uri.path().to_owned(),
    };
    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

/// The finaliser of splitmix64.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn faults(percent: u64, kinds: &[Kind], operations: &[Operation]) -> Faults {
        Faults::new(7, percent, kinds.to_vec(), operations.to_vec(), "_delta_log/".to_owned())
    }

    fn draws(faults: &Faults, operation: Operation, uri: &str, count: usize) -> Vec<Option<Kind>> {
        let uri: Uri = uri.parse().unwrap();
        (0..count).map(|_| faults.draw(operation, &uri, &HeaderMap::new())).collect()
    }

    #[test]
    fn a_seed_gives_the_same_faults_whatever_comes_in_between() {
        let kinds = [Kind::ApplyDrop, Kind::Answer503, Kind::Late];
        let (one, other) = (faults(40, &kinds, &[Operation::Put]), faults(40, &kinds, &[Operation::Put]));
        let first = draws(&one, Operation::Put, "/lake/t/_delta_log/7.json", 50);
        let mut second = Vec::new();
        for index in 0..50 {
            draws(&other, Operation::Put, &format!("/lake/t/_delta_log/{}.json", 100 + index), 2);
            second.extend(draws(&other, Operation::Put, "/lake/t/_delta_log/7.json", 1));
        }
        assert_eq!(first, second);
        let hit = first.iter().flatten().count();
        assert!((10..=30).contains(&hit), "{hit} of 50 at 40 %");
        assert!(kinds.iter().all(|kind| first.contains(&Some(*kind))), "{first:?}");
    }

    #[test]
    fn only_requests_that_are_named_have_faults() {
        let faults =
            faults(100, &[Kind::SlowList, Kind::HalfBody, Kind::Overwrite, Kind::Drop], &[Operation::Put, Operation::List]);
        assert_eq!(draws(&faults, Operation::Get, "/lake/t/_delta_log/7.json", 1), [None]);
        assert_eq!(draws(&faults, Operation::Put, "/lake/t/part-1.parquet", 1), [None]);
        assert_eq!(
            draws(&faults, Operation::Put, "/lake/t/_delta_log/7.json", 1),
            [Some(Kind::Drop)],
            "no condition to take off"
        );
        let listed = draws(&faults, Operation::List, "/lake?list-type=2&prefix=t%2F_delta_log%2F", 20);
        assert!(listed.iter().all(|kind| matches!(kind, Some(Kind::SlowList | Kind::Drop))), "{listed:?}");
    }
}
