//! A proxy before a real S3 server that loses answers, repeats requests or lets them come late, by a seed.
//!
//! It stands on loopback between a writer under test and its store. Requests go through as they are, the Host header too, which the
//! signature covers. It prints its address as the first line, and answers `GET /_faults/counts` itself.

mod counts;
mod fault;
mod proxy;
mod sign;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use fault::{Faults, Kind, Operation};
use proxy::Proxy;

/// A proxy before an S3 server, with faults by a seed
#[derive(Debug, Parser)]
#[command(name = "delta-load-faults")]
struct Arguments {
    /// Address to listen on; port 0 takes a free one. The first line on stdout is the URL
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The server behind, http://HOST:PORT
    #[arg(long)]
    upstream: String,
    /// Seed of the faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many of the requests have a fault, in percent
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    percent: u64,
    /// The kinds of faults; without it all but `overwrite`
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// The requests that may have a fault, by what they ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "put")]
    operations: Vec<Operation>,
    /// Text that the path of such a request (of a list, the prefix) must hold
    #[arg(long, default_value = "_delta_log/")]
    path: String,
    /// Milliseconds that every request takes longer
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Milliseconds that the answer of `apply-stall` is held back; more than the client waits
    #[arg(long, default_value_t = 60_000)]
    stall_ms: u64,
    /// Milliseconds after which a request of `late` is applied
    #[arg(long, default_value_t = 500)]
    late_ms: u64,
    /// Milliseconds that `slow-list` takes longer
    #[arg(long, default_value_t = 1_000)]
    slow_ms: u64,
    /// Secret key to sign again with, for `overwrite`: the condition is part of the signature
    #[arg(long)]
    secret: Option<String>,
    /// File that gets the counts at the end (SIGTERM, SIGINT)
    #[arg(long)]
    count_file: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let mut kinds = arguments.kinds;
    if kinds.is_empty() {
        kinds = Kind::value_variants().iter().copied().filter(|kind| *kind != Kind::Overwrite).collect();
    }
    if kinds.contains(&Kind::Overwrite) && arguments.secret.is_none() {
        return Err("`overwrite` takes off a signed header: give the secret key to sign with (--secret)".to_owned());
    }
    let upstream = arguments.upstream.trim_end_matches('/').to_owned();
    if !upstream.starts_with("http://") {
        return Err(format!("--upstream is {upstream:?}, which is not http://HOST:PORT"));
    }
    let listener = TcpListener::bind(arguments.listen)
        .await
        .map_err(|error| format!("{} cannot be listened on: {error}", arguments.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let milliseconds = Duration::from_millis;
    let mut connector = hyper_util::client::legacy::connect::HttpConnector::new();
    connector.set_nodelay(true);
    let proxy = Arc::new(Proxy {
        client: Client::builder(TokioExecutor::new()).retry_canceled_requests(false).set_host(false).build(connector),
        upstream,
        faults: Faults::new(arguments.seed, arguments.percent, kinds, arguments.operations, arguments.path),
        counts: counts::Counts::default(),
        secret: arguments.secret,
        latency: milliseconds(arguments.latency_ms),
        stall: milliseconds(arguments.stall_ms),
        late: milliseconds(arguments.late_ms),
        slow: milliseconds(arguments.slow_ms),
    });
    let mut stdout = std::io::stdout();
    writeln!(stdout, "http://{address}").and_then(|()| stdout.flush()).map_err(|error| format!("stdout: {error}"))?;
    tokio::select! {
        () = serve(listener, Arc::clone(&proxy)) => {}
        () = ended() => {}
    }
    if let Some(path) = arguments.count_file {
        let text = proxy.counts.to_json().to_string();
        std::fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

async fn serve(listener: TcpListener, proxy: Arc<Proxy>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // A connection without it is only slower.
        let _ = stream.set_nodelay(true);
        let proxy = Arc::clone(&proxy);
        let handle = service_fn(move |request| Arc::clone(&proxy).handle(request));
        tokio::spawn(async move {
            // A connection that a fault breaks off is the point of it.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), handle).await;
        });
    }
}

async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
