//! The objects: a map under a mutex, so that conditions are atomic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::seam;

/// Keys of one page of a listing: small, so that paging is tested.
const PAGE: usize = 40;

/// One bucket. Clones share it.
#[derive(Clone)]
pub(crate) struct Backend(Arc<Inner>);

struct Inner {
    bucket: String,
    ignores_conditions: AtomicBool,
    looks_before_put: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    uploads: BTreeMap<String, (String, BTreeMap<i32, Bytes>)>,
    count: u64,
}

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    modified: SystemTime,
    tag: String,
}

impl Backend {
    pub(super) fn new(bucket: &str) -> Self {
        Self(Arc::new(Inner {
            bucket: bucket.to_owned(),
            ignores_conditions: AtomicBool::new(false),
            looks_before_put: AtomicBool::new(false),
            state: Mutex::default(),
        }))
    }

    pub(super) fn ignore_conditions(&self) {
        self.0.ignores_conditions.store(true, Ordering::Relaxed);
    }

    pub(super) fn look_before_put(&self) {
        self.0.looks_before_put.store(true, Ordering::Relaxed);
    }

    /// Replaces an object.
    pub(crate) fn replace(&self, key: &str, bytes: Bytes) {
        self.0.state.lock().unwrap().store(key.to_owned(), bytes);
    }

    /// Returns all objects.
    pub(crate) fn objects(&self) -> BTreeMap<String, Bytes> {
        let state = self.0.state.lock().unwrap();
        state.objects.iter().map(|(key, stored)| (key.clone(), stored.bytes.clone())).collect()
    }

    pub(super) fn open_uploads(&self) -> usize {
        self.0.state.lock().unwrap().uploads.len()
    }

    fn state(&self, bucket: &str) -> S3Result<MutexGuard<'_, State>> {
        if bucket != self.0.bucket {
            return Err(s3_error!(NoSuchBucket));
        }
        Ok(self.0.state.lock().unwrap())
    }
}

impl State {
    fn store(&mut self, key: String, bytes: Bytes) -> ETag {
        self.count += 1;
        let tag = format!("{:032x}", self.count);
        // A header holds whole seconds, and a listing says the same.
        let seconds = u64::try_from(seam::real().now_us() / 1_000_000).unwrap();
        self.objects.insert(key, Stored { bytes, modified: UNIX_EPOCH + Duration::from_secs(seconds), tag: tag.clone() });
        ETag::Strong(tag)
    }

    fn find(&self, key: &str) -> S3Result<&Stored> {
        self.objects.get(key).ok_or_else(|| s3_error!(NoSuchKey))
    }
}

async fn read(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(body) = body else { return Ok(Bytes::new()) };
    let parts: Vec<Bytes> = body.try_collect().await.map_err(|_| s3_error!(IncompleteBody))?;
    Ok(parts.concat().into())
}

/// The order of some servers: per directory, not of bytes.
fn order(key: &str) -> Vec<&str> {
    key.split('/').collect()
}

#[async_trait::async_trait]
impl S3 for Backend {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let bytes = read(input.body).await?;
        let is_conditional =
            matches!(input.if_none_match, Some(ETagCondition::Any)) && !self.0.ignores_conditions.load(Ordering::Relaxed);
        let is_racy = is_conditional && self.0.looks_before_put.load(Ordering::Relaxed);
        if is_racy {
            if self.state(&input.bucket)?.objects.contains_key(&input.key) {
                return Err(s3_error!(PreconditionFailed));
            }
            seam::real().sleep(Duration::from_millis(50)).await;
        }
        let mut state = self.state(&input.bucket)?;
        if is_conditional && !is_racy && state.objects.contains_key(&input.key) {
            return Err(s3_error!(PreconditionFailed));
        }
        let tag = state.store(input.key, bytes);
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(tag), ..Default::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let state = self.state(&input.bucket)?;
        let found = state.find(&input.key)?.clone();
        let whole = found.bytes.len() as u64;
        let range = match input.range {
            Some(range) => range.check(whole)?,
            None => 0..whole,
        };
        let part = found.bytes.slice(range.start as usize..range.end as usize);
        let content_range = input.range.map(|_| format!("bytes {}-{}/{whole}", range.start, range.end.saturating_sub(1)));
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(part.len() as i64),
            content_range,
            body: Some(s3s::Body::from(part).into()),
            e_tag: Some(ETag::Strong(found.tag)),
            last_modified: Some(found.modified.into()),
            ..Default::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let state = self.state(&input.bucket)?;
        let found = state.find(&input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(found.bytes.len() as i64),
            e_tag: Some(ETag::Strong(found.tag.clone())),
            last_modified: Some(found.modified.into()),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let state = self.state(&input.bucket)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let after = input.continuation_token.clone().or(input.start_after.clone());
        let mut keys: Vec<&String> = state.objects.keys().filter(|key| key.starts_with(&prefix)).collect();
        keys.sort_by_key(|key| order(key));
        if let Some(after) = &after {
            keys.retain(|key| order(key) > order(after));
        }
        let (mut contents, mut folders) = (Vec::new(), Vec::new());
        let mut last = None;
        let mut is_truncated = false;
        for key in keys {
            if contents.len() == PAGE {
                is_truncated = true;
                break;
            }
            last = Some(key.clone());
            let rest = &key[prefix.len()..];
            if let Some((folder, _)) = input.delimiter.as_deref().and_then(|delimiter| rest.split_once(delimiter)) {
                let folder = format!("{prefix}{folder}/");
                if folders.last() != Some(&folder) {
                    folders.push(folder);
                }
                continue;
            }
            let found = &state.objects[key];
            contents.push(Object {
                key: Some(key.clone()),
                size: Some(found.bytes.len() as i64),
                last_modified: Some(found.modified.into()),
                e_tag: Some(ETag::Strong(found.tag.clone())),
                ..Default::default()
            });
        }
        let common = folders.into_iter().map(|prefix| CommonPrefix { prefix: Some(prefix) }).collect();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(prefix),
            key_count: Some(contents.len() as i32),
            contents: Some(contents),
            common_prefixes: Some(common),
            is_truncated: Some(is_truncated),
            next_continuation_token: last.filter(|_| is_truncated),
            ..Default::default()
        }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.state(&request.input.bucket)?.objects.remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let mut state = self.state(&request.input.bucket)?;
        let mut deleted = Vec::new();
        for object in request.input.delete.objects {
            state.objects.remove(&object.key);
            deleted.push(DeletedObject { key: Some(object.key), ..Default::default() });
        }
        Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), ..Default::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        let mut state = self.state(&input.bucket)?;
        state.count += 1;
        let id = format!("upload-{}", state.count);
        state.uploads.insert(id.clone(), (input.key.clone(), BTreeMap::new()));
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..Default::default()
        }))
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        let bytes = read(input.body).await?;
        let mut state = self.state(&input.bucket)?;
        let (_, parts) = state.uploads.get_mut(&input.upload_id).ok_or_else(|| s3_error!(NoSuchUpload))?;
        parts.insert(input.part_number, bytes);
        let tag = ETag::Strong(format!("{}-{}", input.upload_id, input.part_number));
        Ok(S3Response::new(UploadPartOutput { e_tag: Some(tag), ..Default::default() }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let mut state = self.state(&input.bucket)?;
        let (key, parts) = state.uploads.get(&input.upload_id).cloned().ok_or_else(|| s3_error!(NoSuchUpload))?;
        let named = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let mut whole = Vec::new();
        for (index, part) in named.iter().enumerate() {
            let bytes = parts.get(&part.part_number.unwrap_or_default()).ok_or_else(|| s3_error!(InvalidPart))?;
            if bytes.len() < 5 << 20 && index + 1 < named.len() {
                return Err(s3_error!(EntityTooSmall));
            }
            whole.extend_from_slice(bytes);
        }
        state.uploads.remove(&input.upload_id);
        let tag = state.store(key.clone(), whole.into());
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(key),
            e_tag: Some(tag),
            ..Default::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let mut state = self.state(&request.input.bucket)?;
        state.uploads.remove(&request.input.upload_id).ok_or_else(|| s3_error!(NoSuchUpload))?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}
