//! Batches split by their partition columns, the text that Delta keeps of a partition value, and directory names.
//!
//! The text follows "Partition Value Serialization" of the Delta protocol; the directory follows Hive, as Spark writes it. The
//! directory is for people: readers take the values from the log.
//! Source: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization>

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use chrono::{DateTime, Datelike, Timelike};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The directory of null, for every Hive reader; never the text of a value.
const NULL_DIRECTORY: &str = "__HIVE_DEFAULT_PARTITION__";

/// Bytes of one directory name: file systems allow 255, and Spark's checksum files put a dot and `.crc` around names.
const DIRECTORY_BYTES: usize = 240;

/// The rows of a batch that share their partition values.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Name and value of each partition column; `None` is null.
    pub values: Vec<(String, Option<String>)>,
    /// Which rows of the whole batch these are, ascending; `None`: all of them.
    pub rows: Option<Vec<u32>>,
    /// These rows, without the partition columns.
    pub batch: RecordBatch,
    /// How often an empty text (or binary) of a partition column became null: the log cannot tell the two apart, so the caller warns.
    pub empty_texts: u64,
}

/// Splits a batch by its partition columns, partitions in order of first appearance. Without partition columns, or when all rows share
/// their values, nothing is copied.
///
/// # Errors
/// `Input` field error for a value without a partition text (binary that is not UTF-8); `Schema` for a column of a nested type;
/// `Internal` for a column that the batch does not have.
pub fn split_partitions(batch: &RecordBatch, partition_columns: &[String]) -> Result<Vec<Partition>> {
    if batch.num_rows() == 0 {
        return Ok(Vec::new());
    }
    if partition_columns.is_empty() {
        return Ok(vec![Partition { values: Vec::new(), rows: None, batch: batch.clone(), empty_texts: 0 }]);
    }
    let mut columns = Vec::with_capacity(partition_columns.len());
    for name in partition_columns {
        let column = batch.column_by_name(name);
        columns.push(column.ok_or_else(|| Error::internal("is a partition column that the batch lacks").in_field(name))?.clone());
    }
    for (name, column) in partition_columns.iter().zip(&columns) {
        if column.data_type().is_nested() {
            let message = format!("is a partition column of type {}, and only plain values can be", column.data_type());
            return Err(Error::schema(message).in_field(name));
        }
    }
    let groups = group(partition_columns, &columns)?;

    let rest: Vec<usize> =
        (0..batch.num_columns()).filter(|&index| !partition_columns.contains(batch.schema_ref().field(index).name())).collect();
    let rest = batch.project(&rest).map_err(|error| Error::internal("partition columns cannot be taken off").source(error))?;
    let is_one = groups.len() == 1;
    let mut partitions = Vec::with_capacity(groups.len());
    for Group { values, rows, empty_texts } in groups {
        let values = partition_columns.iter().cloned().zip(values).collect();
        let (rows, batch) = if is_one { (None, rest.clone()) } else { (Some(rows.clone()), take(&rest, rows)?) };
        partitions.push(Partition { values, rows, batch, empty_texts });
    }
    Ok(partitions)
}

fn take(batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
    let (first, last) = (rows.first().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
    if (last - first) as usize + 1 == rows.len() {
        return Ok(batch.slice(first as usize, rows.len()));
    }
    take_record_batch(batch, &UInt32Array::from(rows)).map_err(|error| Error::internal("rows cannot be taken").source(error))
}

struct Group {
    values: Vec<Option<String>>,
    rows: Vec<u32>,
    empty_texts: u64,
}

/// Puts rows of the same texts together. The texts are made once per distinct value, and looked up once per run of equal rows.
fn group(names: &[String], columns: &[ArrayRef]) -> Result<Vec<Group>> {
    let failed = |error| Error::internal("partition values cannot be compared").source(error);
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields).and_then(|converter| converter.convert_columns(columns)).map_err(failed)?;

    let mut groups: Vec<Group> = Vec::new();
    let mut by_texts: HashMap<Vec<Option<String>>, usize> = HashMap::new();
    let mut by_value: HashMap<&[u8], (usize, u64)> = HashMap::new();
    let mut previous: Option<(&[u8], (usize, u64))> = None;
    for row in 0..rows.num_rows() {
        let value = rows.row(row).data();
        let found = match previous {
            Some((same, found)) if same == value => found,
            _ => match by_value.get(value) {
                Some(found) => *found,
                None => {
                    let mut texts = Vec::with_capacity(columns.len());
                    let mut empty_texts = 0;
                    for (name, column) in names.iter().zip(columns) {
                        let text = value_text(column, row).map_err(|error| error.in_field(name))?;
                        empty_texts += u64::from(text.as_deref() == Some(""));
                        texts.push(text.filter(|text| !text.is_empty()));
                    }
                    let index = *by_texts.entry(texts).or_insert_with_key(|texts| {
                        groups.push(Group { values: texts.clone(), rows: Vec::new(), empty_texts: 0 });
                        groups.len() - 1
                    });
                    by_value.insert(value, (index, empty_texts));
                    (index, empty_texts)
                }
            },
        };
        previous = Some((value, found));
        groups[found.0].rows.push(row as u32);
        groups[found.0].empty_texts += found.1;
    }
    Ok(groups)
}

/// Returns Delta's text of a value, `None` for null.
fn value_text(column: &ArrayRef, row: usize) -> Result<Option<String>> {
    if column.is_null(row) {
        return Ok(None);
    }
    let text = match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => float_text(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float_text(column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => match std::str::from_utf8(column.as_binary::<i32>().value(row)) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Error::input("is binary that is not UTF-8, and a partition value is text")),
        },
        DataType::Date32 => date_text(column.as_primitive::<Date32Type>().value(row))?,
        DataType::Timestamp(_, zone) => {
            timestamp_text(column.as_primitive::<TimestampMicrosecondType>().value(row), zone.is_some())?
        }
        other => return Err(Error::schema(format!("is a partition column of type {other}, which has no partition text"))),
    };
    Ok(Some(text))
}

/// As Java and Rust both parse it.
fn float_text<T: Into<f64> + std::fmt::Debug + Copy>(value: T) -> String {
    match value.into() {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        double if double.is_nan() => "NaN".to_owned(),
        _ => format!("{value:?}"),
    }
}

fn date_text(days: i32) -> Result<String> {
    let date = DateTime::from_timestamp(i64::from(days) * 86_400, 0).ok_or_else(out_of_range)?;
    Ok(format!("{}-{:02}-{:02}", year_text(date.year()), date.month(), date.day()))
}

/// Four digits at least; a year beyond them gets its sign, as ISO 8601 and Java have it.
fn year_text(year: i32) -> String {
    match year {
        0..=9999 => format!("{year:04}"),
        10_000.. => format!("+{year}"),
        _ => format!("-{:04}", year.unsigned_abs()),
    }
}

/// A `timestamp` as Spark writes it, `2024-01-01T00:00:00.000000Z`; a `timestamp_ntz` in the protocol's other form, without the zone
/// and with no more digits than there are, as Spark too: `2024-01-01 00:00:00.5`.
fn timestamp_text(microseconds: i64, is_utc: bool) -> Result<String> {
    let time = DateTime::from_timestamp_micros(microseconds).ok_or_else(out_of_range)?;
    let (date, clock) = (date_text(days(microseconds)?)?, (time.hour(), time.minute(), time.second()));
    let (hour, minute, second) = clock;
    let fraction = time.timestamp_subsec_micros();
    if is_utc {
        return Ok(format!("{date}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z"));
    }
    let mut text = format!("{date} {hour:02}:{minute:02}:{second:02}");
    if fraction > 0 {
        text += format!(".{fraction:06}").trim_end_matches('0');
    }
    Ok(text)
}

fn days(microseconds: i64) -> Result<i32> {
    i32::try_from(microseconds.div_euclid(86_400_000_000)).map_err(|_| out_of_range())
}

fn out_of_range() -> Error {
    Error::input("is a date beyond the calendar, and has no partition text")
}

/// Returns the directory of a partition, `a=1/b=x%2Fy`, empty for a table without partitions. Lists that differ get names that differ.
pub fn directory(values: &[(String, Option<String>)]) -> String {
    let mut path = String::new();
    for (name, value) in values {
        if !path.is_empty() {
            path.push('/');
        }
        let start = path.len();
        escape(name, &mut path);
        path.push('=');
        match value.as_deref() {
            None | Some("") => path += NULL_DIRECTORY,
            // A reader that goes by directories would take the bare text for null.
            Some(NULL_DIRECTORY) => {
                path += "%5F";
                path += &NULL_DIRECTORY[1..];
            }
            Some(value) => escape(value, &mut path),
        }
        if path.len() - start > DIRECTORY_BYTES {
            shorten(&mut path, start);
        }
    }
    path
}

/// Appends a text as Hive escapes it: the characters of Spark's `ExternalCatalogUtils`, and NUL.
fn escape(text: &str, path: &mut String) {
    for character in text.chars() {
        let is_escaped = matches!(
            character,
            '\0'..='\u{1F}' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '\u{7F}' | '{' | '[' | ']' | '^'
        );
        if is_escaped {
            *path += &format!("%{:02X}", u32::from(character));
        } else {
            path.push(character);
        }
    }
}

/// Cuts the last directory name down to what file systems take, and keeps it apart from others by a hash. `%~` begins no escape, so
/// that no value yields such a name by itself.
fn shorten(path: &mut String, start: usize) {
    let digest = Sha256::digest(&path.as_bytes()[start..]);
    let mut end = start + DIRECTORY_BYTES - 2 - 32;
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    path.truncate(end);
    *path += "%~";
    for byte in digest.iter().take(16) {
        *path += &format!("{byte:02x}");
    }
}

#[cfg(test)]
mod tests;
