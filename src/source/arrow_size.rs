//! How much memory a batch of an Arrow file takes, from what its message states, before any of it is set aside.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use arrow::error::ArrowError;
use arrow::ipc::{self, MessageHeader, root_as_message};

/// A batch that does not fit, as the source of an [`ArrowError::ExternalError`].
#[derive(Debug, thiserror::Error)]
#[error("a batch of {bytes} bytes, where {limit_bytes} bytes may be held at once")]
pub(super) struct TooLarge {
    /// Bytes of the batch as it is stored, unpacked, and of the dictionaries that its columns refer to.
    pub bytes: u64,
    /// Bytes that may be held.
    pub limit_bytes: u64,
}

/// Adds up what the messages of one file hold.
#[derive(Debug)]
pub(super) struct Sizes {
    limit_bytes: u64,
    /// Dictionaries stay until another one of their id comes.
    dictionaries: HashMap<i64, u64>,
}

/// What a message states of its body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub bytes: u64,
    /// Where in the body the unpacked length of a compressed buffer stands, ascending, and how many buffers are there.
    lengths_at: Vec<(u64, u64)>,
    unpacked_bytes: u64,
    /// Id, and whether it is added to what the id has.
    dictionary: Option<(i64, bool)>,
}

impl Body {
    fn of(header: &[u8]) -> Result<Self, ArrowError> {
        let broken = |what: &str| ArrowError::ParseError(what.to_owned());
        let message = root_as_message(header).map_err(|error| broken(&format!("a message is damaged: {error}")))?;
        let bytes = u64::try_from(message.bodyLength()).map_err(|_| broken("a message states a negative length"))?;
        let dictionary = match message.header_type() {
            MessageHeader::DictionaryBatch => message.header_as_dictionary_batch(),
            _ => None,
        };
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            _ => dictionary.and_then(|dictionary| dictionary.data()),
        };
        let mut starts = Vec::new();
        if let Some(batch) = batch.filter(|batch| batch.compression().is_some()) {
            for buffer in batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 0) {
                starts.push(u64::try_from(buffer.offset()).map_err(|_| broken("a buffer lies before its message"))?);
            }
        }
        starts.sort_unstable();
        let mut lengths_at: Vec<(u64, u64)> = Vec::new();
        for start in starts {
            match lengths_at.last_mut() {
                Some((same, count)) if *same == start => *count += 1,
                Some((last, _)) if start - *last < 8 => return Err(broken("two buffers overlap")),
                _ => lengths_at.push((start, 1)),
            }
        }
        let dictionary = dictionary.map(|dictionary| (dictionary.id(), dictionary.isDelta()));
        Ok(Self { bytes, lengths_at, unpacked_bytes: 0, dictionary })
    }

    /// Takes the unpacked length of `count` buffers; −1 stands for one that is stored as it is.
    fn unpacked(&mut self, length: [u8; 8], count: u64) {
        let length = u64::try_from(i64::from_le_bytes(length)).unwrap_or(0);
        self.unpacked_bytes = self.unpacked_bytes.saturating_add(length.saturating_mul(count));
    }
}

impl Sizes {
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, dictionaries: HashMap::new() }
    }

    /// Returns the body of a message by its header, if it fits as it is stored.
    fn begin(&self, header: &[u8]) -> Result<Body, ArrowError> {
        let body = Body::of(header)?;
        self.check(body.bytes)?;
        Ok(body)
    }

    /// Takes a body whose unpacked lengths are known, if it fits.
    fn end(&mut self, body: &Body) -> Result<(), ArrowError> {
        let bytes = body.bytes.saturating_add(body.unpacked_bytes);
        if let Some((id, is_added)) = body.dictionary {
            let held = self.dictionaries.entry(id).or_default();
            *held = if is_added { held.saturating_add(bytes) } else { bytes };
            return self.check(0);
        }
        self.check(bytes)
    }

    fn check(&self, batch_bytes: u64) -> Result<(), ArrowError> {
        let bytes = self.dictionaries.values().fold(batch_bytes, |sum, bytes| sum.saturating_add(*bytes));
        if bytes > self.limit_bytes {
            let too_large = TooLarge { bytes, limit_bytes: self.limit_bytes };
            return Err(ArrowError::ExternalError(Box::new(too_large)));
        }
        Ok(())
    }

    /// Checks a block that the footer of an Arrow file names and that lies within the file.
    pub fn check_block(&mut self, file: &mut File, block: &ipc::Block) -> Result<(), ArrowError> {
        let broken = || ArrowError::ParseError("its footer names a block that is none".to_owned());
        let (start, header_bytes) = (block.offset().unsigned_abs(), block.metaDataLength().unsigned_abs());
        self.check(u64::from(header_bytes))?;
        file.seek(SeekFrom::Start(start))?;
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header)?;
        // A length before the message, and before that, since Arrow 0.15, a mark.
        let marks = if header.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let mut body = self.begin(header.get(marks..).ok_or_else(broken)?)?;
        for (at, count) in std::mem::take(&mut body.lengths_at) {
            let mut length = [0; 8];
            file.seek(SeekFrom::Start(start.saturating_add(header_bytes.into()).saturating_add(at)))?;
            file.read_exact(&mut length)?;
            body.unpacked(length, count);
        }
        self.end(&body)
    }
}

/// Follows the messages of an Arrow stream as its bytes come.
#[derive(Debug)]
pub(super) struct StreamSizes {
    sizes: Sizes,
    part: Part,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Part {
    /// The mark or the length before a message.
    Length(Vec<u8>),
    Header {
        length: usize,
        bytes: Vec<u8>,
    },
    Body {
        body: Body,
        at: u64,
        /// Lengths that are complete.
        read: usize,
        length: Vec<u8>,
    },
    End,
}

impl StreamSizes {
    pub fn new(limit_bytes: u64) -> Self {
        Self { sizes: Sizes::new(limit_bytes), part: Part::Length(Vec::new()) }
    }

    /// Takes the next bytes of the stream.
    pub fn see(&mut self, mut bytes: &[u8]) -> Result<(), ArrowError> {
        while !bytes.is_empty() {
            match &mut self.part {
                Part::End => return Ok(()),
                Part::Length(length) => {
                    bytes = fill(length, 4, bytes);
                    if let Ok(four) = <[u8; 4]>::try_from(length.as_slice()) {
                        self.part = match u32::from_le_bytes(four) {
                            u32::MAX => Part::Length(Vec::new()),
                            0 => Part::End,
                            length => {
                                self.sizes.check(length.into())?;
                                Part::Header { length: length as usize, bytes: Vec::new() }
                            }
                        };
                    }
                }
                Part::Header { length, bytes: header } => {
                    bytes = fill(header, *length, bytes);
                    if header.len() == *length {
                        let body = self.sizes.begin(header)?;
                        self.part = Part::Body { body, at: 0, read: 0, length: Vec::new() };
                    }
                }
                Part::Body { body, at, read, length } => {
                    let here = bytes.len().min(usize::try_from(body.bytes - *at).unwrap_or(usize::MAX));
                    let (now, later) = bytes.split_at(here);
                    while let Some(&(start, count)) = body.lengths_at.get(*read) {
                        // Where the next byte of this length lies in `now`.
                        let wanted = start.saturating_add(length.len() as u64).checked_sub(*at);
                        let Some(rest) = wanted.and_then(|wanted| now.get(usize::try_from(wanted).ok()?..)) else { break };
                        fill(length, 8, rest);
                        let Ok(eight) = <[u8; 8]>::try_from(length.as_slice()) else { break };
                        body.unpacked(eight, count);
                        length.clear();
                        *read += 1;
                    }
                    *at += here as u64;
                    bytes = later;
                    if *at == body.bytes {
                        self.sizes.end(body)?;
                        self.part = Part::Length(Vec::new());
                    }
                }
            }
            // A message without a body ends with its header.
            if let Part::Body { body, .. } = &self.part
                && body.bytes == 0
            {
                self.sizes.end(body)?;
                self.part = Part::Length(Vec::new());
            }
        }
        Ok(())
    }
}

/// Moves bytes until `into` is `length` long; returns those that are left.
fn fill<'a>(into: &mut Vec<u8>, length: usize, from: &'a [u8]) -> &'a [u8] {
    let (now, later) = from.split_at(from.len().min(length - into.len()));
    into.extend_from_slice(now);
    later
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, Int64Array};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use arrow::record_batch::RecordBatch;

    use crate::source::open;
    use crate::{Error, Result};

    /// Rows of the content, when a batch may take `limit` bytes.
    fn rows(content: &[u8], limit: usize) -> Result<usize> {
        let mut file = tempfile::NamedTempFile::new().expect("is made");
        file.write_all(content).expect("is written");
        let mut records = open(file.path(), limit)?;
        let (mut record, mut count) = (Vec::new(), 0);
        while records.next_into(&mut record)? {
            count += 1;
        }
        Ok(count)
    }

    fn contents(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
        let mut contents = Vec::new();
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let options = IpcWriteOptions::default().try_with_compression(compression).expect("is known");
            let schema = batches[0].schema();
            let mut file = FileWriter::try_new_with_options(Vec::new(), &schema, options.clone()).expect("begins");
            let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options).expect("begins");
            for batch in batches {
                file.write(batch).expect("writes");
                stream.write(batch).expect("writes");
            }
            contents.push(file.into_inner().expect("ends"));
            contents.push(stream.into_inner().expect("ends"));
        }
        contents
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).expect("is a batch")
    }

    fn refusal(error: Error) -> String {
        assert!(error.hint_text().is_some_and(|hint| hint.contains("smaller batches")), "{error}");
        error.message().to_owned()
    }

    #[test]
    fn a_batch_is_weighed_by_what_it_holds_unpacked() {
        // Zeros: a few hundred bytes once compressed.
        let batches: Vec<RecordBatch> =
            (0..3).map(|_| batch(vec![("n", Arc::new(Int64Array::from(vec![0; 100_000])) as ArrayRef)])).collect();
        for content in contents(&batches) {
            assert_eq!(rows(&content, 1 << 20).expect("fits"), 300_000);
            let message = refusal(rows(&content, 700_000).expect_err("does not fit"));
            assert!(
                message.contains("holds a batch of 8") && message.ends_with("where 700000 bytes may be held at once"),
                "{message}"
            );
        }
    }

    #[test]
    fn dictionaries_count_for_every_batch_that_refers_to_them() {
        let texts: Vec<String> = (0..1_000).map(|n| format!("{n:0>1000}")).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(|text| Some(text.as_str())).collect();
        let batches = [batch(vec![("d", Arc::new(dictionary) as ArrayRef)])];
        for content in contents(&batches) {
            assert_eq!(rows(&content, 2 << 20).expect("fits"), 1_000);
            refusal(rows(&content, 900_000).expect_err("does not fit"));
        }
    }

    #[test]
    fn a_stated_length_sets_no_memory_aside() {
        let batches = [batch(vec![("n", Arc::new(Int64Array::from(vec![0; 12_500])) as ArrayRef)])];
        for content in contents(&batches).split_off(2) {
            // Whatever stands for the unpacked 100,000 bytes now claims to be huge.
            let at = content.windows(8).position(|bytes| bytes == 100_000i64.to_le_bytes()).expect("states it");
            let mut content = content;
            content[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
            refusal(rows(&content, 1 << 20).expect_err("does not fit"));
        }
    }
}
