//! Record batches → Parquet bytes and per-file statistics.

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
