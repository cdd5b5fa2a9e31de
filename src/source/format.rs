//! What a file holds, by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::io_error;
use crate::{Error, Result};

/// Bytes that tell all formats apart.
const MAGIC_BYTES: usize = 8;
/// Compressed bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// The format of the content, compression taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Lines,
    Parquet,
    ArrowFile,
    ArrowStream,
}

/// A file's content, from its first byte on.
pub(super) struct Content {
    pub format: Format,
    pub reader: Layers,
}

/// The content with or without a compression around it.
pub(super) enum Layers {
    Plain(BufReader<File>),
    Compressed(Box<dyn Read + Send>),
}

impl Layers {
    /// Returns the content as a stream.
    pub fn into_read(self) -> Box<dyn BufRead + Send> {
        match self {
            Self::Plain(reader) => Box::new(reader),
            Self::Compressed(reader) => Box::new(BufReader::with_capacity(BUFFER_BYTES, reader)),
        }
    }

    /// Returns the content as a file with random access: itself, or unpacked to a temporary file that vanishes with its handle.
    pub fn into_file(self, path: &Path) -> Result<File> {
        match self {
            Self::Plain(reader) => Ok(reader.into_inner()),
            Self::Compressed(mut reader) => {
                let mut file = tempfile::tempfile().map_err(|error| {
                    Error::denied(format!("no temporary file can be made to unpack `{}`", path.display())).source(error)
                })?;
                io::copy(&mut reader, &mut file)
                    .and_then(|_| file.seek(SeekFrom::Start(0)))
                    .map_err(|error| io_error(path, error))?;
                Ok(file)
            }
        }
    }
}

/// Looks at the first bytes of a file, under its compression if it has one.
pub(super) fn detect(file: File, path: &Path) -> Result<Content> {
    let failed = |error| io_error(path, error);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let start = reader.fill_buf().map_err(failed)?;
    let decoder: Box<dyn Read + Send> = match start {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(reader)),
        // A zstd frame, or a skippable one before it.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(reader).map_err(failed)?)
        }
        _ => {
            let format = format_of(start, path)?;
            return Ok(Content { format, reader: Layers::Plain(reader) });
        }
    };
    let mut decoder = decoder;
    let mut first = Vec::with_capacity(MAGIC_BYTES);
    decoder.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut first).map_err(failed)?;
    let format = format_of(&first, path)?;
    Ok(Content { format, reader: Layers::Compressed(Box::new(io::Cursor::new(first).chain(decoder))) })
}

fn format_of(start: &[u8], path: &Path) -> Result<Format> {
    let foreign = match start {
        [b'P', b'A', b'R', b'1', ..] => return Ok(Format::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => return Ok(Format::ArrowFile),
        // Begins every message of a stream since Arrow 0.15.
        [0xFF, 0xFF, 0xFF, 0xFF, ..] => return Ok(Format::ArrowStream),
        [b'P', b'A', b'R', b'E', ..] => "encrypted Parquet",
        [b'F', b'E', b'A', b'1', ..] => "Feather version 1",
        [b'O', b'R', b'C', ..] => "ORC",
        [b'O', b'b', b'j', 1, ..] => "Avro",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2",
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
        [0x1F, 0x8B, ..] | [0x28, 0xB5, 0x2F, 0xFD, ..] => "compressed twice",
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text",
        _ => return Ok(Format::Lines),
    };
    Err(Error::input(format!("the file `{}` is {foreign}, which is not read", path.display()))
        .hint("JSON lines, Parquet and Arrow IPC are, each plain or in gzip or zstd"))
}
