//! The figures of a load, and the closing table made of them.

use crate::InputLine;

/// The figures of a whole load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// One per stream, in the order of their first appearance.
    pub streams: Vec<StreamSummary>,
    /// Lines of the input that were read.
    pub lines: u64,
    /// Lines that were no message and were skipped (`on_bad_line: skip`).
    pub skipped_lines: u64,
    /// STATE lines written to stdout.
    pub states_out: u64,
    /// Wall time of the load.
    pub seconds: f64,
}

/// The figures of one stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamSummary {
    /// The stream.
    pub name: String,
    /// The table's URL or path, once it is known.
    pub table: String,
    /// Records that were read.
    pub rows_read: u64,
    /// Rows that are committed.
    pub rows: u64,
    /// Bytes of the records that were read.
    pub bytes_in: u64,
    /// Encoded bytes of the committed data files.
    pub bytes_out: u64,
    /// Committed data files.
    pub files: u64,
    /// Commits.
    pub commits: u64,
    /// The newest version that we committed.
    pub version: Option<u64>,
    /// Records set aside (`on_bad_value: reject`).
    pub rejects: u64,
    /// Rows left out by `schema_contract: discard_rows`.
    pub discarded: u64,
    /// From the first record to the last commit.
    pub seconds: f64,
    /// Values that were changed on their way, per column and kind.
    pub coercions: Vec<Coercion>,
    /// Notices and warnings about the stream.
    pub notices: Vec<String>,
}

/// One kind of change to the values of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Coercion {
    /// The field path.
    pub field: String,
    /// What was done ("empty text to null").
    pub kind: String,
    /// How often.
    pub count: u64,
    /// The first value, as it came, cut to 100 characters.
    pub example: String,
    /// The input line of the first value.
    pub line: InputLine,
}

const HEADINGS: [&str; 9] = ["stream", "rows", "MB in", "MB out", "files", "commits", "rejects", "seconds", "rows/s"];

impl Summary {
    /// Returns the closing table: a line per stream, a total where there are several, then what deserves a look. Without a line
    /// break at its end.
    pub fn render(&self) -> String {
        let mut lines = Vec::new();
        if self.streams.is_empty() {
            lines.push("no stream in the input".to_owned());
        } else {
            lines.extend(self.table());
        }
        for stream in &self.streams {
            lines.extend(stream.remarks());
        }
        if self.skipped_lines > 0 {
            lines.push(format!(
                "{} skipped",
                counted(self.skipped_lines, "input line that is not a message", "input lines that are no messages")
            ));
        }
        lines.push(format!(
            "{} read, {} written, {:.1} s",
            counted(self.lines, "line", "lines"),
            counted(self.states_out, "state", "states"),
            self.seconds
        ));
        lines.join("\n")
    }

    fn table(&self) -> Vec<String> {
        let mut rows: Vec<[String; 9]> = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.streams.iter().map(StreamSummary::cells));
        if self.streams.len() > 1 {
            rows.push(self.total().cells());
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: [usize; 9] = std::array::from_fn(width);
        let line = |row: &[String; 9]| {
            let mut text = format!("{:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(widths).skip(1) {
                text += &format!("  {cell:>width$}");
            }
            text
        };
        rows.iter().map(line).collect()
    }

    fn total(&self) -> StreamSummary {
        let mut total = StreamSummary { name: "total".to_owned(), seconds: self.seconds, ..StreamSummary::default() };
        for stream in &self.streams {
            total.rows += stream.rows;
            total.bytes_in += stream.bytes_in;
            total.bytes_out += stream.bytes_out;
            total.files += stream.files;
            total.commits += stream.commits;
            total.rejects += stream.rejects;
        }
        total
    }
}

impl StreamSummary {
    fn cells(&self) -> [String; 9] {
        let rows_per_second =
            if self.seconds > 0.0 { grouped((self.rows as f64 / self.seconds).round() as u64) } else { "-".to_owned() };
        [
            self.name.clone(),
            grouped(self.rows),
            megabytes(self.bytes_in),
            megabytes(self.bytes_out),
            grouped(self.files),
            grouped(self.commits),
            grouped(self.rejects),
            format!("{:.1}", self.seconds),
            rows_per_second,
        ]
    }

    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let left_out = self.rows_read.saturating_sub(self.rows + self.rejects + self.discarded);
        if left_out > 0 {
            lines.push(format!("  {}: {} read and not committed", self.name, counted(left_out, "record", "records")));
        }
        if self.discarded > 0 {
            lines.push(format!(
                "  {}: {} left out by `schema_contract: discard_rows`",
                self.name,
                counted(self.discarded, "row", "rows")
            ));
        }
        for Coercion { field, kind, count, example, line } in &self.coercions {
            lines.push(format!("  {}.{field}: {} × {kind}, first {example} (input line {line})", self.name, grouped(*count)));
        }
        lines
    }
}

/// Returns a number with `,` between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Returns bytes as megabytes (10^6) with one digit.
fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
