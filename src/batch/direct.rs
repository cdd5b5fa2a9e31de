//! The fast path: a typed parser that goes straight from the record's bytes into the columns, guessing the next key from the last record.
//!
//! Guarantee: what it takes is exactly what the exact path would take, counting nothing. Everything else is refused (`None`), never
//! decided: an unknown or repeated key, a value of another kind, more digits than a double gives back, a date out of the ordinary, text
//! that is not JSON. The caller then takes back what was pushed.

use super::Options;
use super::column::{Absence, Bytes, Column, Values};
use super::exact::{characters, decode};
use super::fields::{Fields, Keys};
use super::json::{self, find_special, hex4};
use super::moment::{DAY_MICROS, days_of, digits, is_possible};
use super::number::shortest;
use crate::schema::NaiveTimestamps;

/// The date that was read last: consecutive records mostly have the same.
#[derive(Debug, Default)]
pub(super) struct Dates {
    text: [u8; 10],
    days: i32,
}

/// Map entries above which the exact path looks for repeated keys.
const COMPARED_KEYS: usize = 32;

/// Pushes the record that `text` begins with as row `row`, columns of metadata left open. Returns its length. On `None` part of the row
/// may have been pushed.
pub(super) fn record(text: &[u8], fields: &mut Fields, row: usize, dates: &mut Dates, options: &Options) -> Option<usize> {
    let wall_is_utc = options.naive_timestamps == NaiveTimestamps::Utc;
    let mut direct = Direct { text, at: 0, dates, wall_is_utc };
    direct.object(fields, row)?;
    Some(direct.at)
}

struct Direct<'a, 'd> {
    text: &'a [u8],
    at: usize,
    dates: &'d mut Dates,
    wall_is_utc: bool,
}

impl<'a> Direct<'a, '_> {
    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Passes spaces. A line holds no other white space, unless it is unusual.
    #[inline]
    fn white(&mut self) {
        while self.byte() == Some(b' ') {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.byte()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    #[inline]
    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        if !self.text.get(self.at..)?.starts_with(literal) {
            return None;
        }
        self.at += literal.len();
        Some(())
    }

    /// Passes `,` (true) or `close` (false), and the white space around.
    #[inline]
    fn goes_on(&mut self, close: u8) -> Option<bool> {
        self.white();
        let byte = self.byte()?;
        self.at += 1;
        if byte == b',' {
            self.white();
            Some(true)
        } else if byte == close {
            Some(false)
        } else {
            None
        }
    }

    fn object(&mut self, fields: &mut Fields, row: usize) -> Option<()> {
        let Fields { columns, keys, .. } = fields;
        self.expect(b'{')?;
        self.white();
        let mut filled = 0;
        if self.byte()? == b'}' {
            self.at += 1;
        } else {
            let mut place = 0;
            loop {
                let source = self.key(keys, place)?;
                match source.and_then(|source| keys.sources.get(source)).and_then(|source| source.column) {
                    Some(index) => {
                        let column = columns.get_mut(index)?;
                        if column.len() != row {
                            return None;
                        }
                        self.value(column)?;
                        filled += 1;
                    }
                    // Null makes no column, and nothing is left out with it.
                    None => self.literal(b"null")?,
                }
                place = source.map_or(place, |source| source + 1);
                if !self.goes_on(b'}')? {
                    break;
                }
            }
        }
        if filled < columns.len() {
            for required in &keys.required {
                if columns.get(*required)?.len() == row {
                    return None;
                }
            }
            for column in columns.iter_mut().filter(|column| column.len() == row) {
                match column.absence {
                    Absence::Null => column.push_null(),
                    Absence::NotNull => return None,
                    Absence::Metadata => {}
                }
            }
        }
        Some(())
    }

    /// Passes a key and its colon. Returns the source, `None` within for a key that is not expected.
    #[inline]
    fn key(&mut self, keys: &mut Keys, place: usize) -> Option<Option<usize>> {
        let rest = self.text.get(self.at..)?;
        let mut guess = *keys.next.get(place)?;
        // A key that is left out now and then shall not cost a search.
        for _ in 0..3 {
            let Some(source) = keys.sources.get(guess) else { break };
            if rest.starts_with(&source.pattern) {
                self.at += source.pattern.len();
                self.white();
                return Some(Some(guess));
            }
            guess = *keys.next.get(guess + 1)?;
        }
        self.search_key(keys, place)
    }

    fn search_key(&mut self, keys: &mut Keys, place: usize) -> Option<Option<usize>> {
        let begin = self.at;
        if self.byte()? != b'"' {
            return None;
        }
        let end = json::end_of_string(self.text, begin).ok()?;
        let (key, replaced) = json::unescape(self.text.get(begin + 1..end - 1)?);
        if replaced.is_any() {
            return None;
        }
        self.at = end;
        self.white();
        self.expect(b':')?;
        let found = keys.by_key.get(&*key).copied();
        if let Some(source) = found {
            if let Some(next) = keys.next.get_mut(place) {
                *next = source;
            }
            let written = self.text.get(begin..self.at)?;
            let source = keys.sources.get_mut(source)?;
            if source.pattern != written {
                source.pattern = written.to_vec();
            }
        }
        self.white();
        Some(found)
    }

    #[inline]
    fn value(&mut self, column: &mut Column) -> Option<()> {
        let first = self.byte()?;
        if first == b'n' {
            self.literal(b"null")?;
            if !column.is_nullable() {
                return None;
            }
            column.push_null();
            return Some(());
        }
        let row = column.len();
        match &mut column.values {
            Values::Long(values) => values.push(self.integer(first)?),
            Values::Text { max_characters: None, text } if first == b'"' => {
                self.string(&mut text.bytes)?;
                text.end_value();
            }
            Values::Double(values) => values.push(self.double(first)?),
            Values::Timestamp(values) => values.push(self.timestamp(first, self.wall_is_utc)?),
            Values::TimestampNtz(values) => values.push(self.timestamp(first, true)?),
            Values::Date(values) => values.push(self.date(first)?),
            Values::Boolean(bits) => bits.push(match first {
                b't' => self.literal(b"true").map(|()| true)?,
                b'f' => self.literal(b"false").map(|()| false)?,
                b'0' | b'1' => self.integer(first).filter(|value| *value <= 1)? == 1,
                _ => return None,
            }),
            Values::Decimal { precision, scale, values } => values.push(self.decimal(first, *precision, *scale)?),
            Values::Integer(values) => values.push(self.integer(first)?.try_into().ok()?),
            Values::Short(values) => values.push(self.integer(first)?.try_into().ok()?),
            Values::Byte(values) => values.push(self.integer(first)?.try_into().ok()?),
            Values::Text { max_characters, text } => {
                let begin = text.bytes.len();
                match first {
                    b'"' => self.string(&mut text.bytes)?,
                    _ => self.compact(&mut text.bytes)?,
                }
                if let Some(limit) = max_characters
                    && characters(text.bytes.get(begin..)?) > *limit as usize
                {
                    return None;
                }
                text.end_value();
            }
            Values::JsonText(text) => {
                self.compact(&mut text.bytes)?;
                text.end_value();
            }
            Values::Struct(fields) => self.object(fields, row)?,
            Values::List { offsets, element } => {
                self.expect(b'[')?;
                self.white();
                if self.byte()? == b']' {
                    self.at += 1;
                } else {
                    loop {
                        self.value(element)?;
                        if !self.goes_on(b']')? {
                            break;
                        }
                    }
                }
                offsets.push(element.len() as i32);
            }
            Values::Map { offsets, keys, value } => {
                self.map(keys, value)?;
                offsets.push(value.len() as i32);
            }
            // The exact path checks what has to be text.
            Values::Binary { must_be_text: true, .. } => return None,
            Values::Binary { encoding, bytes, .. } => bytes.push(&decode(*encoding, self.plain_string(first)?)?),
            // The exact path knows which digits a float gives back.
            Values::Float(_) => return None,
        }
        column.close();
        Some(())
    }

    fn map(&mut self, keys: &mut Bytes, value: &mut Column) -> Option<()> {
        self.expect(b'{')?;
        self.white();
        if self.byte()? == b'}' {
            self.at += 1;
            return Some(());
        }
        let before = value.len();
        loop {
            if self.byte()? != b'"' {
                return None;
            }
            self.string(&mut keys.bytes)?;
            keys.end_value();
            self.white();
            self.expect(b':')?;
            self.white();
            self.value(value)?;
            if value.len() - before > COMPARED_KEYS || keys.is_last_repeated(before) {
                return None;
            }
            if !self.goes_on(b'}')? {
                return Some(());
            }
        }
    }

    /// Adds the string that begins here, escapes resolved.
    #[inline]
    fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let begin = self.at + 1;
        let end = find_special(self.text, begin);
        out.extend_from_slice(self.text.get(begin..end)?);
        if *self.text.get(end)? == b'"' {
            self.at = end + 1;
            return Some(());
        }
        self.at = end;
        self.escaped_string(out)
    }

    fn escaped_string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        loop {
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => {
                    let mut length = 2;
                    match *self.text.get(self.at + 1)? {
                        byte @ (b'"' | b'\\' | b'/') => out.push(byte),
                        b'b' => out.push(0x08),
                        b'f' => out.push(0x0c),
                        b'n' => out.push(b'\n'),
                        b'r' => out.push(b'\r'),
                        b't' => out.push(b'\t'),
                        b'u' => {
                            hex4(self.text, self.at + 2)?;
                            let (character, used) = json::unicode_escape(self.text.get(self.at..)?);
                            out.extend_from_slice(character?.encode_utf8(&mut [0; 4]).as_bytes());
                            length = used;
                        }
                        _ => return None,
                    }
                    self.at += length;
                }
                _ => return None,
            }
            let end = find_special(self.text, self.at);
            out.extend_from_slice(self.text.get(self.at..end)?);
            self.at = end;
        }
    }

    /// Passes a string without escapes.
    #[inline]
    fn plain_string(&mut self, first: u8) -> Option<&'a [u8]> {
        if first != b'"' {
            return None;
        }
        let begin = self.at + 1;
        let end = find_special(self.text, begin);
        if *self.text.get(end)? != b'"' {
            return None;
        }
        self.at = end + 1;
        self.text.get(begin..end)
    }

    /// Adds the compact text of any value.
    fn compact(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let end = json::end_of_value(self.text, self.at).ok()?;
        let replaced = json::compact_into(self.text.get(self.at..end)?, out);
        self.at = end;
        (!replaced.is_any()).then_some(())
    }

    #[inline]
    fn integer(&mut self, first: u8) -> Option<i64> {
        if first == b'"' {
            let text = self.plain_string(first)?;
            return read_integer(text).filter(|(_, length)| *length == text.len()).map(|(value, _)| value);
        }
        let (value, length) = read_integer(self.text.get(self.at..)?)?;
        self.at += length;
        Some(value)
    }

    #[inline]
    fn double(&mut self, first: u8) -> Option<f64> {
        if first == b'"' {
            let text = self.plain_string(first)?;
            return read_double(text).filter(|(_, length)| *length == text.len()).map(|(value, _)| value);
        }
        let (value, length) = read_double(self.text.get(self.at..)?)?;
        self.at += length;
        Some(value)
    }

    fn decimal(&mut self, first: u8, precision: u8, scale: u8) -> Option<i128> {
        let number = if first == b'"' {
            let text = self.plain_string(first)?;
            Scanned::read(text).filter(|number| number.length == text.len())?
        } else {
            let number = Scanned::read(self.text.get(self.at..)?)?;
            self.at += number.length;
            number
        };
        let shift = number.exponent + i32::from(scale);
        let value = match shift {
            0..=18 => i128::from(number.mantissa) * 10i128.pow(shift as u32),
            -18..0 => {
                let unit = 10u64.pow(shift.unsigned_abs());
                if number.mantissa % unit != 0 {
                    return None;
                }
                i128::from(number.mantissa / unit)
            }
            _ => return None,
        };
        if value >= 10i128.pow(u32::from(precision)) {
            return None;
        }
        Some(if number.is_negative { -value } else { value })
    }

    #[inline]
    fn days(&mut self, date: &[u8; 10]) -> Option<i32> {
        if self.dates.text == *date {
            return Some(self.dates.days);
        }
        let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else { return None };
        let days = days_of(digits(&[y1, y2, y3, y4])?, digits(&[m1, m2])?, digits(&[d1, d2])?)?;
        *self.dates = Dates { text: *date, days };
        Some(days)
    }

    fn date(&mut self, first: u8) -> Option<i32> {
        let text = self.plain_string(first)?;
        self.days(text.try_into().ok()?)
    }

    /// Reads `2024-03-01T10:20:30`, with or without fraction, `Z` or `+02:00`, or a date alone.
    #[inline]
    fn timestamp(&mut self, first: u8, wall_is_utc: bool) -> Option<i64> {
        let text = self.plain_string(first)?;
        let (date, rest) = text.split_first_chunk::<10>()?;
        let midnight = i64::from(self.days(date)?) * DAY_MICROS;
        let [b'T' | b' ', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = rest else {
            return rest.is_empty().then_some(midnight);
        };
        let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut micros = midnight + i64::from(hour * 3600 + minute * 60 + second) * 1_000_000;
        let mut rest = rest;
        if let [b'.', fraction @ ..] = rest {
            let mut unit = 100_000;
            let mut length = 0;
            while let Some(digit) = fraction.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
                micros += i64::from(digit) * unit;
                unit /= 10;
                length += 1;
            }
            if length == 0 {
                return None;
            }
            rest = fraction.get(length..)?;
        }
        match rest {
            [b'Z'] => Some(micros),
            [] if wall_is_utc => Some(micros),
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
                let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let offset = i64::from(hours * 60 + minutes) * 60_000_000;
                let micros = if *sign == b'+' { micros - offset } else { micros + offset };
                is_possible(micros).then_some(micros)
            }
            _ => None,
        }
    }
}

impl Bytes {
    /// Tells whether the last string equals one from index `begin` on.
    fn is_last_repeated(&self, begin: usize) -> bool {
        let Some(last) = self.offsets.len().checked_sub(2) else { return false };
        (begin..last).any(|index| self.get(index) == self.get(last))
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let begin = *self.offsets.get(index)? as usize;
        self.bytes.get(begin..*self.offsets.get(index + 1)? as usize)
    }
}

/// Reads an integer of at most 18 digits; what follows it is the caller's. Returns its length too.
#[inline]
fn read_integer(text: &[u8]) -> Option<(i64, usize)> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut value = 0i64;
    let mut length = 0;
    while let Some(digit) = digits.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        if length == 18 {
            return None;
        }
        value = value * 10 + i64::from(digit);
        length += 1;
    }
    if length == 0 || (length > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    Some(if is_negative { (-value, length + 1) } else { (value, length) })
}

/// A number as JSON writes it, of at most 19 digits: `mantissa` × 10^`exponent`.
struct Scanned {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
    length: usize,
}

impl Scanned {
    #[inline]
    fn read(text: &[u8]) -> Option<Self> {
        let is_negative = text.first() == Some(&b'-');
        let mut at = usize::from(is_negative);
        let integer = at;
        let mut mantissa = 0u64;
        // Leading zeros do not count; 19 digits fit.
        let mut significant = 0;
        let digit_at = |at: usize| text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9);
        while let Some(digit) = digit_at(at) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            significant += u32::from(significant > 0 || digit > 0);
            at += 1;
        }
        if at == integer || (at > integer + 1 && text.get(integer) == Some(&b'0')) {
            return None;
        }
        let mut exponent = 0i32;
        if text.get(at) == Some(&b'.') {
            at += 1;
            let fraction = at;
            while let Some(digit) = digit_at(at) {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                significant += u32::from(significant > 0 || digit > 0);
                at += 1;
            }
            if at == fraction {
                return None;
            }
            exponent = -i32::try_from(at - fraction).ok()?;
        }
        if significant > 19 {
            return None;
        }
        if let Some(b'e' | b'E') = text.get(at) {
            at += 1;
            let is_minus = text.get(at) == Some(&b'-');
            at += usize::from(is_minus || text.get(at) == Some(&b'+'));
            let begin = at;
            let mut value = 0i32;
            while let Some(digit) = digit_at(at) {
                value = value.checked_mul(10)?.checked_add(i32::from(digit))?;
                at += 1;
            }
            if at == begin {
                return None;
            }
            exponent = exponent.checked_add(if is_minus { -value } else { value })?;
        }
        Some(Self { is_negative, mantissa, exponent, length: at })
    }

    /// The same value without trailing zeros.
    fn trimmed(&self) -> (u64, i32) {
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        (mantissa, exponent)
    }
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
    1e22,
];

/// Reads a number that its nearest double prints back. Returns its length too.
#[inline]
fn read_double(text: &[u8]) -> Option<(f64, usize)> {
    let number = Scanned::read(text)?;
    let power = POWERS.get(number.exponent.unsigned_abs() as usize);
    let value = match power {
        // Both are exact, so that one operation rounds once: correctly.
        Some(power) if number.mantissa <= 1 << 53 => {
            let mantissa = number.mantissa as f64;
            let value = if number.exponent < 0 { mantissa / power } else { mantissa * power };
            if number.is_negative { -value } else { value }
        }
        _ => fast_float2::parse(text.get(..number.length)?).ok()?,
    };
    // Doubles below 2^52 units of the last digit lie closer than those units, so that only one such decimal is nearest to each.
    let is_printed_back = number.mantissa < 1 << 52 && power.is_some();
    if is_printed_back || prints_back(value, &number) { Some((value, number.length)) } else { None }
}

fn prints_back(value: f64, number: &Scanned) -> bool {
    value.is_finite()
        && Scanned::read(shortest(value).text())
            .is_some_and(|printed| printed.trimmed() == number.trimmed() || (printed.mantissa == 0 && number.mantissa == 0))
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_double_taken_is_the_exact_one_and_loses_nothing(text in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?") {
            let exact = Number::parse(text.as_bytes()).unwrap().to_double();
            if let Some((value, length)) = read_double(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!((value.to_bits(), true), (exact.0.to_bits(), exact.1));
            }
        }

        #[test]
        fn shortest_texts_are_taken(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            prop_assert_eq!(read_double(shortest(value).text()).map(|(value, _)| value.to_bits()), Some(value.to_bits()));
        }

        #[test]
        fn sixteen_digits_are_taken_when_they_print_back(mantissa in 1u64 << 51..1 << 54, scale in 0usize..24) {
            let digits = format!("{mantissa:0>25}");
            let text = format!("{}.{}", digits[..25 - scale].trim_start_matches('0'), &digits[25 - scale..]);
            let text = text.trim_end_matches('.');
            let text = if text.starts_with('.') { format!("0{text}") } else { text.to_owned() };
            let exact = Number::parse(text.as_bytes()).unwrap().to_double();
            let taken = read_double(text.as_bytes()).map(|(value, _)| value.to_bits());
            prop_assert_eq!(taken, exact.1.then_some(exact.0.to_bits()));
        }
    }

    #[test]
    fn integers_end_where_their_digits_do() {
        assert_eq!(read_integer(b"12,"), Some((12, 2)));
        assert_eq!(read_integer(b"-0}"), Some((0, 2)));
        assert_eq!(read_integer(b"123456789012345678"), Some((123456789012345678, 18)));
        for refused in ["1234567890123456789", "01", "", "-", "x"] {
            assert_eq!(read_integer(refused.as_bytes()), None, "{refused}");
        }
    }
}
