//! Stores to test, and writers that compete.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

use crate::seam::Seam;
use crate::store::azure_server::AzureServer;
use crate::store::faulty::{Call, Fault, Faulty, Method};
use crate::store::gcs_server::GcsServer;
use crate::store::s3_server::{S3Server, seeded_reads};
use crate::store::simulated::{self, Simulated};
use crate::store::{
    Description, Entry, Greeting, Local, Memory, Numbered, Options, Publication, Published, PutAnswer, PutTry, Remote, Source,
    Step, Store, Upload, normalise_destination, publish, put_if_absent,
};
use crate::{Error, Result};

pub(super) const TIMEOUT: Duration = Duration::from_secs(900);

/// A store in a world without waiting.
pub(super) struct Fixture {
    pub(super) world: Arc<Simulated>,
    pub(super) store: Arc<dyn Store>,
    /// Kept for the life of a test.
    _kept: Kept,
}

/// What a store needs beside it.
// Never read: held so that the folder or server goes when the test ends.
#[allow(dead_code)]
enum Kept {
    Nothing,
    Folder(tempfile::TempDir),
    Server(Box<S3Server>),
    Azure(Box<AzureServer>),
    Gcs(Box<GcsServer>),
}

impl Fixture {
    pub(super) fn memory() -> Self {
        Self { world: Simulated::new(1), store: Arc::new(Memory::new(Url::parse("memory:///").unwrap())), _kept: Kept::Nothing }
    }

    /// A folder whose name holds what is special in URLs.
    pub(super) fn local() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = normalise_destination(folder.path().join("a lake/50% é=#?+").to_str().unwrap()).unwrap();
        let store = Local::open(&url, &Options::default()).unwrap();
        Self { world: Simulated::new(1), store: Arc::new(store), _kept: Kept::Folder(folder) }
    }

    /// A bucket, under a prefix that holds what is special in URLs.
    pub(super) fn s3() -> Self {
        let server = S3Server::start();
        let store = Blocking(server.open("a lake/50% é=+"));
        Self { world: Simulated::new(1), store: Arc::new(store), _kept: Kept::Server(Box::new(server)) }
    }

    /// The same, where a fifth of all requests but conditional puts fail and have to be repeated.
    pub(super) fn s3_with_faults() -> Self {
        let fixture = Self::s3();
        if let Kept::Server(server) = &fixture._kept {
            server.set_rule(seeded_reads(1, 20));
        }
        fixture
    }

    /// A container, under a prefix that holds what is special in URLs.
    pub(super) fn azure() -> Self {
        let server = AzureServer::start();
        let store = Blocking(server.open("a lake/50% é=+"));
        Self { world: Simulated::new(1), store: Arc::new(store), _kept: Kept::Azure(Box::new(server)) }
    }

    /// The same, where a fifth of all requests but conditional puts fail and have to be repeated.
    pub(super) fn azure_with_faults() -> Self {
        let fixture = Self::azure();
        if let Kept::Azure(server) = &fixture._kept {
            server.set_rule(seeded_reads(1, 20));
        }
        fixture
    }

    /// A bucket of Google's, under a prefix that holds what is special in URLs.
    pub(super) fn gcs() -> Self {
        let server = GcsServer::start();
        let store = Blocking(server.open("a lake/50% é=+"));
        Self { world: Simulated::new(1), store: Arc::new(store), _kept: Kept::Gcs(Box::new(server)) }
    }

    /// The same, where a fifth of all requests but conditional puts fail and have to be repeated.
    pub(super) fn gcs_with_faults() -> Self {
        let fixture = Self::gcs();
        if let Kept::Gcs(server) = &fixture._kept {
            server.set_rule(seeded_reads(1, 20));
        }
        fixture
    }

    /// The wrapper, without faults of its own.
    pub(super) fn faulty() -> Self {
        let inner = Self::memory();
        let store = Faulty::new(inner.store, simulated::seam(&inner.world), |_| Fault::Pass);
        Self { world: inner.world, store: Arc::new(store), _kept: Kept::Nothing }
    }

    pub(super) fn seam(&self) -> Seam {
        simulated::seam(&self.world)
    }

    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.world.run_one(work)
    }

    /// Returns the store with faults for its conditional puts.
    pub(super) fn with_puts(&self, faults: &[Fault]) -> Faulty {
        Faulty::scripted(Arc::clone(&self.store), self.seam(), faults.to_vec())
    }

    /// Returns the store with faults by a rule.
    pub(super) fn with_rule(&self, rule: impl FnMut(Call<'_>) -> Fault + Send + 'static) -> Faulty {
        Faulty::new(Arc::clone(&self.store), self.seam(), rule)
    }

    /// Puts with the usual deadline.
    pub(super) fn put_if_absent(&self, store: &dyn Store, path: &str, bytes: &'static str) -> Result<PutAnswer> {
        let seam = self.seam();
        let deadline = seam.elapsed() + TIMEOUT;
        self.run(put_if_absent(store, path, Bytes::from_static(bytes.as_bytes()), deadline, &seam))
    }

    pub(super) fn publish(&self, store: &dyn Store, first: u64, writer: &mut Writer) -> Result<Published> {
        self.run(publish(store, &log(), first, writer, TIMEOUT, &self.seam()))
    }

    pub(super) fn get(&self, path: &str) -> Option<Bytes> {
        self.run(self.store.get(path)).unwrap()
    }

    /// Puts other writers' objects with these numbers into the log.
    pub(super) fn fill(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.run(self.store.put(&log().path(number), Bytes::from(format!("other {number}")))).unwrap();
        }
    }

    /// Returns the log's objects: number and text.
    pub(super) fn log(&self) -> Vec<(u64, String)> {
        let entries = self.run(self.store.list(&log().prefix, None)).unwrap();
        let text = |entry: &Entry| String::from_utf8(self.get(&entry.path).unwrap().to_vec()).unwrap();
        entries.iter().map(|entry| (log().number(&entry.path).unwrap(), text(entry))).collect()
    }
}

/// A store on the network in a world whose time stands still: each call blocks until its answer is there.
#[derive(Debug)]
struct Blocking(Remote);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Unpark(std::thread::Thread);

/// Waits for `work`, which needs nothing of this thread.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut work = std::pin::pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[async_trait]
impl Store for Blocking {
    fn url(&self) -> &Url {
        self.0.url()
    }
    async fn describe(&self) -> Description {
        block_on(self.0.describe())
    }
    async fn greet(&self) -> Result<Greeting> {
        block_on(self.0.greet())
    }
    async fn probe(&self) -> Result<()> {
        block_on(self.0.probe())
    }
    async fn put_once(&self, path: &str, bytes: Bytes) -> PutTry {
        block_on(self.0.put_once(path, bytes))
    }
    async fn make_durable(&self, path: &str) -> Result<()> {
        block_on(self.0.make_durable(path))
    }
    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        block_on(self.0.get(path))
    }
    async fn head(&self, path: &str) -> Result<Option<Entry>> {
        block_on(self.0.head(path))
    }
    async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        block_on(self.0.put(path, bytes))
    }
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Entry>> {
        block_on(self.0.list(prefix, after))
    }
    async fn delete(&self, path: &str) -> Result<()> {
        block_on(self.0.delete(path))
    }
    fn create_file(&self, path: &str) -> Result<Box<dyn Upload>> {
        self.0.create_file(path)
    }
    fn open_file(&self, path: &str) -> Result<Source> {
        self.0.open_file(path)
    }
    fn kernel_access(&self, table: &str) -> Result<(Arc<dyn object_store::ObjectStore>, Url)> {
        self.0.kernel_access(table)
    }
    fn bucket_access(&self) -> Arc<dyn object_store::ObjectStore> {
        self.0.bucket_access()
    }
}

pub(super) fn log() -> Numbered {
    Numbered { prefix: "my table/_delta_log/".to_owned(), suffix: ".json".to_owned() }
}

/// A publication whose bytes are `name`, a space, and the number of the attempt.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) name: String,
    pub(super) attempts: u32,
    /// What it was told that others wrote.
    pub(super) lost: Vec<(u64, String)>,
    pub(super) replaced: Vec<u64>,
    /// The answer to "the log was replaced"; without one that is an error.
    pub(super) after_replaced: Option<u64>,
    /// The size that object N−1 must have.
    pub(super) expected_size: Option<u64>,
}

impl Writer {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

#[async_trait]
impl Publication for Writer {
    async fn bytes(&mut self, _number: u64) -> Result<Bytes> {
        self.attempts += 1;
        Ok(Bytes::from(format!("{} {}", self.name, self.attempts)))
    }

    async fn lost(&mut self, number: u64, winner: Bytes) -> Result<Step> {
        let winner = String::from_utf8(winner.to_vec()).unwrap();
        let is_ours = winner.rsplit_once(' ').is_some_and(|(name, _)| name == self.name);
        self.lost.push((number, winner));
        Ok(if is_ours { Step::AlreadyOurs } else { Step::GoOn })
    }

    async fn replaced(&mut self, number: u64) -> Result<u64> {
        self.replaced.push(number);
        self.after_replaced.ok_or_else(|| Error::table("the table was replaced"))
    }

    fn is_built_on(&self, _number: u64, predecessor: &Entry) -> bool {
        self.expected_size.is_none_or(|size| size == predecessor.size)
    }
}

/// What was asked of a store, in order.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<(Method, String)>>>);

impl Calls {
    pub(super) fn note(&self, call: Call<'_>) {
        self.0.lock().unwrap().push((call.method, call.path.to_owned()));
    }

    pub(super) fn methods(&self) -> Vec<Method> {
        self.0.lock().unwrap().iter().map(|(method, _)| *method).collect()
    }

    pub(super) fn count(&self, method: Method) -> usize {
        self.methods().into_iter().filter(|asked| *asked == method).count()
    }
}
