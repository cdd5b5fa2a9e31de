//! The client of data, without the two operations that it gets wrong.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::gcp::GoogleCloudStorage;
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::store::remote::http::Connector;

/// Google's object store without copies: in object_store 0.13 a copy that may overwrite refuses to, and one that may not does
/// (<https://github.com/apache/arrow-rs-object-store/issues/712>).
#[derive(Debug, Clone)]
pub(super) struct Objects(pub(super) Arc<GoogleCloudStorage>);

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn refused(from: &Path) -> Error {
    Error::NotSupported { source: format!("objects of Google Cloud Storage (`{from}`) are neither copied nor renamed").into() }
}

#[async_trait]
impl ObjectStore for Objects {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(at, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(refused(from))
    }

    async fn rename_opts(&self, from: &Path, _to: &Path, _options: RenameOptions) -> Result<()> {
        Err(refused(from))
    }
}

/// Makes clients whose unsigned requests carry no header of a signature: the client of data sends an empty one with every PUT.
#[derive(Debug, Clone)]
pub(super) struct Unsigned(pub(super) Connector);

impl HttpConnector for Unsigned {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(WithoutSignature(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct WithoutSignature(HttpClient);

#[async_trait]
impl HttpService for WithoutSignature {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        request.headers_mut().remove(http::header::AUTHORIZATION);
        self.0.execute(request).await
    }
}
