//! The input as chunks, and what else may wake the router.

use std::io::Read;
use std::sync::mpsc::SyncSender;

/// What the router waits for.
#[derive(Debug)]
pub(super) enum Event {
    /// Some bytes of the input.
    Chunk(Vec<u8>),
    /// The input ended, well or not.
    End(std::io::Result<()>),
    /// A signal came, or a stage failed: look at the gauge.
    Wake,
}

/// Large enough that a chunk's fixed costs vanish, small enough that the queue of them is cheap.
const CHUNK_BYTES: usize = 1 << 20;

/// Reads `input` to its end on a thread of its own, which is left behind when the load ends early: a read that never returns must not
/// hold the process.
pub(super) fn read(mut input: Box<dyn Read + Send>, events: SyncSender<Event>) -> std::io::Result<()> {
    let reading = move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            // One read, one chunk: a pipe gives 64 KiB at a time, and a line that is here must not wait for the next one.
            let end = match input.read(&mut buffer) {
                Ok(0) => Ok(()),
                Ok(filled) => match events.send(Event::Chunk(buffer[..filled].to_vec())) {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            // The router may be gone already; then nobody needs to know.
            drop(events.send(Event::End(end)));
            return;
        }
    };
    std::thread::Builder::new().name("input".into()).spawn(reading).map(drop)
}
