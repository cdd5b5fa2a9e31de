//! The pipeline: from input to committed tables and the STATE that may leave.
//!
//! ```text
//! input thread ─ chunks ─► router (this thread) ─ batches ─► encoders ─ data files ─► committer ─ STATE ─► stdout
//!                             └────────────── cuts, STATE messages ──────────────────────┘
//! ```
//!
//! The guarantee: a STATE leaves only when all input before it, of every stream, is in committed versions; a load that ends badly commits
//! what lies before the newest STATE and nothing else. Every queue is bounded, so memory follows the settings and not the input.

mod ack;
mod batch_file;
mod committer;
mod encoder;
mod gauge;
mod input;
mod plan;
mod reject;
mod router;
mod sequencer;
mod signal;
mod stream;
mod table_path;

pub use plan::*;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::report::Reporter;
use crate::seam::Seam;
use crate::singer::LineSplitter;
use crate::store;
use ack::Ack;
use committer::{Committer, Ended};
use encoder::{Encoder, ToEncoder};
use gauge::Gauge;
use input::Event;
use router::{Router, Stages};

/// Chunks between the input and the router, batches between the router and an encoder: two keep both sides busy, more only hold memory.
const QUEUE: usize = 2;
/// How long the end of the input may be ahead of the signal that caused it.
const SIGNAL_GRACE: Duration = Duration::from_millis(50);
/// Data files that are open at once, and that are made durable at once: together well below the 1,024 descriptors that a login shell allows.
const OPEN_FILES: usize = 384;
const FILES_FINISHING: usize = 64;
/// How often the router looks at clock, signals and failures while no input comes.
const TICK: Duration = Duration::from_millis(200);

/// Runs a whole load: reads `input` to its end, commits, writes STATE lines to `output`. What is committed by the time of an error stays.
/// The figures are with `report`.
///
/// **Errors**: `Input` and `Schema` name the line; `Denied`, `Conflict`, `Unavailable`, `Table` the table; `Signal` after SIGINT or SIGTERM.
pub fn run(
    plan: Plan,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
    report: &Arc<Reporter>,
    seam: &Seam,
) -> Result<()> {
    let store = store::open(&plan.destination, &plan.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("store")
        .build()
        .map_err(|error| Error::internal("the runtime cannot be started").source(error))?;
    let gauge = Arc::new(Gauge::default());
    let (events, received) = sync_channel(QUEUE);
    signal::watch(runtime.handle(), gauge.clone(), events.clone())?;
    input::read(input, events).map_err(|error| Error::internal("a thread cannot be started").source(error))?;

    let (to_committer, committer_messages) = tokio::sync::mpsc::unbounded_channel();
    let encoder_count = std::thread::available_parallelism().map_or(2, |cores| cores.get().saturating_sub(1).clamp(2, 4));
    let run_id = seam.uuid().to_string();
    let cuts_allowed = Arc::new(tokio::sync::Semaphore::new(1));
    let committer = Committer {
        store: store.clone(),
        gauge: gauge.clone(),
        report: report.clone(),
        seam: seam.clone(),
        encoders: encoder_count,
        commit_timeout: plan.cuts.commit_timeout,
        run_id: run_id.clone(),
        pipeline: plan.pipeline.clone(),
        splitting: tokio::sync::Mutex::new(()),
        cuts_allowed: cuts_allowed.clone(),
    };
    let finishing = Arc::new(tokio::sync::Semaphore::new(FILES_FINISHING));
    let committing = runtime.spawn(committer.run(committer_messages, Ack::new(output, plan.cuts.state_interval)));

    std::thread::scope(|scope| {
        let mut encoders = Vec::new();
        let mut working = Vec::new();
        for index in 0..encoder_count {
            let (to_encoder, messages) = sync_channel::<ToEncoder>(QUEUE);
            let encoder = Encoder {
                index,
                cut: 0,
                store: store.clone(),
                gauge: gauge.clone(),
                committer: to_committer.clone(),
                runtime: runtime.handle().clone(),
                seam: seam.clone(),
                report: report.clone(),
                open_files_limit: OPEN_FILES / encoder_count,
                finishing: finishing.clone(),
            };
            working.push(scope.spawn(move || encoder.run(messages)));
            encoders.push(to_encoder);
        }
        let stages = Stages {
            store,
            gauge: gauge.clone(),
            report: report.clone(),
            seam: seam.clone(),
            runtime: runtime.handle().clone(),
            encoders,
            committer: to_committer,
            cuts_allowed,
            run_id,
        };
        let mut router = Router::new(plan, stages);
        let read = route(&mut router, &received, &gauge);
        let closed = match &read {
            _ if gauge.has_failed() => Ok(()),
            Ok(()) => router.finish(),
            // A defect may have taken rows out of their batch: nothing is known to be whole.
            Err(error) if error.kind() == ErrorKind::Internal => Ok(()),
            Err(_) => router.finish_badly(),
        };
        router.report_coercions();
        let newest_state_line = router.newest_state_line();
        // Hanging up lets the encoders end, and then the committer.
        drop(router);
        for encoder in working {
            if encoder.join().is_err() {
                gauge.fail(Error::internal("an encoder broke down"));
            }
        }
        let ended = runtime.block_on(committing).map_err(|error| Error::internal("the committer did not end").source(error));
        let failure = gauge.take_failure();
        let ended = ended?;
        // A stage that failed says more than the router, which only sees that it is gone.
        match failure.or(read.err()).or(closed.err()) {
            None => Ok(()),
            Some(error) => Err(with_standing(error, &ended, newest_state_line)),
        }
    })
}

/// Gives the router one line after the other, until the input ends, fails, or somebody says stop.
fn route(router: &mut Router, events: &Receiver<Event>, gauge: &Gauge) -> Result<()> {
    let line_limit = router.line_limit();
    let mut lines = LineSplitter::new(line_limit);
    let too_long = |line, bytes| {
        Error::input(format!(
            "the line is longer than {line_limit} bytes, a fifth of `memory_limit_bytes` ({bytes} bytes so far)"
        ))
        .at_line(line)
        .hint("raise `memory_limit_bytes` to more than five times the length of the longest line")
    };
    loop {
        let event = match events.recv_timeout(TICK) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::End(Ok(()))),
        };
        gauge.go_on()?;
        match event {
            Some(Event::Chunk(chunk)) => {
                router.chunk_received();
                lines.split(&chunk, too_long, |line, text, is_utf8| router.line(line, text, is_utf8))?;
            }
            Some(Event::End(Ok(()))) => {
                // Ctrl-C reaches the tap as well, and its end may be seen before our own signal.
                router.pause(SIGNAL_GRACE);
                gauge.go_on()?;
                return lines.finish(|line, text, is_utf8| {
                    router.last_line_is_open();
                    router.line(line, text, is_utf8)
                });
            }
            Some(Event::End(Err(error))) => return Err(Error::unavailable("the input cannot be read").source(error)),
            Some(Event::Wake) | None => {}
        }
        router.tick()?;
    }
}

/// Adds how things stand to the error that ended the load.
fn with_standing(error: Error, ended: &Ended, newest_state_line: u64) -> Error {
    let position = match ended.covered_line {
        Some(line) => format!("committed up to the STATE of line {line}"),
        None if newest_state_line == 0 => "no STATE came before".to_owned(),
        None => "no STATE was reached".to_owned(),
    };
    let table = error.stream().and_then(|stream| ended.tables.iter().find(|table| table.stream == stream));
    let is_first = !ended.tables.iter().any(|table| table.has_committed);
    let standing = match table {
        Some(table) => {
            let version = match table.version {
                Some(version) => format!("last committed version {version}"),
                None => "not created".to_owned(),
            };
            format!("{version}, {position}; later rows were left out")
        }
        None if is_first => format!("nothing was committed by this load; {position}"),
        None => format!("{position}; later rows were left out"),
    };
    let error = match table {
        Some(table) => error.at_table(table.url.clone()),
        None => error,
    };
    let error = if ended.has_rows_behind_state { error.repeat_may_double() } else { error };
    error.standing_unless_set(standing)
}
