//! The blobs: a map under a mutex, so that conditions are atomic.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Method, Request, Response};
use percent_encoding::percent_decode_str;

use super::authorization::{query, refuse};
use super::identity::Tokens;
use super::{ACCOUNT, failure};
use crate::seam;

/// Names of one page of a listing: small, so that paging is tested.
const PAGE: usize = 40;

/// One container.
pub(super) struct Backend {
    container: String,
    ignores_conditions: AtomicBool,
    state: Mutex<State>,
    pub(super) identity: Tokens,
}

#[derive(Default)]
struct State {
    blobs: BTreeMap<String, Stored>,
    /// Blocks that were not put together: by blob and id.
    blocks: BTreeMap<String, BTreeMap<String, Bytes>>,
    count: u64,
}

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    modified: DateTime<Utc>,
    tag: String,
}

impl Stored {
    fn time(&self) -> String {
        self.modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }
}

impl State {
    fn store(&mut self, name: &str, bytes: Bytes) -> Response<Bytes> {
        self.count += 1;
        self.blocks.remove(name);
        let modified = DateTime::from_timestamp_micros(seam::real().now_us()).unwrap();
        let stored = Stored { bytes, modified, tag: format!("\"0x{:X}\"", self.count) };
        let answer = Response::builder().status(201).header("etag", &stored.tag).header("last-modified", stored.time());
        self.blobs.insert(name.to_owned(), stored);
        answer.body(Bytes::new()).unwrap()
    }
}

impl Backend {
    pub(super) fn new(container: &str) -> Self {
        Self {
            container: container.to_owned(),
            ignores_conditions: AtomicBool::new(false),
            state: Mutex::default(),
            identity: Tokens::default(),
        }
    }

    pub(super) fn ignore_conditions(&self) {
        self.ignores_conditions.store(true, Ordering::Relaxed);
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.state.lock().unwrap().blocks.len()
    }

    pub(super) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let Some(path) = request.uri().path().strip_prefix(&format!("/{ACCOUNT}/")) else { return self.identity.answer(request) };
        if let Some((status, code)) = refuse(request, &self.identity) {
            return failure(status, code);
        }
        let (container, name) = path.split_once('/').unwrap_or((path, ""));
        if container != self.container {
            return failure(404, "ContainerNotFound");
        }
        let name = percent_decode_str(name).decode_utf8().unwrap().into_owned();
        let query = query(request);
        let comp = query.get("comp").map_or("", String::as_str);
        let mut state = self.state.lock().unwrap();
        let is_conditional = request.headers().get("if-none-match").is_some_and(|value| value == "*")
            && !self.ignores_conditions.load(Ordering::Relaxed);
        match (request.method(), comp) {
            (&Method::GET, "list") => list(&state, &query),
            (&Method::PUT, "block") => {
                state.blocks.entry(name).or_default().insert(query["blockid"].clone(), request.body().clone());
                Response::builder().status(201).body(Bytes::new()).unwrap()
            }
            (&Method::PUT, "blocklist") => {
                let text = String::from_utf8(request.body().to_vec()).unwrap();
                let ids =
                    text.split('<').filter_map(|piece| piece.strip_prefix("Uncommitted>").or(piece.strip_prefix("Latest>")));
                let known = state.blocks.get(&name).cloned().unwrap_or_default();
                let found: Option<Vec<Bytes>> = ids.map(|id| known.get(id).cloned()).collect();
                match found {
                    Some(parts) => state.store(&name, parts.concat().into()),
                    None => failure(400, "InvalidBlockList"),
                }
            }
            (&Method::PUT, "") if is_conditional && state.blobs.contains_key(&name) => failure(409, "BlobAlreadyExists"),
            (&Method::PUT, "") if request.headers().get("x-ms-blob-type").is_some_and(|kind| kind == "BlockBlob") => {
                state.store(&name, request.body().clone())
            }
            (&Method::GET | &Method::HEAD, "") => match state.blobs.get(&name) {
                Some(stored) => read(request, stored),
                None => failure(404, "BlobNotFound"),
            },
            (&Method::DELETE, "") => match state.blobs.remove(&name) {
                Some(_) => Response::builder().status(202).body(Bytes::new()).unwrap(),
                None => failure(404, "BlobNotFound"),
            },
            _ => failure(400, "UnsupportedHttpVerb"),
        }
    }
}

fn read(request: &Request<Bytes>, stored: &Stored) -> Response<Bytes> {
    let length = stored.bytes.len();
    let answer = Response::builder()
        .header("etag", &stored.tag)
        .header("last-modified", stored.time())
        .header("x-ms-blob-type", "BlockBlob");
    let range = ["x-ms-range", "range"].iter().find_map(|name| request.headers().get(*name));
    let Some(range) = range.map(|range| range.to_str().unwrap().trim_start_matches("bytes=").to_owned()) else {
        let bytes = if request.method() == Method::HEAD { Bytes::new() } else { stored.bytes.clone() };
        return answer.status(200).header("content-length", length).body(bytes).unwrap();
    };
    let (start, end) = range.split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = end.parse::<usize>().map_or(length, |last| (last + 1).min(length));
    if start >= length {
        return failure(416, "InvalidRange");
    }
    answer
        .status(206)
        .header("content-range", format!("bytes {start}-{}/{length}", end - 1))
        .body(stored.bytes.slice(start..end))
        .unwrap()
}

fn list(state: &State, query: &BTreeMap<String, String>) -> Response<Bytes> {
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    let (prefix, delimiter, marker) = (value("prefix"), value("delimiter"), value("marker"));
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (mut blobs, mut folders, mut next) = (String::new(), Vec::new(), String::new());
    let after = state.blobs.range(marker.to_owned()..).filter(|(name, _)| name.starts_with(prefix));
    for (index, (name, stored)) in after.enumerate() {
        if index == PAGE {
            next = name.clone();
            break;
        }
        let rest = &name[prefix.len()..];
        if let Some((folder, _)) = rest.split_once(delimiter).filter(|_| !delimiter.is_empty()) {
            let folder = format!("{prefix}{folder}{delimiter}");
            if folders.last() != Some(&folder) {
                folders.push(folder);
            }
            continue;
        }
        blobs += &format!(
            "<Blob><Name>{}</Name><Properties><Last-Modified>{}</Last-Modified><Etag>{}</Etag><Content-Length>{}</Content-Length>\
             <Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType></Properties></Blob>",
            escape(name),
            stored.time(),
            stored.tag,
            stored.bytes.len()
        );
    }
    let folders: String = folders.iter().map(|name| format!("<BlobPrefix><Name>{}</Name></BlobPrefix>", escape(name))).collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Prefix>{}</Prefix><Blobs>{blobs}{folders}</Blobs>\
         <NextMarker>{}</NextMarker></EnumerationResults>",
        escape(prefix),
        escape(&next)
    );
    Response::builder().status(200).header("content-type", "application/xml").body(Bytes::from(text)).unwrap()
}
