//! Readers of record files: BATCH files of a Singer tap and files given on the command line.
//!
//! What this room guarantees:
//! - a file's format is told by its first bytes, after gzip or zstd is taken off, and never by its name or by what a manifest says;
//! - every record comes out once, in the file's order, as one JSON object's text with the exact digits of its values;
//! - memory holds one line, or one batch of a columnar file, whatever the length of the file;
//! - every error names the file, and the line of a line file.

mod arrow_size;
mod arrow_stream;
mod columns;
mod format;
mod json;
mod lines;
mod path;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use self::columns::Rows;
pub use self::columns::rows_per_batch;
use self::format::{Content, Format};
use self::lines::Lines;
pub use self::path::{BatchObject, BatchPlace, resolve_batch_path};
use crate::{Error, Result};

/// The records of one file.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Lines(Lines),
    Rows(Box<Rows>),
}

/// Opens a file of records: JSON lines, Parquet, Arrow IPC file or stream, each plain or in gzip or zstd. A line may be
/// `limit_bytes` long, and a batch of an Arrow file may take as much memory. Parquet and Arrow files inside gzip or zstd are unpacked to a temporary file without a name.
///
/// # Errors
/// `Input` when the file is missing, damaged, of another format, or its batches are too large, `Denied` when it may not be read or a temporary file not written.
pub fn open(path: &Path, limit_bytes: usize) -> Result<Records> {
    let file = File::open(path).map_err(|error| io_error(path, error))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Error::input(format!("`{}` is a directory, and a file of records was expected", path.display())));
    }
    open_file(file, path, limit_bytes)
}

/// Like [`open`], for a file that is open already; `path` is what errors call it.
///
/// # Errors
/// Those of [`open`].
pub fn open_file(file: File, path: &Path, limit_bytes: usize) -> Result<Records> {
    let Content { format, reader } = format::detect(file, path)?;
    let reader = match format {
        Format::Lines => Reader::Lines(Lines::new(reader.into_read(), limit_bytes)),
        Format::Parquet => Reader::Rows(Box::new(columns::parquet(reader.into_file(path)?, path)?)),
        Format::ArrowFile => Reader::Rows(Box::new(columns::arrow_file(reader.into_file(path)?, path, limit_bytes as u64)?)),
        Format::ArrowStream => Reader::Rows(Box::new(columns::arrow_stream(reader.into_read(), path, limit_bytes as u64)?)),
    };
    Ok(Records { path: path.to_owned(), reader })
}

impl Records {
    /// Puts the next record's JSON text into `record`, in place of what it holds; false at the end of the file. The text of a line file
    /// is its line, without surrounding white space and otherwise unread.
    ///
    /// # Errors
    /// `Input` when the file is damaged from here on, a line is too long, or a column's type has no JSON text.
    pub fn next_into(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        match &mut self.reader {
            Reader::Lines(lines) => lines.next_into(record, &self.path),
            Reader::Rows(rows) => rows.next_into(record, &self.path),
        }
    }

    /// Tells whether the last record ended with the file and not with a line end: it may have been cut off.
    pub fn is_open(&self) -> bool {
        matches!(&self.reader, Reader::Lines(lines) if lines.is_open())
    }

    /// Says where the last record was: "line 12 of `/tmp/a.jsonl`", for messages about its values.
    pub fn place(&self) -> String {
        let (unit, number) = match &self.reader {
            Reader::Lines(lines) => ("line", lines.number()),
            Reader::Rows(rows) => ("row", rows.number()),
        };
        format!("{unit} {number} of `{}`", self.path.display())
    }
}

impl Iterator for Records {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = Vec::new();
        match self.next_into(&mut record) {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Returns the error of opening or reading `path`. What a decompressor dislikes comes as an `io::Error` too.
fn io_error(path: &Path, error: std::io::Error) -> Error {
    use std::io::ErrorKind::{
        InvalidData, InvalidInput, NotFound, Other, PermissionDenied, QuotaExceeded, StorageFull, UnexpectedEof,
    };
    let file = path.display();
    match error.kind() {
        NotFound => Error::input(format!("the file `{file}` does not exist")),
        PermissionDenied => Error::denied(format!("the file `{file}` may not be read")).source(error),
        InvalidData | InvalidInput | Other | UnexpectedEof => {
            Error::input(format!("the file `{file}` is damaged or cut off")).source(error)
        }
        StorageFull | QuotaExceeded => Error::denied(format!("`{file}` cannot be unpacked to a temporary file"))
            .source(error)
            .hint("free some space, or set TMPDIR to a directory that has it"),
        _ => Error::unavailable(format!("the file `{file}` cannot be read")).source(error),
    }
}
