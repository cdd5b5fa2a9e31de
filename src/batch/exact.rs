//! The exact path: what a record means, value by value. Reads validated text, keeps every digit until it is known where it goes, and
//! counts whatever it changes.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};

use super::column::{Absence, Column, Values};
use super::fields::{DELETED_AT, Fields, Key};
use super::json::{self, Json, Replaced, classify};
use super::moment::{self, DAY_MICROS, Moment};
use super::number::{Misfit, Number};
use super::tally::{Coercion, Tally, excerpt};
use super::{OnBadValue, Options};
use crate::schema::{BinaryEncoding, MetadataColumn, Missing, NaiveTimestamps, ValueKind};
use crate::{Error, InputLine};

/// Why a record is not taken.
#[derive(Debug)]
pub(super) enum Stop {
    MissingKey(String),
    Bad(Error),
}

/// The conversion of one record. Its counts go into the tally only when the record is taken.
pub(super) struct Exact<'o> {
    options: &'o Options,
    counted: Vec<Counted>,
    /// What the layout lacks, with the paths below the value that is being read. A bad value ends the search: its record shall leave
    /// no columns.
    missing: Vec<Missing>,
    /// Open values that have a place of their own when they do not fit: then nothing inside them becomes null instead.
    overflows: usize,
    is_fatal: bool,
}

/// How far the lists of an [`Exact`] were filled.
#[derive(Clone, Copy)]
struct Place {
    counted: usize,
    missing: usize,
}

struct Counted {
    path: String,
    coercion: Coercion,
    example: String,
}

/// What became of a value.
enum Put {
    /// It was pushed; the column is to be closed.
    Done,
    /// It was pushed and must be counted.
    Counted(Coercion),
    /// Null stands for it, counted.
    Null(Coercion),
    /// It does not fit: what was expected, and what to do.
    Bad(String, Option<String>),
}

impl<'o> Exact<'o> {
    pub fn new(options: &'o Options) -> Self {
        Self { options, counted: Vec::new(), missing: Vec::new(), overflows: 0, is_fatal: false }
    }

    /// Tells, after a stop, whether null may not stand for the value: a key, a partition column, a column that is NOT NULL.
    pub fn is_fatal(&self) -> bool {
        self.is_fatal
    }

    /// Adds the counts of a record that was taken.
    pub fn into_tally(self, tally: &mut Tally, line: InputLine) {
        for counted in self.counted {
            tally.add(counted.path, counted.coercion, counted.example, line);
        }
    }

    /// Returns what the layout lacks for the record that was read; with it the row does not count.
    pub fn take_missing(&mut self) -> Vec<Missing> {
        std::mem::take(&mut self.missing)
    }

    /// Pushes the record as row `row`; columns of metadata stay open.
    pub fn record(&mut self, object: &[u8], fields: &mut Fields, row: usize) -> Result<(), Stop> {
        self.object(object, fields, row, true)
    }

    fn object(&mut self, object: &[u8], fields: &mut Fields, row: usize, is_top: bool) -> Result<(), Stop> {
        let Fields { columns, names, keys, .. } = fields;
        // Of a key that is repeated the last value counts.
        let mut values: Vec<Option<&[u8]>> = vec![None; keys.sources.len()];
        let mut unknown: Vec<(String, &[u8])> = Vec::new();
        for (key, value) in json::members(object) {
            let (key, _) = json::unescape(key);
            match keys.by_key.get(&*key).and_then(|source| values.get_mut(*source)) {
                Some(slot) => *slot = Some(value),
                None => match unknown.iter_mut().find(|(known, _)| **known == *key) {
                    Some((_, slot)) => *slot = value,
                    None => unknown.push((key.into_owned(), value)),
                },
            }
        }
        for (source, value) in keys.sources.iter().zip(&values) {
            if source.is_key && value.is_none() {
                return Err(Stop::MissingKey(source.key.clone()));
            }
        }
        for (key, value) in unknown {
            if let Some(kind) = kind_of(value) {
                let is_deletion = is_top && key == DELETED_AT;
                self.missing.push(match is_deletion {
                    true => Missing::Metadata(MetadataColumn::DeletedAt),
                    false => Missing::Key { path: vec![key], kind },
                });
            }
        }
        for (source, value) in keys.sources.iter().zip(values) {
            let Some(value) = value else { continue };
            let begin = self.place();
            self.member(source, value, columns, row).map_err(|stop| stop.under(&source.key))?;
            self.name_since(begin, &source.key);
        }
        for (column, name) in columns.iter_mut().zip(names) {
            if column.len() == row && column.absence != Absence::Metadata {
                self.push_null(column).map_err(|stop| stop.under(name))?;
            }
        }
        Ok(())
    }

    /// Pushes the value of one key.
    fn member(&mut self, source: &Key, value: &[u8], columns: &mut [Column], row: usize) -> Result<(), Stop> {
        let Some(column) = source.column.and_then(|index| columns.get_mut(index)) else {
            if classify(value) != Json::Null {
                self.count(Coercion::Discarded, value);
            }
            return Ok(());
        };
        // Two keys never feed one column; were they to, the later one would count.
        column.truncate(row);
        let begin = self.place();
        self.overflows += usize::from(source.overflow.is_some());
        let put = self.value(value, column);
        self.overflows -= usize::from(source.overflow.is_some());
        let error = match put {
            Err(Stop::Bad(error)) => error,
            done => return done,
        };
        column.truncate(row);
        self.go_back(begin);
        match source.overflow {
            Some(None) => {
                self.missing.push(Missing::Overflow { path: Vec::new() });
                column.push_null();
                return Ok(());
            }
            Some(Some(beside)) => {
                self.push_null(column)?;
                if let Some(beside) = columns.get_mut(beside) {
                    beside.truncate(row);
                    self.value(value, beside)?;
                    self.count(Coercion::OtherColumn, value);
                }
                return Ok(());
            }
            None => {}
        }
        if source.is_fatal || !self.may_set_null(column) {
            self.is_fatal |= source.is_fatal || !column.is_nullable();
            return Err(Stop::Bad(error));
        }
        column.push_null();
        self.count(Coercion::SetNull, value);
        Ok(())
    }

    fn may_set_null(&self, column: &Column) -> bool {
        self.options.on_bad_value == OnBadValue::SetNull && column.is_nullable() && self.overflows == 0
    }

    fn push_null(&mut self, column: &mut Column) -> Result<(), Stop> {
        if column.is_nullable() {
            column.push_null();
            return Ok(());
        }
        self.is_fatal = true;
        Err(Stop::Bad(Error::input("is null, and the table's column is NOT NULL")))
    }

    /// Pushes any value to a column.
    fn value(&mut self, raw: &[u8], column: &mut Column) -> Result<(), Stop> {
        let json = classify(raw);
        if json == Json::Null {
            return self.push_null(column);
        }
        let row = column.len();
        match self.put(raw, json, row, &mut column.values)? {
            Put::Done => column.close(),
            Put::Counted(coercion) => {
                self.count(coercion, raw);
                column.close();
            }
            Put::Null(coercion) => {
                column.truncate(row);
                self.push_null(column)?;
                self.count(coercion, raw);
            }
            Put::Bad(expected, hint) => {
                let error = Error::input(format!("is {}, which is not {expected}", excerpt(raw)));
                return Err(Stop::Bad(match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                }));
            }
        }
        Ok(())
    }

    fn put(&mut self, raw: &[u8], json: Json, row: usize, values: &mut Values) -> Result<Put, Stop> {
        Ok(match values {
            Values::Boolean(bits) => match boolean(json) {
                Some(value) => {
                    bits.push(value);
                    Put::Done
                }
                None => Put::bad("a boolean"),
            },
            Values::Byte(values) => integer(json, "a byte", values),
            Values::Short(values) => integer(json, "a short", values),
            Values::Integer(values) => integer(json, "an integer", values),
            Values::Long(values) => integer(json, "a long", values),
            Values::Float(values) => match found(json) {
                Found::Number(number) => match number.to_float() {
                    (value, true) => {
                        values.push(value);
                        Put::Done
                    }
                    _ => Put::bad("a float of the same digits"),
                },
                Found::NotANumber(value) if self.options.keep_nan => {
                    values.push(value as f32);
                    Put::Done
                }
                other => other.without_number("a float"),
            },
            Values::Double(values) => match found(json) {
                Found::Number(number) => match number.to_double() {
                    (value, _) if !value.is_finite() => Put::bad("a double"),
                    (value, is_exact) => {
                        values.push(value);
                        if is_exact { Put::Done } else { Put::Counted(Coercion::RoundedToDouble) }
                    }
                },
                Found::NotANumber(value) if self.options.keep_nan => {
                    values.push(value);
                    Put::Done
                }
                other => other.without_number("a double"),
            },
            Values::Decimal { precision, scale, values } => match found(json) {
                Found::Number(number) => match number.to_decimal(*precision, *scale) {
                    // Digits that have a place of their own are not rounded away.
                    Ok((_, true)) if self.overflows > 0 => Put::bad(format!("a decimal({precision},{scale})")),
                    Ok((value, is_rounded)) => {
                        values.push(value);
                        if is_rounded { Put::Counted(Coercion::RoundedToScale) } else { Put::Done }
                    }
                    Err(_) => Put::bad(format!("a decimal({precision},{scale})")),
                },
                Found::Empty => Put::Null(Coercion::EmptyText),
                _ => Put::bad(format!("a decimal({precision},{scale})")),
            },
            Values::Text { max_characters, text } => {
                let begin = text.bytes.len();
                let replaced = match json {
                    Json::String(inner) => json::unescape_into(inner, &mut text.bytes),
                    Json::NotANumber(_) => {
                        text.bytes.extend_from_slice(raw);
                        Replaced::default()
                    }
                    _ => json::compact_into(raw, &mut text.bytes),
                };
                if let Some(limit) = max_characters
                    && characters(text.bytes.get(begin..).unwrap_or_default()) > *limit as usize
                {
                    return Ok(Put::bad(format!("a string of at most {limit} characters")));
                }
                text.end_value();
                self.count_replaced(replaced, raw);
                Put::Done
            }
            Values::JsonText(text) => {
                if let Json::NotANumber(_) = json {
                    return Ok(Put::Null(Coercion::NotANumber));
                }
                let replaced = json::compact_into(raw, &mut text.bytes);
                text.end_value();
                self.count_replaced(replaced, raw);
                Put::Done
            }
            Values::Binary { encoding, must_be_text, bytes } => {
                let Json::String(inner) = json else { return Ok(Put::bad("text of bytes")) };
                let (text, replaced) = json::unescape(inner);
                match decode(*encoding, text.as_bytes()) {
                    Some(decoded) if *must_be_text && std::str::from_utf8(&decoded).is_err() => {
                        Put::bad("UTF-8 text once it is decoded, as the value of a partition column has to be")
                    }
                    Some(decoded) => {
                        bytes.push(&decoded);
                        self.count_replaced(replaced, raw);
                        Put::Done
                    }
                    None if *encoding == BinaryEncoding::Hex => Put::bad("hexadecimal text"),
                    None => Put::bad("base 64 text"),
                }
            }
            Values::Date(values) => match moment(json) {
                Some(Moment::Date { days } | Moment::Wall { days, .. } | Moment::Instant { days, .. }) => {
                    values.push(days);
                    Put::Done
                }
                Some(Moment::Impossible) => Put::Null(Coercion::ImpossibleDate),
                Some(Moment::Other) => Put::bad("a date"),
                None if json == Json::String(b"") => Put::Null(Coercion::EmptyText),
                None => Put::bad("a date"),
            },
            Values::Timestamp(values) => {
                let wall_is_utc = self.options.naive_timestamps == NaiveTimestamps::Utc;
                timestamp(json, wall_is_utc, "a timestamp", values)
            }
            Values::TimestampNtz(values) => timestamp(json, true, "a timestamp_ntz", values),
            Values::Struct(fields) => match json {
                Json::Object(object) => {
                    self.object(object, fields, row, false)?;
                    Put::Done
                }
                _ if is_empty(json) => Put::Null(Coercion::EmptyObject),
                _ => Put::bad("an object"),
            },
            Values::List { offsets, element } => match json {
                Json::Array(array) => {
                    let first = self.place();
                    for (index, raw) in json::elements(array).enumerate() {
                        let begin = self.place();
                        self.element(raw, element).map_err(|stop| stop.under(&format!("[{index}]")))?;
                        self.name_item(first, begin);
                    }
                    offsets.push(element.len() as i32);
                    Put::Done
                }
                _ => Put::bad("an array"),
            },
            Values::Map { offsets, keys, value } => match json {
                Json::Object(object) => {
                    // A repeated key keeps its place and takes the last value.
                    let mut pairs: Vec<(std::borrow::Cow<str>, Replaced, &[u8])> = Vec::new();
                    let mut places = std::collections::HashMap::new();
                    for (key, raw) in json::members(object) {
                        let (key, replaced) = json::unescape(key);
                        match places.get(&key).and_then(|place: &usize| pairs.get_mut(*place)) {
                            Some(pair) => pair.2 = raw,
                            None => {
                                places.insert(key.clone(), pairs.len());
                                pairs.push((key, replaced, raw));
                            }
                        }
                    }
                    let first = self.place();
                    for (key, replaced, raw) in pairs {
                        let begin = self.place();
                        keys.push(key.as_bytes());
                        self.count_replaced(replaced, key.as_bytes());
                        self.element(raw, value).map_err(|stop| stop.under(&format!("[{key:?}]")))?;
                        self.name_item(first, begin);
                    }
                    offsets.push(value.len() as i32);
                    Put::Done
                }
                _ if is_empty(json) => Put::Null(Coercion::EmptyObject),
                _ => Put::bad("an object"),
            },
        })
    }

    /// Pushes an element of a list, or a value of a map.
    fn element(&mut self, raw: &[u8], column: &mut Column) -> Result<(), Stop> {
        let row = column.len();
        let begin = self.place();
        match self.value(raw, column) {
            Err(Stop::Bad(_)) if self.may_set_null(column) => {
                column.truncate(row);
                self.go_back(begin);
                column.push_null();
                self.count(Coercion::SetNull, raw);
                Ok(())
            }
            done => done,
        }
    }

    fn count(&mut self, coercion: Coercion, raw: &[u8]) {
        self.counted.push(Counted { path: String::new(), coercion, example: excerpt(raw) });
    }

    fn count_replaced(&mut self, replaced: Replaced, raw: &[u8]) {
        if replaced.is_utf8 {
            self.count(Coercion::InvalidUtf8, raw);
        }
        if replaced.is_surrogate {
            self.count(Coercion::LoneSurrogate, raw);
        }
        if replaced.is_not_a_number {
            self.count(Coercion::NotANumber, raw);
        }
    }

    fn place(&self) -> Place {
        Place { counted: self.counted.len(), missing: self.missing.len() }
    }

    /// Forgets what was found since `begin`.
    fn go_back(&mut self, begin: Place) {
        self.counted.truncate(begin.counted);
        self.missing.truncate(begin.missing);
    }

    /// Names what was found since `begin` after an element; what the elements since `first` lack is named once.
    fn name_item(&mut self, first: Place, begin: Place) {
        self.name_since(begin, "[]");
        for missing in self.missing.split_off(begin.missing) {
            if !self.missing.iter().skip(first.missing).any(|known| is_same_place(known, &missing)) {
                self.missing.push(missing);
            }
        }
    }

    /// Puts `name` before the paths of what was found since `begin`.
    fn name_since(&mut self, begin: Place, name: &str) {
        for missing in self.missing.iter_mut().skip(begin.missing) {
            match missing {
                Missing::Key { path, .. } | Missing::Overflow { path } => path.insert(0, name.to_owned()),
                Missing::Metadata(_) => {}
            }
        }
        for counted in self.counted.iter_mut().skip(begin.counted) {
            counted.path = match &counted.path {
                path if path.is_empty() => name.to_owned(),
                path if path.starts_with('[') => format!("{name}{path}"),
                path => format!("{name}.{path}"),
            };
        }
    }
}

impl Stop {
    /// Puts a key, or the index of an element, before the path.
    fn under(self, key: &str) -> Self {
        match self {
            Self::Bad(error) => Self::Bad(error.in_field(key)),
            Self::MissingKey(_) => self,
        }
    }
}

impl Put {
    fn bad(expected: impl Into<String>) -> Self {
        Self::Bad(expected.into(), None)
    }
}

/// Whether both ask for the same column, whatever the kind of the values that did.
fn is_same_place(one: &Missing, other: &Missing) -> bool {
    match (one, other) {
        (Missing::Key { path: one, .. }, Missing::Key { path: other, .. }) => one == other,
        (one, other) => one == other,
    }
}

/// What a value is where a number is expected.
enum Found {
    Number(Number),
    NotANumber(f64),
    Empty,
    Other,
}

impl Found {
    fn without_number(self, expected: &str) -> Put {
        match self {
            Self::NotANumber(_) => Put::Null(Coercion::NotANumber),
            Self::Empty => Put::Null(Coercion::EmptyText),
            Self::Number(_) | Self::Other => Put::bad(expected),
        }
    }
}

fn found(json: Json) -> Found {
    match json {
        Json::Number(raw) => Number::parse(raw).map_or(Found::Other, Found::Number),
        Json::NotANumber(value) => Found::NotANumber(value),
        Json::String(inner) => {
            let (text, _) = json::unescape(inner);
            match text.trim() {
                _ if text.is_empty() => Found::Empty,
                "NaN" => Found::NotANumber(f64::NAN),
                "Infinity" => Found::NotANumber(f64::INFINITY),
                "-Infinity" => Found::NotANumber(f64::NEG_INFINITY),
                text => Number::parse(text.as_bytes()).map_or(Found::Other, Found::Number),
            }
        }
        _ => Found::Other,
    }
}

fn integer<T: TryFrom<i64>>(json: Json, expected: &str, values: &mut Vec<T>) -> Put {
    match found(json) {
        Found::Number(number) => match number.to_integer().and_then(|value| T::try_from(value).map_err(|_| Misfit::Range)) {
            Ok(value) => {
                values.push(value);
                Put::Done
            }
            Err(Misfit::Range) if expected == "a long" => Put::Bad(
                expected.to_owned(),
                Some("declare the field in `columns` as `decimal(38,0)`, or set `on_bad_value = \"set_null\"`".to_owned()),
            ),
            Err(_) => Put::bad(expected),
        },
        Found::Empty => Put::Null(Coercion::EmptyText),
        _ => Put::bad(expected),
    }
}

fn boolean(json: Json) -> Option<bool> {
    match json {
        Json::Boolean(value) => Some(value),
        Json::Number(raw) => match Number::parse(raw)?.to_integer() {
            Ok(0) => Some(false),
            Ok(1) => Some(true),
            _ => None,
        },
        Json::String(inner) => match json::unescape(inner).0.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Some(true),
            "false" | "f" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns what a text says about time; `None` for what is no text, or none at all.
fn moment(json: Json) -> Option<Moment> {
    match json {
        Json::String(b"") => None,
        Json::String(inner) => Some(moment::read(&json::unescape(inner).0)),
        _ => None,
    }
}

fn timestamp(json: Json, wall_is_utc: bool, expected: &str, values: &mut Vec<i64>) -> Put {
    let micros = match (moment(json), json) {
        (Some(Moment::Date { days }), _) => i64::from(days) * DAY_MICROS,
        (Some(Moment::Instant { micros, .. }), _) => micros,
        (Some(Moment::Wall { micros, .. }), _) if wall_is_utc => micros,
        (Some(Moment::Wall { .. }), _) => {
            return Put::Bad(
                format!("{expected}: it has no offset"),
                Some("set `naive_timestamps = \"utc\"` to take it as UTC".to_owned()),
            );
        }
        (Some(Moment::Impossible), _) => return Put::Null(Coercion::ImpossibleDate),
        (None, Json::String(b"")) => return Put::Null(Coercion::EmptyText),
        (None, Json::Number(raw)) => {
            return match Number::parse(raw).and_then(|number| epoch_micros(&number)) {
                Some(micros) if moment::is_possible(micros) => {
                    values.push(micros);
                    Put::Counted(Coercion::EpochNumber)
                }
                _ => Put::Null(Coercion::ImpossibleDate),
            };
        }
        _ => return Put::bad(expected),
    };
    values.push(micros);
    Put::Done
}

/// Returns an epoch number in microseconds, rounded down; its unit goes by its size. `None`: beyond all years.
fn epoch_micros(number: &Number) -> Option<i64> {
    // Digits before the point tell the size: below 1e11 seconds, 1e14 milliseconds, 1e17 microseconds, else nanoseconds.
    let whole_digits = number.exponent.saturating_add(number.digits.len() as i64);
    let shift = match whole_digits {
        ..=11 => 6,
        12..=14 => 3,
        15..=17 => 0,
        _ => -3,
    };
    let exponent = number.exponent.saturating_add(shift);
    if exponent >= 0 {
        return number.scaled(exponent, 38).and_then(|micros| i64::try_from(micros).ok());
    }
    let dropped = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    let (whole, rest) = number.digits.split_at(number.digits.len().saturating_sub(dropped));
    if whole.len() > 18 {
        return None;
    }
    let micros = whole.iter().fold(0i64, |value, digit| value * 10 + i64::from(*digit));
    Some(if number.is_negative { -micros - i64::from(!rest.is_empty()) } else { micros })
}

fn is_empty(json: Json) -> bool {
    match json {
        Json::String(inner) => inner.is_empty(),
        Json::Array(array) => json::elements(array).next().is_none(),
        _ => false,
    }
}

/// Returns the kind of a value that has no column, `None` for null.
fn kind_of(raw: &[u8]) -> Option<ValueKind> {
    match classify(raw) {
        Json::Null => None,
        Json::Boolean(_) => Some(ValueKind::Boolean),
        Json::Number(raw) => {
            let is_long = !raw.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
                && Number::parse(raw).is_some_and(|number| number.to_integer().is_ok());
            Some(if is_long { ValueKind::Integer } else { ValueKind::Number })
        }
        Json::NotANumber(_) => Some(ValueKind::Number),
        Json::String(_) => Some(ValueKind::String),
        Json::Object(_) | Json::Array(_) => Some(ValueKind::Nested),
    }
}

/// The characters of UTF-8 text.
pub(super) fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Returns the bytes that a text stands for.
pub(super) fn decode(encoding: BinaryEncoding, text: &[u8]) -> Option<Vec<u8>> {
    match encoding {
        BinaryEncoding::Utf8 => Some(text.to_vec()),
        BinaryEncoding::Base64 if text.iter().any(|byte| matches!(byte, b'-' | b'_')) => URL_SAFE.decode(text).ok(),
        BinaryEncoding::Base64 => STANDARD.decode(text).ok(),
        BinaryEncoding::Hex => {
            let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
            if !text.len().is_multiple_of(2) {
                return None;
            }
            text.chunks_exact(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.last()?)?)).collect()
        }
    }
}
