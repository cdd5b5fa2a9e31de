//! The objects: a map under a mutex, so that conditions are atomic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, Method, Request, Response};
use serde_json::{Value, json};

use crate::seam;

/// Names of one page of a listing: few, so that paging is tested.
const PAGE: usize = 40;

/// One bucket. Clones share it.
#[derive(Clone)]
pub(super) struct Backend(Arc<Inner>);

struct Inner {
    bucket: String,
    ignores_conditions: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    uploads: BTreeMap<String, (String, BTreeMap<usize, Bytes>)>,
    /// Of everything that is counted: generations, uploads.
    count: u64,
}

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    content_type: String,
    modified: DateTime<Utc>,
    generation: u64,
}

impl Stored {
    fn tag(&self) -> String {
        format!("\"{:032x}\"", self.generation)
    }
}

/// Returns the answer of a refusal, in the form of one API or the other.
pub(super) fn refuse(is_json: bool, status: u16, code: &str) -> Response<Bytes> {
    let builder = Response::builder().status(status);
    let (kind, text) = match is_json {
        true => {
            let error =
                json!({"code": status, "message": format!("{code} it is"), "errors": [{"domain": "global", "reason": code}]});
            ("application/json", json!({ "error": error }).to_string())
        }
        false => {
            ("application/xml", format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code} it is</Message></Error>"))
        }
    };
    builder.header("content-type", kind).body(Bytes::from(text)).unwrap()
}

fn xml(name: &str, inner: &str) -> Response<Bytes> {
    let text = format!("<?xml version='1.0' encoding='UTF-8'?><{name}>{inner}</{name}>");
    Response::builder().header("content-type", "application/xml").body(Bytes::from(text)).unwrap()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

fn query(request: &Request<Bytes>) -> BTreeMap<String, String> {
    let query = request.uri().query().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

impl Backend {
    pub(super) fn new(bucket: &str) -> Self {
        Self(Arc::new(Inner { bucket: bucket.to_owned(), ignores_conditions: AtomicBool::new(false), state: Mutex::default() }))
    }

    pub(super) fn ignore_conditions(&self) {
        self.0.ignores_conditions.store(true, Ordering::Relaxed);
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.state().uploads.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(super) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        if let Some(rest) = path.strip_prefix("/upload/storage/v1/b/") {
            return match rest.strip_suffix("/o") {
                Some(bucket) if decoded(bucket) == self.0.bucket => self.upload(request),
                _ => refuse(true, 404, "notFound"),
            };
        }
        let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        if decoded(bucket) != self.0.bucket {
            return refuse(false, 404, "NoSuchBucket");
        }
        let (key, query) = (decoded(key), query(request));
        match *request.method() {
            Method::GET if key.is_empty() => self.list(&query),
            _ if query.contains_key("uploads") || query.contains_key("uploadId") => self.part(request, key, &query),
            Method::GET | Method::HEAD => self.read(request, &key),
            Method::PUT => self.put(request, key),
            Method::DELETE => match self.state().objects.remove(&key) {
                Some(_) => Response::builder().status(204).body(Bytes::new()).unwrap(),
                None => refuse(false, 404, "NoSuchKey"),
            },
            _ => refuse(false, 405, "MethodNotAllowed"),
        }
    }

    /// Stores an object if its condition holds.
    fn store(&self, key: String, bytes: Bytes, content_type: &str, condition: Option<u64>) -> Option<Stored> {
        let mut state = self.state();
        let generation = state.objects.get(&key).map_or(0, |found| found.generation);
        if condition.is_some_and(|wanted| wanted != generation) && !self.0.ignores_conditions.load(Ordering::Relaxed) {
            return None;
        }
        state.count += 1;
        let modified = DateTime::from_timestamp_micros(seam::real().now_us()).unwrap();
        let stored = Stored { bytes, content_type: content_type.to_owned(), modified, generation: state.count };
        state.objects.insert(key, stored.clone());
        Some(stored)
    }

    /// The upload of the JSON API: two parts, the object's metadata and its bytes.
    fn upload(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let query = query(request);
        assert_eq!(query.get("uploadType").map(String::as_str), Some("multipart"), "one request");
        assert!(!request.headers().contains_key("x-goog-gcs-idempotency-token"), "what is sent once needs no token");
        let content_type = request.headers()["content-type"].to_str().unwrap();
        let Some((metadata, bytes)) = parts(content_type, request.body()) else { return refuse(true, 400, "invalid") };
        let metadata: Value = serde_json::from_slice(&metadata).unwrap();
        let name = query.get("name").cloned().or_else(|| Some(metadata["name"].as_str()?.to_owned())).unwrap();
        let content_type = metadata["contentType"].as_str().unwrap_or("application/octet-stream");
        let condition = query.get("ifGenerationMatch").map(|text| text.parse().unwrap());
        match self.store(name.clone(), bytes, content_type, condition) {
            None => refuse(true, 412, "conditionNotMet"),
            Some(stored) => {
                let object = json!({
                    "kind": "storage#object",
                    "name": name,
                    "bucket": self.0.bucket,
                    "generation": stored.generation.to_string(),
                    "metageneration": "1",
                    "size": stored.bytes.len().to_string(),
                    "updated": stored.modified.to_rfc3339(),
                    "etag": stored.tag(),
                });
                Response::builder().header("content-type", "application/json").body(Bytes::from(object.to_string())).unwrap()
            }
        }
    }

    fn put(&self, request: &Request<Bytes>, key: String) -> Response<Bytes> {
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("x-goog-copy-source"), None, "objects are not copied");
        let condition = header("x-goog-if-generation-match").map(|text| text.parse().unwrap());
        match self.store(key, request.body().clone(), header("content-type").unwrap_or_default(), condition) {
            None => refuse(false, 412, "PreconditionFailed"),
            Some(stored) => Response::builder()
                .header("etag", stored.tag())
                .header("x-goog-generation", stored.generation)
                .body(Bytes::new())
                .unwrap(),
        }
    }

    fn read(&self, request: &Request<Bytes>, key: &str) -> Response<Bytes> {
        let Some(found) = self.state().objects.get(key).cloned() else {
            // A HEAD is answered without a text.
            let refusal = refuse(false, 404, "NoSuchKey");
            return if request.method() == Method::HEAD { refusal.map(|_| Bytes::new()) } else { refusal };
        };
        let length = found.bytes.len();
        let builder = Response::builder()
            .header("etag", found.tag())
            .header("x-goog-generation", found.generation)
            .header("content-type", &found.content_type)
            .header("last-modified", found.modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
        if request.method() == Method::HEAD {
            return builder.header("content-length", length).body(Bytes::new()).unwrap();
        }
        match range(request.headers(), length) {
            None => builder.body(found.bytes).unwrap(),
            Some((start, end)) if start < end => {
                let builder = builder.status(206).header("content-range", format!("bytes {start}-{}/{length}", end - 1));
                builder.body(found.bytes.slice(start..end)).unwrap()
            }
            Some(_) => refuse(false, 416, "InvalidRange"),
        }
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Response<Bytes> {
        let state = self.state();
        let part = |name: &str| query.get(name).map_or("", String::as_str);
        let (prefix, delimiter) = (part("prefix"), part("delimiter"));
        let after = std::cmp::max(part("continuation-token"), part("start-after"));
        let mut found = Vec::new();
        let mut folders: Vec<String> = Vec::new();
        let (mut last, mut is_cut) = ("", false);
        for (name, stored) in state.objects.iter().filter(|(name, _)| name.starts_with(prefix) && name.as_str() > after) {
            if found.len() + folders.len() == PAGE {
                is_cut = true;
                break;
            }
            last = name;
            match name[prefix.len()..].split_once(delimiter).filter(|_| !delimiter.is_empty()) {
                Some((folder, _)) => {
                    let folder = format!("{prefix}{folder}{delimiter}");
                    if folders.last() != Some(&folder) {
                        folders.push(folder);
                    }
                }
                None => found.push(format!(
                    "<Contents><Key>{}</Key><Generation>{}</Generation><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                    escaped(name),
                    stored.generation,
                    stored.modified.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
                    escaped(&stored.tag()),
                    stored.bytes.len()
                )),
            }
        }
        let mut inner = format!("<Name>{}</Name><IsTruncated>{is_cut}</IsTruncated>{}", self.0.bucket, found.concat());
        for folder in folders {
            inner += &format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(&folder));
        }
        if is_cut {
            inner += &format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(last));
        }
        xml("ListBucketResult", &inner)
    }

    /// Uploads in parts: begun, a part, completed, aborted.
    fn part(&self, request: &Request<Bytes>, key: String, query: &BTreeMap<String, String>) -> Response<Bytes> {
        let Some(id) = query.get("uploadId") else {
            let mut state = self.state();
            state.count += 1;
            let id = format!("upload-{}", state.count);
            state.uploads.insert(id.clone(), (key.clone(), BTreeMap::new()));
            let inner = format!("<Bucket>{}</Bucket><Key>{}</Key><UploadId>{id}</UploadId>", self.0.bucket, escaped(&key));
            return xml("InitiateMultipartUploadResult", &inner);
        };
        let mut state = self.state();
        let Some((_, parts)) = state.uploads.get_mut(id) else { return refuse(false, 404, "NoSuchUpload") };
        match *request.method() {
            Method::PUT => {
                let number = query["partNumber"].parse().unwrap();
                parts.insert(number, request.body().clone());
                Response::builder().header("etag", format!("\"{id}-{number}\"")).body(Bytes::new()).unwrap()
            }
            Method::DELETE => {
                state.uploads.remove(id);
                Response::builder().status(204).body(Bytes::new()).unwrap()
            }
            _ => {
                let text = String::from_utf8(request.body().to_vec()).unwrap();
                let numbers: Vec<usize> =
                    text.split("<PartNumber>").skip(1).map(|rest| rest.split_once('<').unwrap().0.parse().unwrap()).collect();
                let mut whole = Vec::new();
                for (index, number) in numbers.iter().enumerate() {
                    let Some(bytes) = parts.get(number) else { return refuse(false, 400, "InvalidPart") };
                    if bytes.len() < 5 << 20 && index + 1 < numbers.len() {
                        return refuse(false, 400, "EntityTooSmall");
                    }
                    whole.extend_from_slice(bytes);
                }
                state.uploads.remove(id);
                drop(state);
                let stored = self.store(key.clone(), whole.into(), "application/octet-stream", None).unwrap();
                let inner =
                    format!("<Bucket>{}</Bucket><Key>{}</Key><ETag>{}</ETag>", self.0.bucket, escaped(&key), stored.tag());
                xml("CompleteMultipartUploadResult", &inner)
            }
        }
    }
}

fn range(headers: &HeaderMap, length: usize) -> Option<(usize, usize)> {
    let (start, end) = headers.get("range")?.to_str().unwrap().strip_prefix("bytes=")?.split_once('-')?;
    Some(match (start, end) {
        ("", suffix) => (length.saturating_sub(suffix.parse().unwrap()), length),
        (start, "") => (start.parse().unwrap(), length),
        (start, end) => (start.parse().unwrap(), (end.parse::<usize>().unwrap() + 1).min(length)),
    })
}

/// Returns the bodies of the two parts of a `multipart/related` text.
fn parts(content_type: &str, body: &Bytes) -> Option<(Bytes, Bytes)> {
    let boundary = content_type.split_once("boundary=")?.1.trim_matches('"');
    let mark = format!("--{boundary}");
    let mut marks = memchr::memmem::find_iter(body, mark.as_bytes());
    let (first, second, last) = (marks.next()?, marks.next()?, marks.next()?);
    let body_of = |start: usize, end: usize| {
        let part = body.slice(start..end);
        let head = memchr::memmem::find(&part, b"\r\n\r\n")? + 4;
        // The line break before a mark belongs to the mark.
        Some(part.slice(head..part.len().checked_sub(2)?))
    };
    body[last + mark.len()..].starts_with(b"--").then_some(())?;
    Some((body_of(first, second)?, body_of(second, last)?))
}
