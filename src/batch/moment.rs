//! Dates and times as text, to days and microseconds since 1970.

/// What a text says about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// A date.
    Date { days: i32 },
    /// A date and time without an offset: the date as written, microseconds of the wall clock.
    Wall { days: i32, micros: i64 },
    /// A date and time with its offset: the date as written, microseconds in UTC.
    Instant { days: i32, micros: i64 },
    /// A date that no table can hold: year 0, before Christ, after 9999.
    Impossible,
    /// Something else.
    Other,
}

pub(super) const DAY_MICROS: i64 = 86_400_000_000;
/// 0001-01-01
pub(super) const FIRST_DAY: i64 = -719_162;
/// 9999-12-31
pub(super) const LAST_DAY: i64 = 2_932_896;

/// Returns the days since 1970 of a date of the proleptic Gregorian calendar, years 1 to 9999; `None`: there is no such date.
#[inline]
pub(super) fn days_of(year: u32, month: u32, day: u32) -> Option<i32> {
    const LENGTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = LENGTHS.get((month as usize).wrapping_sub(1))? + u32::from(is_leap && month == 2);
    if day == 0 || day > length || year == 0 || year > 9999 {
        return None;
    }
    // Years from March on, so that the leap day is the last of a year (Howard Hinnant, days_from_civil).
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some((era * 146_097 + day_of_era) as i32 - 719_468)
}

/// Returns the value of ASCII digits.
#[inline]
pub(super) fn digits(text: &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u32::from(digit));
    }
    Some(value)
}

/// Reads a date or date-time: ISO 8601 in its extended form, a space for `T`, with or without offset, fraction of any length
/// (truncated to microseconds), 24:00:00 as the next day's begin.
pub(super) fn read(text: &str) -> Moment {
    let text = text.trim();
    let bytes = text.as_bytes();
    if let Some(rest) = text.strip_suffix("BC").or_else(|| text.strip_suffix("bc")) {
        return if parse(rest.trim_end().as_bytes()) == Moment::Other { Moment::Other } else { Moment::Impossible };
    }
    let (sign, rest) = match bytes {
        [sign @ (b'-' | b'+'), rest @ ..] => (Some(*sign), rest),
        rest => (None, rest),
    };
    let year_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (year, tail) = rest.split_at(year_digits);
    let is_beyond = year_digits > 4 || sign == Some(b'-') || year == b"0000";
    if year_digits < 4 || !is_beyond {
        return if sign.is_some() { Moment::Other } else { parse(bytes) };
    }
    // The rest must look like a date all the same: `20240101` is none.
    let is_date = matches!(tail, [b'-', a, b, b'-', c, d, ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()));
    if is_date { Moment::Impossible } else { Moment::Other }
}

fn parse(bytes: &[u8]) -> Moment {
    parse_date(bytes).unwrap_or(Moment::Other)
}

fn parse_date(bytes: &[u8]) -> Option<Moment> {
    let (date, rest) = bytes.split_at_checked(10)?;
    let [_, _, _, _, b'-', _, _, b'-', _, _] = date else { return None };
    let days = days_of(digits(date.get(..4)?)?, digits(date.get(5..7)?)?, digits(date.get(8..)?)?)?;
    match rest {
        [] => Some(Moment::Date { days }),
        [b'T' | b't' | b' ', time @ ..] => parse_time(days, time),
        _ => None,
    }
}

fn parse_time(days: i32, text: &[u8]) -> Option<Moment> {
    let [h1, h2, b':', m1, m2, rest @ ..] = text else { return None };
    let hour = digits(&[*h1, *h2])?;
    let minute = digits(&[*m1, *m2])?;
    let (second, rest) = match rest {
        [b':', s1, s2, rest @ ..] => (digits(&[*s1, *s2])?, rest),
        rest => (0, rest),
    };
    let (micros, is_whole, rest) = match rest {
        [b'.' | b',', rest @ ..] => {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if length == 0 {
                return None;
            }
            let (fraction, rest) = rest.split_at(length);
            let micros =
                (0..6).fold(0i64, |value, index| value * 10 + fraction.get(index).map_or(0, |digit| i64::from(digit - b'0')));
            (micros, fraction.iter().all(|digit| *digit == b'0'), rest)
        }
        rest => (0, true, rest),
    };
    // 60 is a leap second: the same instant as the next minute's begin.
    let is_midnight = hour == 24 && minute == 0 && second == 0 && is_whole;
    if (hour > 23 && !is_midnight) || minute > 59 || second > 60 {
        return None;
    }
    let wall = i64::from(days) * DAY_MICROS + i64::from(hour * 3600 + minute * 60 + second) * 1_000_000 + micros;
    let offset_minutes = match rest {
        [] => {
            return Some(within(wall, |micros| Moment::Wall { days: (micros.div_euclid(DAY_MICROS)) as i32, micros }));
        }
        [b'Z' | b'z'] | b" UTC" | b" Z" | b"UTC" => 0,
        [b' ', sign, rest @ ..] | [sign, rest @ ..] => {
            let minutes = parse_offset(rest)?;
            match sign {
                b'+' => minutes,
                b'-' => -minutes,
                _ => return None,
            }
        }
    };
    let days = (wall.div_euclid(DAY_MICROS)) as i32;
    Some(within(wall - offset_minutes * 60_000_000, |micros| Moment::Instant { days, micros }))
}

fn parse_offset(text: &[u8]) -> Option<i64> {
    let (hours, minutes) = match text {
        [a, b] => (digits(&[*a, *b])?, 0),
        [a, b, c, d] | [a, b, b':', c, d] => (digits(&[*a, *b])?, digits(&[*c, *d])?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(i64::from(hours * 60 + minutes))
}

fn within(micros: i64, moment: impl Fn(i64) -> Moment) -> Moment {
    if is_possible(micros) { moment(micros) } else { Moment::Impossible }
}

/// Tells whether microseconds since 1970 lie in the years 1 to 9999.
pub(super) fn is_possible(micros: i64) -> bool {
    (FIRST_DAY * DAY_MICROS..(LAST_DAY + 1) * DAY_MICROS).contains(&micros)
}

/// Returns microseconds since 1970 as RFC 3339 text in UTC.
pub(super) fn to_text(micros: i64) -> String {
    let Some(moment) = chrono::DateTime::from_timestamp_micros(micros) else { return micros.to_string() };
    moment.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};

    fn micros(text: &str) -> i64 {
        chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros()
    }

    #[test]
    fn every_day_of_every_year_is_where_chrono_has_it() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        let mut day = NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
        assert_eq!(days_of(1, 1, 1).map(i64::from), Some(FIRST_DAY));
        assert_eq!(days_of(9999, 12, 31).map(i64::from), Some(LAST_DAY));
        while day.year() < 10_000 {
            let expected = (day - epoch).num_days() as i32;
            assert_eq!(days_of(day.year() as u32, day.month(), day.day()), Some(expected));
            day = day.succ_opt().unwrap();
        }
        for (year, month, day) in
            [(2023, 2, 29), (2024, 13, 1), (2024, 0, 1), (2024, 4, 31), (1900, 2, 29), (0, 1, 1), (2024, 1, 0)]
        {
            assert_eq!(days_of(year, month, day), None);
        }
    }

    #[test]
    fn instants_are_utc_microseconds() {
        for (text, same) in [
            ("2024-03-01T10:20:30Z", "2024-03-01T10:20:30Z"),
            ("2024-03-01 10:20:30z", "2024-03-01T10:20:30Z"),
            ("2024-03-01t10:20:30.5+02:00", "2024-03-01T08:20:30.5Z"),
            ("2024-03-01T10:20:30-0530", "2024-03-01T15:50:30Z"),
            ("2024-03-01T10:20+02", "2024-03-01T08:20:00Z"),
            ("2024-03-01 10:20:30.123456789 UTC", "2024-03-01T10:20:30.123456Z"),
            ("2024-02-29T24:00:00Z", "2024-03-01T00:00:00Z"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999Z"),
        ] {
            let Moment::Instant { micros: read, .. } = read(text) else { panic!("{text}") };
            assert_eq!(read, micros(same), "{text}");
        }
    }

    #[test]
    fn a_date_keeps_the_day_as_written() {
        assert_eq!(read("2024-03-01"), Moment::Date { days: 19783 });
        let Moment::Instant { days, .. } = read("2024-03-01T00:30:00+02:00") else { panic!() };
        assert_eq!(days, 19783);
        assert_eq!(read("2024-02-29T24:00:00"), Moment::Wall { days: 19783, micros: 19783 * DAY_MICROS });
    }

    #[test]
    fn dates_that_no_table_holds_are_impossible() {
        for text in [
            "0000-00-00",
            "0000-00-00 00:00:00",
            "0000-01-01",
            "10000-01-01",
            "+12024-01-01T00:00:00Z",
            "-0044-03-15",
            "0044-03-15 BC",
            "0044-03-15 10:00:00+00 BC",
            "9999-12-31T23:59:59-05:00",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T24:00:00",
        ] {
            assert_eq!(read(text), Moment::Impossible, "{text}");
        }
    }

    #[test]
    fn other_text_is_no_moment() {
        for text in [
            "",
            "today",
            "20240301",
            "2024-3-1",
            "01.03.2024",
            "2024-02-30",
            "2024-03-01T",
            "2024-03-01T25:00:00",
            "2024-03-01T24:00:01",
            "2024-03-01T10:20:30.Z",
            "2024-03-01T10:20:30+2",
            "2024-03-01T10:61",
            "2024-03-01X10:20:30",
            "ABC",
            "10000",
            "-5",
            "+2024-03-01",
        ] {
            assert_eq!(read(text), Moment::Other, "{text}");
        }
    }
}
