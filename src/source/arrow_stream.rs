//! Arrow IPC without trust in the lengths that a file states: memory follows the bytes that are there.

use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{StreamDecoder, read_footer_length};
use arrow::ipc::root_as_footer;
use arrow::record_batch::RecordBatch;

use super::arrow_size::{Sizes, StreamSizes};

/// The batches of a stream. The library's own `StreamReader` sets memory of any stated length aside before it reads.
pub(super) struct Stream {
    reader: Box<dyn BufRead + Send>,
    sizes: StreamSizes,
    decoder: StreamDecoder,
    buffer: Buffer,
    /// Found on the way to the schema.
    first: Option<RecordBatch>,
    begin: Vec<u8>,
    end: [u8; 8],
}

impl Stream {
    /// Reads up to the schema. A batch may take `limit_bytes` of memory.
    pub fn open(reader: Box<dyn BufRead + Send>, limit_bytes: u64) -> Result<(SchemaRef, Self), ArrowError> {
        let buffer = Buffer::from_vec(Vec::<u8>::new());
        let mut stream = Self {
            reader,
            sizes: StreamSizes::new(limit_bytes),
            decoder: StreamDecoder::new(),
            buffer,
            first: None,
            begin: Vec::new(),
            end: [0; 8],
        };
        stream.first = stream.read()?;
        let schema = stream.decoder.schema().ok_or_else(|| ArrowError::IpcError("it has no schema".to_owned()))?;
        Ok((schema, stream))
    }

    /// Reads up to the next batch, or the end.
    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            if self.buffer.is_empty() {
                let available = self.reader.fill_buf()?;
                if available.is_empty() {
                    self.decoder.finish()?;
                    return if self.is_marked() {
                        Ok(None)
                    } else {
                        Err(ArrowError::IpcError("it has no end marker".to_owned()))
                    };
                }
                self.begin.extend(available.iter().take(MARK.len() - self.begin.len()));
                self.sizes.see(available)?;
                let kept = available.len().min(8);
                self.end.rotate_left(kept);
                self.end[8 - kept..].copy_from_slice(&available[available.len() - kept..]);
                let length = available.len();
                self.buffer = Buffer::from_vec(available.to_vec());
                self.reader.consume(length);
            }
            if let Some(batch) = self.decoder.decode(&mut self.buffer)? {
                return Ok(Some(batch));
            }
        }
    }

    /// Whether the end marker was the last that came: without it a stream that was cut off between two batches looks whole. Streams of
    /// before Arrow 0.15 have no continuation marks.
    fn is_marked(&self) -> bool {
        let is_continued = self.begin == MARK;
        self.end[4..] == [0; 4] && (!is_continued || self.end[..4] == MARK)
    }
}

/// What each message, and the end, begins with.
const MARK: [u8; 4] = [0xff; 4];

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.first.take() {
            Some(batch) => Some(Ok(batch)),
            None => self.read().transpose(),
        }
    }
}

/// Checks that the blocks that the footer of an Arrow file names lie in the file: the library sets memory aside for each as it is
/// stated. A batch may take `limit_bytes` of it.
pub(super) fn check_file(file: &mut File, limit_bytes: u64) -> Result<(), ArrowError> {
    let broken = |what: &str| ArrowError::ParseError(what.to_owned());
    let length = file.seek(SeekFrom::End(0))?;
    let mut tail = [0; 10];
    let tail_start = length.checked_sub(10).ok_or_else(|| broken("it ends before its footer"))?;
    file.seek(SeekFrom::Start(tail_start))?;
    file.read_exact(&mut tail)?;
    let footer_length = read_footer_length(tail)?;
    let footer_start =
        tail_start.checked_sub(footer_length as u64).ok_or_else(|| broken("its footer is longer than the file"))?;
    file.seek(SeekFrom::Start(footer_start))?;
    let mut bytes = vec![0; footer_length];
    file.read_exact(&mut bytes)?;
    let footer = root_as_footer(&bytes).map_err(|error| broken(&format!("its footer is damaged: {error}")))?;
    let mut sizes = Sizes::new(limit_bytes);
    for block in footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten()) {
        let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        let end = parts.iter().try_fold(0u64, |end, part| end.checked_add(u64::try_from(*part).ok()?));
        if end.is_none_or(|end| end > length) {
            return Err(broken("its footer names a block beyond its end"));
        }
        sizes.check_block(file, block)?;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}
