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

impl Compression {
    /// Returns the codec that `text` names, with its level: `zstd`, `zstd(3)`, `zstd:3`.
    ///
    /// **Errors**: what is wrong with the text, to go on after it (`which is not one of …`).
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let plain = text.trim().to_ascii_lowercase();
        let (codec, level) = match plain.split_once(['(', ':']) {
            Some((codec, level)) => match level.trim_end_matches(')').trim().parse::<u32>() {
                Ok(level) => (codec.trim(), Some(level)),
                Err(_) => return Err("whose level is not a whole number"),
            },
            None => (plain.as_str(), None),
        };
        match (codec, level) {
            ("zstd", None) => Ok(Options::default().compression),
            ("zstd", Some(level @ 1..=22)) => Ok(Self::Zstd(i32::try_from(level).unwrap_or(1))),
            ("zstd", Some(_)) => Err("whose level is not from 1 to 22"),
            ("gzip", None) => Ok(Self::Gzip(6)),
            ("gzip", Some(level @ 0..=9)) => Ok(Self::Gzip(level)),
            ("gzip", Some(_)) => Err("whose level is not from 0 to 9"),
            ("snappy", None) => Ok(Self::Snappy),
            ("lz4" | "lz4_raw", None) => Ok(Self::Lz4),
            ("none" | "uncompressed", None) => Ok(Self::None),
            ("snappy" | "lz4" | "lz4_raw" | "none" | "uncompressed", Some(_)) => Err("a codec without levels"),
            _ => Err("which is not one of `zstd`, `snappy`, `lz4`, `gzip`, `none`"),
        }
    }

    /// Returns the part of a file's name that tells the codec, as other writers of Parquet name it.
    pub fn extension(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4raw",
            Self::Gzip(_) => "gz",
            Self::Zstd(_) => "zstd",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { compression: Compression::Zstd(1), target_file_bytes: 128 << 20 }
    }
}
