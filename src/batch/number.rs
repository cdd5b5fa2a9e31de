//! Numbers by their digits: nothing is rounded before it is known where it goes.

/// A number taken apart: `digits` × 10^`exponent`, digits without leading and trailing zeros (zero has none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    pub is_negative: bool,
    /// Values 0 to 9.
    pub digits: Vec<u8>,
    pub exponent: i64,
}

/// Why a number does not go into a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It has a fraction.
    Fraction,
    /// It is too large.
    Range,
}

impl Number {
    /// Reads a JSON number, or number text as people write it: a plus sign, leading zeros, `.5` and `5.` are taken.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let mut digits = Vec::with_capacity(rest.len());
        let mut exponent = 0i64;
        let mut is_fraction = false;
        let mut has_digit = false;
        let mut at = 0;
        while let Some(byte) = rest.get(at) {
            match byte {
                b'0'..=b'9' => {
                    has_digit = true;
                    if !(digits.is_empty() && *byte == b'0') {
                        digits.push(byte - b'0');
                    }
                    exponent -= i64::from(is_fraction);
                }
                b'.' if !is_fraction => is_fraction = true,
                b'e' | b'E' if has_digit => {
                    exponent = exponent.saturating_add(parse_exponent(rest.get(at + 1..)?)?);
                    break;
                }
                _ => return None,
            }
            at += 1;
        }
        if !has_digit {
            return None;
        }
        while digits.last() == Some(&0) {
            digits.pop();
            exponent = exponent.saturating_add(1);
        }
        if digits.is_empty() {
            exponent = 0;
        }
        Some(Self { is_negative, digits, exponent })
    }

    /// Returns the number as an integer.
    pub fn to_integer(&self) -> Result<i64, Misfit> {
        if self.exponent < 0 {
            return Err(Misfit::Fraction);
        }
        i64::try_from(self.scaled(self.exponent, 19).ok_or(Misfit::Range)?).map_err(|_| Misfit::Range)
    }

    /// Returns the number in units of 10^-`scale`, rounded half to even, and whether it had to be rounded.
    pub fn to_decimal(&self, precision: u8, scale: u8) -> Result<(i128, bool), Misfit> {
        let shift = self.exponent.saturating_add(i64::from(scale));
        if shift >= 0 {
            return Ok((self.scaled(shift, precision).ok_or(Misfit::Range)?, false));
        }
        let dropped = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(dropped);
        let (whole, rest) = self.digits.split_at(kept);
        if whole.len() > usize::from(precision) {
            return Err(Misfit::Range);
        }
        let mut value = whole.iter().fold(0i128, |value, digit| value * 10 + i128::from(*digit));
        let is_up = match rest {
            _ if dropped > self.digits.len() => false,
            [5] => value % 2 == 1,
            [first, ..] => *first >= 5,
            [] => false,
        };
        value += i128::from(is_up);
        if value >= 10i128.pow(u32::from(precision)) {
            return Err(Misfit::Range);
        }
        Ok((if self.is_negative { -value } else { value }, true))
    }

    /// Returns digits × 10^`shift`, if that has no more than `precision` (38 at most) digits.
    pub fn scaled(&self, shift: i64, precision: u8) -> Option<i128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let shift = u32::try_from(shift).ok()?;
        if self.digits.len() + shift as usize > usize::from(precision.min(38)) {
            return None;
        }
        let value = self.digits.iter().fold(0i128, |value, digit| value * 10 + i128::from(*digit)) * 10i128.pow(shift);
        Some(if self.is_negative { -value } else { value })
    }

    /// Returns the nearest double (an infinity when the number is beyond all), and whether that prints back the same digits.
    pub fn to_double(&self) -> (f64, bool) {
        let text: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if self.is_negative { "-" } else { "" };
        let digits = if text.is_empty() { "0" } else { &text };
        let value: f64 = format!("{sign}{digits}e{}", self.exponent.clamp(-1_000_000, 1_000_000)).parse().unwrap_or(f64::NAN);
        (value, self.is_printed_by(&shortest(value)))
    }

    /// Returns the nearest float, and whether that prints back the same digits.
    pub fn to_float(&self) -> (f32, bool) {
        let text: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if self.is_negative { "-" } else { "" };
        let digits = if text.is_empty() { "0" } else { &text };
        let value: f32 = format!("{sign}{digits}e{}", self.exponent.clamp(-1_000_000, 1_000_000)).parse().unwrap_or(f32::NAN);
        (value, self.is_printed_by(&shortest(value)))
    }

    fn is_printed_by(&self, printed: &Shortest) -> bool {
        Number::parse(printed.text()).is_some_and(|number| number.digits == self.digits && number.exponent == self.exponent)
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(if is_negative { -value } else { value })
}

/// The shortest text that reads back as the same float.
pub(super) struct Shortest {
    bytes: [u8; 40],
    len: usize,
}

impl Shortest {
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Returns the shortest text of a float; "null" for what is not finite.
pub(super) fn shortest<T: serde::Serialize>(value: T) -> Shortest {
    let mut bytes = [0; 40];
    let mut free = bytes.as_mut_slice();
    let written = serde_json::to_writer(&mut free, &value).is_ok();
    let len = if written { 40 - free.len() } else { 0 };
    Shortest { bytes, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn integers_are_exact_or_refused() {
        for (text, value) in
            [("0", 0), ("-0", 0), ("1.0", 1), ("1e3", 1000), ("12.30e1", 123), ("+007", 7), ("0e999999999999999999999", 0)]
        {
            assert_eq!(number(text).to_integer(), Ok(value), "{text}");
        }
        assert_eq!(number("9223372036854775807").to_integer(), Ok(i64::MAX));
        assert_eq!(number("-9223372036854775808").to_integer(), Ok(i64::MIN));
        assert_eq!(number("9223372036854775808").to_integer(), Err(Misfit::Range));
        assert_eq!(number("1e400").to_integer(), Err(Misfit::Range));
        assert_eq!(number("1.5").to_integer(), Err(Misfit::Fraction));
        assert_eq!(number("1e-99999999999999999999").to_integer(), Err(Misfit::Fraction));
    }

    #[test]
    fn decimals_round_half_to_even_and_say_so() {
        for (text, value, is_rounded) in [
            ("12.50", 1250, false),
            ("0.005", 0, true),
            ("0.015", 2, true),
            ("0.025", 2, true),
            ("0.0250001", 3, true),
            ("-0.015", -2, true),
            ("0.001", 0, true),
            ("1e2", 10000, false),
            ("99999999.99", 9_999_999_999, false),
        ] {
            assert_eq!(number(text).to_decimal(10, 2), Ok((value, is_rounded)), "{text}");
        }
        assert_eq!(number("100000000").to_decimal(10, 2), Err(Misfit::Range));
        assert_eq!(number("99999999.995").to_decimal(10, 2), Err(Misfit::Range));
        assert_eq!(number("1e1000000000").to_decimal(38, 18), Err(Misfit::Range));
        assert_eq!(number("1e-1000000000").to_decimal(38, 18), Ok((0, true)));
        let largest = "9".repeat(38);
        assert_eq!(number(&largest).to_decimal(38, 0), Ok((10i128.pow(38) - 1, false)));
    }

    #[test]
    fn a_double_says_whether_digits_were_lost() {
        for (text, value) in
            [("0.1", 0.1), ("1e300", 1e300), ("0.30000000000000004", 0.30000000000000004), ("-2.50", -2.5), ("5e-324", 5e-324)]
        {
            assert_eq!(number(text).to_double(), (value, true), "{text}");
        }
        for (text, value) in
            [("1234567890123456.7891", 1234567890123456.8), ("9007199254740993", 9007199254740992.0), ("1e-400", 0.0)]
        {
            assert_eq!(number(text).to_double(), (value, false), "{text}");
        }
        assert_eq!(number("1e400").to_double().0, f64::INFINITY);
        assert!(number("-0").to_double().0.is_sign_negative());
        assert_eq!(number("0.1").to_float(), (0.1, true));
        assert!(!number("0.123456789").to_float().1);
    }

    #[test]
    fn text_that_is_no_number_is_none() {
        for text in ["", "12,5", "1.2.3", "e5", ".", "--1", "1e", "1e+", "0x10", "NaN", " 1", "1_000"] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(number(".5"), number("0.5"));
        assert_eq!(number("5."), number("5"));
    }
}
