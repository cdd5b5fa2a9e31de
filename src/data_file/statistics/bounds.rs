//! The least and the greatest value of a column, as bounds that hold for every reader.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, Timelike};

use super::super::parquet::LARGE_VALUE_BYTES;

/// Characters (Unicode scalar values) of a text bound, as in Spark.
const TEXT_CHARACTERS: usize = 32;

/// The bounds of one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bounds {
    /// Its type has none, or a value of this file forbids them.
    None,
    Integer(Option<(i64, i64)>),
    Float(Option<(f64, f64)>),
    Decimal {
        scale: u32,
        range: Option<(i128, i128)>,
    },
    Date(Option<(i32, i32)>),
    Timestamp {
        is_utc: bool,
        range: Option<(i64, i64)>,
    },
    Text(Option<(Cut, Cut)>),
}

/// The first [`TEXT_CHARACTERS`] of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    text: String,
    /// The first eight bytes of the text, to tell most others apart at once.
    head: u64,
    /// Whether some value goes on after the text.
    is_cut: bool,
}

impl Bounds {
    /// Returns the bounds of no values.
    pub fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer(None),
            DataType::Float32 | DataType::Float64 => Self::Float(None),
            DataType::Decimal128(_, scale) => Self::Decimal { scale: scale.unsigned_abs().into(), range: None },
            DataType::Date32 => Self::Date(None),
            DataType::Timestamp(_, zone) => Self::Timestamp { is_utc: zone.is_some(), range: None },
            DataType::Utf8 => Self::Text(None),
            _ => Self::None,
        }
    }

    /// Takes in the values of `array` at the rows that `valid` names.
    pub fn add(&mut self, array: &ArrayRef, valid: Option<NullBuffer>) {
        match self {
            Self::None => {}
            Self::Integer(range) => {
                let found = match array.data_type() {
                    DataType::Int8 => widened::<Int8Type, _>(array, valid),
                    DataType::Int16 => widened::<Int16Type, _>(array, valid),
                    DataType::Int32 => widened::<Int32Type, _>(array, valid),
                    _ => widened::<Int64Type, _>(array, valid),
                };
                extend(range, found);
            }
            Self::Decimal { range, .. } => extend(range, widened::<Decimal128Type, _>(array, valid)),
            Self::Date(range) => extend(range, widened::<Date32Type, _>(array, valid)),
            Self::Timestamp { range, .. } => extend(range, widened::<TimestampMicrosecondType, _>(array, valid)),
            Self::Float(range) => {
                let found: Option<(f64, f64)> = match array.data_type() {
                    DataType::Float32 => widened::<Float32Type, _>(array, valid),
                    _ => widened::<Float64Type, _>(array, valid),
                };
                // In the kernels' order NaN is beyond the infinities, so one anywhere shows as an extreme.
                match found {
                    Some((least, most)) if least.is_nan() || most.is_nan() => *self = Self::None,
                    found => extend(range, found),
                }
            }
            Self::Text(range) => {
                if !add_texts(range, array.as_string::<i32>(), valid.as_ref()) {
                    *self = Self::None;
                }
            }
        }
    }

    /// Writes the lower bound as JSON; false when there is none.
    pub fn write_min(&self, out: &mut String) -> bool {
        let text = match self {
            Self::None => None,
            Self::Integer(range) => range.map(|(least, _)| least.to_string()),
            // -0.0 is below 0.0 in the order of some readers and equal to it in that of others.
            Self::Float(range) => range.and_then(|(least, _)| float_text(if least == 0.0 { -0.0 } else { least })),
            Self::Decimal { scale, range } => range.map(|(least, _)| decimal_text(least, *scale)),
            Self::Date(range) => range.and_then(|(least, _)| date_text(least)),
            Self::Timestamp { is_utc, range } => range.and_then(|(least, _)| timestamp_text(least.div_euclid(1_000), *is_utc)),
            Self::Text(range) => range.as_ref().map(|(least, _)| json_text(&least.text)),
        };
        write(text, out)
    }

    /// Writes the upper bound as JSON; false when there is none.
    pub fn write_max(&self, out: &mut String) -> bool {
        let text = match self {
            Self::None => None,
            Self::Integer(range) => range.map(|(_, most)| most.to_string()),
            Self::Float(range) => range.and_then(|(_, most)| float_text(if most == 0.0 { 0.0 } else { most })),
            Self::Decimal { scale, range } => range.map(|(_, most)| decimal_text(most, *scale)),
            Self::Date(range) => range.and_then(|(_, most)| date_text(most)),
            // The next millisecond: the protocol lets a writer cut here and asks readers to add one, which not all do.
            Self::Timestamp { is_utc, range } => range
                .and_then(|(_, most)| timestamp_text(most.div_euclid(1_000) + i64::from(most.rem_euclid(1_000) > 0), *is_utc)),
            Self::Text(range) => range.as_ref().and_then(|(_, most)| most.upper_bound()).map(|bound| json_text(&bound)),
        };
        write(text, out)
    }
}

fn write(text: Option<String>, out: &mut String) -> bool {
    if let Some(text) = &text {
        *out += text;
    }
    text.is_some()
}

/// Returns the extremes of an array among its valid rows, in a wider type.
fn widened<T, N>(array: &ArrayRef, valid: Option<NullBuffer>) -> Option<(N, N)>
where
    T: ArrowPrimitiveType,
    T::Native: Into<N>,
{
    let values = PrimitiveArray::<T>::try_new(array.as_primitive::<T>().values().clone(), valid).ok()?;
    Some((min(&values)?.into(), max(&values)?.into()))
}

fn extend<T: PartialOrd + Copy>(range: &mut Option<(T, T)>, found: Option<(T, T)>) {
    if let Some((least, most)) = found {
        *range = Some(match *range {
            None => (least, most),
            Some((old_least, old_most)) => {
                (if least < old_least { least } else { old_least }, if most > old_most { most } else { old_most })
            }
        });
    }
}

/// Takes in the texts; false when one is too long for a column with bounds.
fn add_texts(range: &mut Option<(Cut, Cut)>, array: &StringArray, valid: Option<&NullBuffer>) -> bool {
    for row in 0..array.len() {
        if valid.is_some_and(|valid| valid.is_null(row)) {
            continue;
        }
        let value = array.value(row);
        if value.len() > LARGE_VALUE_BYTES {
            return false;
        }
        let Some((least, most)) = range else {
            let cut = Cut::new(value);
            *range = Some((cut.clone(), cut));
            continue;
        };
        let head = head(value.as_bytes());
        if head > least.head && head < most.head {
            continue;
        }
        if value < least.text.as_str() {
            *least = Cut::new(value);
        }
        if value > most.text.as_str() && !(most.is_cut && value.starts_with(&most.text)) {
            *most = Cut::new(value);
        }
    }
    true
}

fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}

impl Cut {
    fn new(value: &str) -> Self {
        let end = value.char_indices().nth(TEXT_CHARACTERS).map_or(value.len(), |(end, _)| end);
        let text = value[..end].to_owned();
        Self { head: head(text.as_bytes()), is_cut: end < value.len(), text }
    }

    /// Returns the shortest text above every text that begins with this one, or the text itself when none goes on. Readers compare by
    /// UTF-8 bytes, which is the order of scalar values, so that the last character that has a next one is raised.
    fn upper_bound(&self) -> Option<String> {
        if !self.is_cut {
            return Some(self.text.clone());
        }
        let mut bound = self.text.clone();
        while let Some(last) = bound.pop() {
            let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
            if let Some(next) = next {
                bound.push(next);
                return Some(bound);
            }
        }
        None
    }
}

/// JSON has no infinities: such a bound is left out. A 32-bit float is written with the digits of its value as a double, so that a
/// reader that parses it as either gets a bound.
fn float_text(value: f64) -> Option<String> {
    value.is_finite().then(|| format!("{value:?}"))
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn decimal_text(value: i128, scale: u32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs().to_string();
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let scale = scale as usize;
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Outside the years 0001 to 9999 readers disagree about the text.
fn date_text(days: i32) -> Option<String> {
    let date = DateTime::from_timestamp(i64::from(days) * 86_400, 0)?;
    (1..=9999).contains(&date.year()).then(|| format!("\"{:04}-{:02}-{:02}\"", date.year(), date.month(), date.day()))
}

fn timestamp_text(milliseconds: i64, is_utc: bool) -> Option<String> {
    let time = DateTime::from_timestamp_millis(milliseconds)?;
    (1..=9999).contains(&time.year()).then(|| {
        format!(
            "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}{}\"",
            time.year(),
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.timestamp_subsec_millis(),
            if is_utc { "Z" } else { "" }
        )
    })
}
