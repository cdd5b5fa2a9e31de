//! SIGINT and SIGTERM: the first ends the load in order, the second at once.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::signal::unix::{SignalKind, signal};

use super::gauge::Gauge;
use super::input::Event;
use crate::error::{Error, Result};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Notes the first signal in the gauge and wakes the router; a second one ends the process.
pub(super) fn watch(runtime: &tokio::runtime::Handle, gauge: Arc<Gauge>, router: SyncSender<Event>) -> Result<()> {
    let _inside = runtime.enter();
    let listen = |kind| signal(kind).map_err(|error| Error::internal("signals cannot be watched").source(error));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    runtime.spawn(async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => SIGINT,
                _ = terminate.recv() => SIGTERM,
            };
            if gauge.signal().is_some() {
                std::process::exit(128 + number);
            }
            tracing::warn!("{} received: committing up to the newest STATE; once more ends the process at once", name(number));
            gauge.set_signal(number);
            // A full queue means that the router is awake.
            drop(router.try_send(Event::Wake));
        }
    });
    Ok(())
}

/// Returns the signal's name.
pub(super) fn name(number: i32) -> &'static str {
    if number == SIGINT { "SIGINT" } else { "SIGTERM" }
}
