//! Texts of single values.

use std::io::Write;

const HEX: &[u8; 16] = b"0123456789abcdef";
const DAY_SECONDS: i64 = 86_400;

/// Writes to memory, which does not fail.
macro_rules! put {
    ($out:expr, $($arguments:tt)*) => {
        let _ = write!($out, $($arguments)*);
    };
}
pub(super) use put;

/// Writes a JSON string.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..index]);
        start = index + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Writes a double by the fewest digits that give it back.
pub(super) fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        put!(out, "{value:?}");
    } else if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else {
        out.extend_from_slice(if value > 0.0 { b"Infinity" as &[u8] } else { b"-Infinity" });
    }
}

/// The units that times are counted in, by their digits after the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    digits: usize,
    per_second: i64,
}

impl Unit {
    pub const SECOND: Self = Self { digits: 0, per_second: 1 };
    pub const MILLISECOND: Self = Self { digits: 3, per_second: 1_000 };
    pub const MICROSECOND: Self = Self { digits: 6, per_second: 1_000_000 };
    pub const NANOSECOND: Self = Self { digits: 9, per_second: 1_000_000_000 };
}

impl From<&arrow::datatypes::TimeUnit> for Unit {
    fn from(unit: &arrow::datatypes::TimeUnit) -> Self {
        use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        match unit {
            Second => Self::SECOND,
            Millisecond => Self::MILLISECOND,
            Microsecond => Self::MICROSECOND,
            Nanosecond => Self::NANOSECOND,
        }
    }
}

/// Writes a date-time of RFC 3339, with the quotes; years beyond four digits keep their sign, as ISO 8601 has it.
pub(super) fn write_timestamp(value: i64, unit: Unit, is_instant: bool, out: &mut Vec<u8>) {
    let seconds = value.div_euclid(unit.per_second);
    out.push(b'"');
    write_day(seconds.div_euclid(DAY_SECONDS), out);
    out.push(b'T');
    write_clock(seconds.rem_euclid(DAY_SECONDS), out);
    write_fraction(value.rem_euclid(unit.per_second), unit, out);
    if is_instant {
        out.push(b'Z');
    }
    out.push(b'"');
}

/// Writes a date, with the quotes.
pub(super) fn write_date(days: i64, out: &mut Vec<u8>) {
    out.push(b'"');
    write_day(days, out);
    out.push(b'"');
}

/// Writes a time of day, with the quotes.
pub(super) fn write_time(value: i64, unit: Unit, out: &mut Vec<u8>) {
    out.push(b'"');
    write_clock(value.div_euclid(unit.per_second), out);
    write_fraction(value.rem_euclid(unit.per_second), unit, out);
    out.push(b'"');
}

/// Writes an ISO 8601 duration in seconds, with the quotes.
pub(super) fn write_duration(value: i64, unit: Unit, out: &mut Vec<u8>) {
    out.push(b'"');
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(b"PT");
    write_seconds(value.unsigned_abs(), unit, out);
    out.extend_from_slice(b"S\"");
}

/// Writes an ISO 8601 duration of months, days and a rest, with the quotes; each part has its own sign.
pub(super) fn write_interval(months: i64, days: i64, rest: i64, unit: Unit, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"P");
    if months != 0 {
        put!(out, "{months}M");
    }
    if days != 0 {
        put!(out, "{days}D");
    }
    if rest != 0 || (months == 0 && days == 0) {
        out.push(b'T');
        if rest < 0 {
            out.push(b'-');
        }
        write_seconds(rest.unsigned_abs(), unit, out);
        out.push(b'S');
    }
    out.push(b'"');
}

fn write_seconds(value: u64, unit: Unit, out: &mut Vec<u8>) {
    let per_second = unit.per_second.unsigned_abs();
    put!(out, "{}", value / per_second);
    write_fraction((value % per_second).cast_signed(), unit, out);
}

fn write_fraction(fraction: i64, unit: Unit, out: &mut Vec<u8>) {
    if fraction != 0 {
        put!(out, ".{fraction:0digits$}", digits = unit.digits);
    }
}

fn write_clock(seconds: i64, out: &mut Vec<u8>) {
    write_two(seconds / 3_600, out);
    out.push(b':');
    write_two(seconds / 60 % 60, out);
    out.push(b':');
    write_two(seconds % 60, out);
}

fn write_two(number: i64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(number @ 0..=99) => out.extend_from_slice(&[b'0' + number / 10, b'0' + number % 10]),
        _ => {
            put!(out, "{number}");
        }
    }
}

/// Writes the date of a day since 1970 in the proleptic Gregorian calendar, for any number of days: by eras of 400 years that begin
/// on the first of March.
/// Source: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
fn write_day(days: i64, out: &mut Vec<u8>) {
    let shifted = i128::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097) as i64;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = i128::from(year_of_era) + era * 400 + i128::from(month <= 2);
    match year {
        0..=9_999 => {
            put!(out, "{year:04}");
        }
        10_000.. => {
            put!(out, "+{year}");
        }
        _ => {
            put!(out, "-{:04}", -year);
        }
    }
    out.push(b'-');
    write_two(month, out);
    out.push(b'-');
    write_two(day, out);
}
