//! Record batches → Parquet bytes and per-file statistics.
//!
//! What this room guarantees:
//! - a file holds the rows it was given, in their order, in the types that every reader of the table knows: INT64 microseconds, never
//!   INT96 or a dictionary, view or large type in the schema, three-level lists, `key_value` maps, partition columns left out;
//! - a bound in the statistics is a bound of every value of its column, or it is left out. A reader skips a file by its bounds: one
//!   that is wrong by a digit loses rows silently;
//! - memory is bounded by one row group and a small sample, whatever the size of the file;
//! - two different lists of partition values never share a directory name, and the values' text is what Delta readers parse.

mod copy;
mod encoding;
mod parquet;
mod partition;
mod statistics;
#[cfg(test)]
mod tests;

pub use copy::copy_rows;
pub use parquet::{FileBuilder, Written};
pub use partition::{Partition, directory, split_partitions};

/// What the user set about data files, for one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The codec of all pages.
    pub compression: Compression,
    /// Encoded bytes at which a file is closed.
    pub target_file_bytes: u64,
}

/// `compression`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// Snappy.
    Snappy,
    /// LZ4 raw blocks.
    Lz4,
    /// Gzip of a level from 0 to 9.
    Gzip(u32),
    /// Zstandard of a level from 1 to 22.
    Zstd(i32),
}

impl Default for Options {
    fn default() -> Self {
        Self { compression: Compression::Zstd(1), target_file_bytes: 128 << 20 }
    }
}
