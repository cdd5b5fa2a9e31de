//! Each stage alone, one thread: lines and envelopes; JSON records → record batches, by the exact and by the direct path; record batches →
//! Parquet with its statistics.
//!
//! The input is made here, 500,000 flat events of 20 columns, about 290 MB of record text, the same bytes at every run (the hash names
//! it). Times are CPU seconds of this thread; each stage runs `RUNS` times, taking turns, and the least and the median are told.
//!
//!     cargo bench --bench stages [-- ROWS]

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use delta_load::InputLine;
use delta_load::batch::{BatchBuilder, Options, RowMeta, Tally};
use delta_load::data_file::{self, FileBuilder};
use delta_load::delta::StatisticsColumns;
use delta_load::schema::{StreamLayout, StreamSchema};
use delta_load::singer::{LineSplitter, record_head};
use sha2::{Digest, Sha256};

const ROWS: usize = 500_000;
const RUNS: usize = 5;
/// Input bytes of one batch: what the pipeline hands on at a time.
const BATCH_BYTES: usize = 4 << 20;

const WORDS: [&str; 20] = [
    "lake", "river", "delta", "stone", "cloud", "paper", "green", "silver", "quiet", "early", "north", "water", "light", "small",
    "round", "table", "house", "garden", "bridge", "yellow",
];

/// SplitMix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn words(&mut self, count: usize, between: &str) -> String {
        (0..count).map(|_| self.of(&WORDS)).collect::<Vec<_>>().join(between)
    }
}

fn record(index: u64, random: &mut Random, out: &mut Vec<u8>) -> std::io::Result<()> {
    let second = index * 3;
    let (day, time) = (second / 86_400, second % 86_400);
    let date = format!("2026-{:02}-{:02}", 1 + day / 28, 1 + day % 28);
    let clock = format!("{:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60);
    write!(out, "{{\"id\":{index},\"ts\":\"{date}T{clock}.{:06}Z\"", random.below(1_000_000))?;
    match random.below(10) {
        0 => write!(out, ",\"user_id\":null")?,
        _ => write!(out, ",\"user_id\":{}", random.below(2_000_000))?,
    }
    write!(out, ",\"session\":\"{:016x}{:016x}\"", random.next(), random.next())?;
    write!(out, ",\"event\":\"{}\"", random.of(&["view", "click", "scroll", "buy", "leave"]))?;
    write!(out, ",\"url\":\"https://shop.example.com/{}?item={}\"", random.words(7, "/"), random.below(100_000))?;
    write!(out, ",\"title\":\"{}\"", random.words(18, " "))?;
    match random.below(3) {
        0 => write!(out, ",\"referrer\":null")?,
        1 => write!(out, ",\"referrer\":\"https://search.example.org/\"")?,
        _ => write!(out, ",\"referrer\":\"https://mail.example.net/\"")?,
    }
    write!(out, ",\"country\":\"{}\"", random.of(&["DE", "FR", "US", "IN", "BR", "JP", "ZA", "NO"]))?;
    write!(out, ",\"device\":\"{}\"", random.of(&["phone", "tablet", "desktop"]))?;
    write!(out, ",\"os\":\"{}\"", random.of(&["Android", "iOS", "Linux", "macOS", "Windows"]))?;
    write!(out, ",\"browser\":\"{}\"", random.of(&["Firefox", "Chrome", "Safari", "Edge"]))?;
    write!(out, ",\"duration_ms\":{}", random.below(600_000))?;
    write!(out, ",\"scroll\":{}", random.below(101) as f64 / 100.0)?;
    match random.below(10) {
        0 => write!(out, ",\"revenue\":{}.{:02},\"currency\":\"EUR\"", random.below(300), random.below(100))?,
        _ => write!(out, ",\"revenue\":null,\"currency\":null")?,
    }
    write!(out, ",\"is_bot\":{}", random.below(33) == 0)?;
    write!(out, ",\"day\":\"{date}\"")?;
    // As Python prints a random float: 16 or 17 digits.
    write!(out, ",\"score\":{}", (random.next() >> 11) as f64 / (1u64 << 53) as f64)?;
    match random.below(5) {
        0 => write!(out, ",\"note\":\"first visit\"}}"),
        1 => write!(out, ",\"note\":\"returning, said \\\"hello\\\"\"}}"),
        _ => write!(out, ",\"note\":null}}"),
    }
}

fn layout() -> delta_load::Result<Arc<StreamLayout>> {
    let text = serde_json::json!({"type": ["null", "string"]});
    let long = serde_json::json!({"type": ["null", "integer"]});
    let double = serde_json::json!({"type": ["null", "number"]});
    let schema = serde_json::json!({"type": "object", "properties": {
        "id": {"type": "integer"}, "ts": {"type": "string", "format": "date-time"}, "user_id": long, "session": text, "event": text,
        "url": text, "title": text, "referrer": text, "country": text, "device": text, "os": text, "browser": text,
        "duration_ms": long, "scroll": double, "revenue": double, "currency": text, "is_bot": {"type": "boolean"},
        "day": {"type": "string", "format": "date"}, "score": double, "note": text,
    }});
    Ok(StreamSchema::new(&schema, &["id".to_owned()], &[], &Default::default(), None)?.layout())
}

/// CPU seconds of this thread so far; wall seconds where the system does not tell.
fn cpu_seconds(begin: &Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// What a chunk of a pipe holds.
const CHUNK_BYTES: usize = 64 << 10;

/// Splits the stream into lines and finds the record of each; returns their number.
fn split(lines: &[u8]) -> Result<usize, Box<dyn Error>> {
    let (mut splitter, mut records) = (LineSplitter::new(1 << 20), 0);
    for chunk in lines.chunks(CHUNK_BYTES) {
        splitter.split(
            chunk,
            |line, _| format!("line {line} is too long"),
            |_, line, is_utf8| {
                records += usize::from(is_utf8 && record_head(line).is_some());
                Ok(())
            },
        )?;
    }
    Ok(records)
}

/// Encodes all batches into one file; returns its rows and bytes.
fn encode(batches: &[RecordBatch]) -> Result<(usize, u64), Box<dyn Error>> {
    let schema = batches.first().ok_or("no batch")?.schema();
    let mut file =
        FileBuilder::new(std::io::sink(), schema, &data_file::Options::default(), &StatisticsColumns::of(&Default::default()))?;
    for batch in batches {
        file.write(batch)?;
    }
    let (_, written) = file.close()?;
    Ok((usize::try_from(written.rows)?, written.bytes))
}

/// Builds all batches, and keeps them in `kept` if there is one; returns the rows, and how many of them the direct path took.
fn run(
    layout: &Arc<StreamLayout>,
    records: &[&[u8]],
    is_direct: bool,
    mut kept: Option<&mut Vec<RecordBatch>>,
) -> Result<(usize, usize), Box<dyn Error>> {
    let mut builder = BatchBuilder::new(layout.clone(), Options::default());
    let (meta, mut tally) = (RowMeta::default(), Tally::default());
    let (mut rows, mut direct, mut bytes) = (0, 0, 0);
    for (line, record) in records.iter().enumerate() {
        if is_direct && builder.push_fast(record).is_some() {
            builder.end_row(&meta);
            direct += 1;
        } else {
            let pushed = builder.push(record, InputLine(line as u64 + 1), &meta, &mut tally);
            pushed.map_err(|fault| format!("record {line} was refused: {fault:?}"))?;
        }
        bytes += record.len();
        if bytes >= BATCH_BYTES {
            bytes = 0;
            let batch = builder.finish()?;
            rows += batch.num_rows();
            kept.iter_mut().for_each(|kept| kept.push(batch.clone()));
        }
    }
    let batch = builder.finish()?;
    rows += batch.num_rows();
    kept.iter_mut().for_each(|kept| kept.push(batch.clone()));
    Ok((rows, direct))
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench`.
    let rows = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(ROWS);
    let mut random = Random(20_261_201);
    let (mut input, mut ends) = (Vec::new(), Vec::with_capacity(rows));
    for index in 0..rows {
        record(index as u64, &mut random, &mut input)?;
        ends.push(input.len());
    }
    let mut begin = 0;
    let records: Vec<&[u8]> = ends.iter().map(|end| &input[std::mem::replace(&mut begin, *end)..*end]).collect();
    let hash: String = Sha256::digest(&input).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let megabytes = input.len() as f64 / 1e6;
    let mut report = std::io::stdout();
    writeln!(report, "input: {rows} records, {megabytes:.1} MB, sha256 {hash}…")?;

    let layout = layout()?;
    let clock = Instant::now();
    let mut batches = Vec::new();
    run(&layout, &records, true, Some(&mut batches))?;
    let mut lines = Vec::with_capacity(input.len() + rows * 64);
    for record in &records {
        lines.extend_from_slice(b"{\"type\":\"RECORD\",\"stream\":\"events\",\"record\":");
        lines.extend_from_slice(record);
        lines.extend_from_slice(b"}\n");
    }
    let mut seconds = [const { Vec::new() }; 4];
    let (mut direct_rows, mut file_bytes) = (0, 0);
    for _ in 0..RUNS {
        for (stage, seconds) in seconds.iter_mut().enumerate() {
            let before = cpu_seconds(&clock);
            let done = match stage {
                0 => split(&lines)?,
                1 | 2 => {
                    let (built, direct) = run(&layout, &records, stage == 2, None)?;
                    direct_rows = direct_rows.max(direct);
                    built
                }
                _ => {
                    let (encoded, bytes) = encode(&batches)?;
                    file_bytes = bytes;
                    encoded
                }
            };
            seconds.push(cpu_seconds(&clock) - before);
            assert_eq!(done, rows, "every record is a row");
        }
    }
    for (name, seconds) in ["lines and envelopes", "exact path", "direct path", "Parquet"].iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        let (least, median) = (seconds[0], seconds[seconds.len() / 2]);
        writeln!(report, "{name}: least {least:.3} s CPU ({:.0} MB/s), median {median:.3} s", megabytes / least)?;
    }
    writeln!(report, "the direct path took {direct_rows} of {rows} records; the file has {:.2} MB", file_bytes as f64 / 1e6)?;
    Ok(())
}
