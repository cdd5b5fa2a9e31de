//! The threads on which requests run.
//!
//! Connections are kept by the runtime that opened them, and callers come from everywhere: from async code, from encoder threads, from
//! a kernel's own threads. So there is one runtime for all requests of the process, and it is never shut down.

use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::{Error, Result};

/// Threads: requests wait for the network and compute little beyond signatures and TLS.
const THREADS: usize = 2;

/// Returns the runtime.
pub(in crate::store) fn handle() -> Result<Handle> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(THREADS).thread_name("store").enable_all().build().ok();
    let runtime = RUNTIME.get_or_init(build).as_ref();
    runtime.map(|runtime| runtime.handle().clone()).ok_or_else(|| Error::internal("the threads of the store cannot be started"))
}

/// Runs `work` on the runtime, whatever executor waits for it. It goes on when nobody waits any more.
pub(in crate::store) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    handle()?.spawn(work).await.map_err(|error| Error::internal("a request was broken off").source(error))
}

/// Runs `work` on the runtime and blocks until it ends. Not to be called on the runtime itself.
pub(in crate::store) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    start(work)?.recv().map_err(|error| Error::internal("a request was broken off").source(error))
}

/// Like [`wait`], but not longer than `limit`: for tidying up, which goes on by itself.
pub(in crate::store) fn wait_at_most<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    start(work).ok()?.recv_timeout(limit).ok()
}

fn start<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<mpsc::Receiver<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // Nobody waits any more: nobody needs the answer.
        drop(sender.send(work.await));
    });
    Ok(receiver)
}
