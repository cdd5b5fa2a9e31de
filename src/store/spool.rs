//! Reading a whole object with the memory of a piece: into a temporary file that vanishes with its handle.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};

use super::Store;
use crate::{Error, Result};

/// Bytes of one request: enough that its fixed costs vanish, and short enough for a slow network to answer it within its time-out.
const PIECE_BYTES: u64 = 8 << 20;

/// Copies the object to a temporary file, which is at its beginning afterwards; `None` when there is no such object. Each piece is read
/// with the repetitions of the store's client.
///
/// **Errors:** `Denied` when the object may not be read or the file not be written; `Unavailable` when the store does not answer, or the
/// object is replaced while it is read.
pub async fn spool(store: &dyn Store, path: &str) -> Result<Option<File>> {
    let Some(entry) = store.head(path).await? else { return Ok(None) };
    let (objects, _) = store.kernel_access("")?;
    let location =
        Path::parse(path).map_err(|error| Error::internal(format!("`{path}` is not a path within a store")).source(error))?;
    let unwritable = |error: std::io::Error| {
        Error::denied(format!("`{path}` cannot be copied to a temporary file"))
            .source(error)
            .hint("free some space, or set TMPDIR to a directory that has it")
    };
    let mut file = tempfile::tempfile().map_err(unwritable)?;
    let mut at = 0;
    let mut tag = None;
    while at < entry.size {
        let end = entry.size.min(at + PIECE_BYTES);
        let piece = match read_piece(&*objects, &location, at..end).await {
            Ok(piece) => piece,
            // What a person has to mend is said by the store's own typed answer.
            Err(error) => return Err(unreadable(store, path, error).await),
        };
        let is_another = *tag.get_or_insert_with(|| piece.tag.clone()) != piece.tag;
        if is_another || piece.bytes.len() as u64 != end - at {
            return Err(Error::unavailable(format!("`{path}` was replaced while it was read")));
        }
        file.write_all(&piece.bytes).map_err(unwritable)?;
        at = end;
    }
    file.seek(SeekFrom::Start(0)).map_err(unwritable)?;
    Ok(Some(file))
}

struct Piece {
    bytes: bytes::Bytes,
    tag: Option<String>,
}

async fn read_piece(objects: &dyn ObjectStore, location: &Path, range: std::ops::Range<u64>) -> object_store::Result<Piece> {
    let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
    let answer = objects.get_opts(location, options).await?;
    let tag = answer.meta.e_tag.clone();
    Ok(Piece { bytes: answer.bytes().await?, tag })
}

async fn unreadable(store: &dyn Store, path: &str, error: object_store::Error) -> Error {
    match store.head(path).await {
        Err(typed) => typed,
        Ok(_) => {
            let text = error.to_string();
            Error::unavailable(format!("cannot read `{path}`")).source(text.lines().next().unwrap_or_default().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ErrorKind;
    use crate::store::s3_server::{Fault, Operation, S3Server};

    fn spooled(server: &S3Server, path: &str) -> Result<Option<Vec<u8>>> {
        let store = server.open_with("", &[("max_retries", "2")]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let file = runtime.block_on(spool(&store, path))?;
        Ok(file.map(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }))
    }

    fn put(server: &S3Server, path: &str, bytes: Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.open("").put(path, bytes.into())).unwrap();
    }

    #[test]
    fn an_object_is_read_in_pieces_and_whole() {
        let server = S3Server::start();
        for length in [0, 1, PIECE_BYTES as usize, 2 * PIECE_BYTES as usize + 5] {
            let bytes: Vec<u8> = (0..length).map(|index| (index ^ (index >> 9)) as u8).collect();
            put(&server, "a b/é%20.jsonl", bytes.clone());
            server.take_calls();
            assert!(spooled(&server, "a b/é%20.jsonl").unwrap() == Some(bytes), "{length}");
            let gets = server.take_calls().iter().filter(|call| call.operation == Operation::Get).count();
            assert_eq!(gets, length.div_ceil(PIECE_BYTES as usize), "{length}");
        }
        assert!(spooled(&server, "a b/é .jsonl").unwrap().is_none());
    }

    #[test]
    fn pieces_that_are_lost_are_read_again_and_refusals_are_typed() {
        let server = S3Server::start();
        put(&server, "x", vec![7; PIECE_BYTES as usize + 1]);
        let gets = AtomicUsize::new(0);
        server.set_rule(move |call| match call.operation {
            Operation::Get if gets.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => Fault::DropBefore,
            _ => Fault::Pass,
        });
        assert_eq!(spooled(&server, "x").unwrap().map(|bytes| bytes.len()), Some(PIECE_BYTES as usize + 1));
        server.set_rule(|call| if call.operation == Operation::Get { Fault::Answer(503, "SlowDown") } else { Fault::Pass });
        assert_eq!(spooled(&server, "x").unwrap_err().kind(), ErrorKind::Unavailable);
        server.set_rule(|_| Fault::Answer(403, "AccessDenied"));
        assert_eq!(spooled(&server, "x").unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn an_object_that_is_replaced_under_the_reading_is_no_mixture() {
        let server = S3Server::start();
        put(&server, "x", vec![1; 2 * PIECE_BYTES as usize]);
        let backend = server.backend();
        let mut gets = 0;
        server.set_rule(move |call| {
            gets += usize::from(call.operation == Operation::Get);
            if call.operation == Operation::Get && gets == 2 {
                backend.replace("x", vec![2; 2 * PIECE_BYTES as usize].into());
            }
            Fault::Pass
        });
        let error = spooled(&server, "x").unwrap_err();
        assert!(error.to_string().contains("was replaced while it was read"), "{}", error.render());
    }
}
