//! What was changed on the way into the table, counted per column and kind with the first example: told once, in the summary.

use std::collections::BTreeMap;
use std::fmt;

use crate::InputLine;

/// A change of a value that is not a bad value but must not go unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coercion {
    /// A number has more digits than the nearest double prints back.
    RoundedToDouble,
    /// A number has more digits after the point than the decimal; rounded half to even.
    RoundedToScale,
    /// NaN or an infinity became null.
    NotANumber,
    /// `""` in a date, timestamp or number column became null.
    EmptyText,
    /// A date of year 0, before Christ or after 9999 became null.
    ImpossibleDate,
    /// A number was read as seconds, milliseconds, microseconds or nanoseconds since 1970.
    EpochNumber,
    /// `[]` or `""` for an object became null.
    EmptyObject,
    /// A value of another type went to the column beside its own.
    OtherColumn,
    /// A bad value became null (`on_bad_value = "set_null"`).
    SetNull,
    /// A field without a column was left out (`schema_contract = "discard_columns"`).
    Discarded,
    /// Invalid UTF-8 became U+FFFD.
    InvalidUtf8,
    /// A lone surrogate became U+FFFD.
    LoneSurrogate,
}

impl Coercion {
    /// Returns what the user can do about it, if there is something.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::RoundedToDouble => Some("to keep all digits, declare the field in `columns` as a decimal"),
            Self::RoundedToScale => Some("to keep all digits, declare the field in `columns` with a larger scale"),
            Self::NotANumber => Some("to keep them, set `keep_nan = true`"),
            _ => None,
        }
    }
}

impl fmt::Display for Coercion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundedToDouble => "rounded to the nearest double",
            Self::RoundedToScale => "rounded to the decimal's scale",
            Self::NotANumber => "NaN or infinity stored as null",
            Self::EmptyText => "empty text stored as null",
            Self::ImpossibleDate => "date outside the years 1 to 9999 stored as null",
            Self::EpochNumber => "number read as time since 1970",
            Self::EmptyObject => "empty array or text stored as null",
            Self::OtherColumn => "value of another type stored in a column of its own",
            Self::SetNull => "bad value stored as null",
            Self::Discarded => "field outside the schema left out",
            Self::InvalidUtf8 => "invalid UTF-8 replaced by U+FFFD",
            Self::LoneSurrogate => "lone surrogate replaced by U+FFFD",
        })
    }
}

/// How often something happened, and where first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// How often.
    pub count: u64,
    /// The first value, at most 100 characters of its JSON text.
    pub example: String,
    /// The first value's input line.
    pub line: InputLine,
}

/// The counts of one stream. Only rows that were taken are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    counts: BTreeMap<(String, Coercion), Count>,
}

impl Tally {
    /// Adds one value of the field at `path` (`user.tags[]`).
    pub fn add(&mut self, path: String, coercion: Coercion, example: String, line: InputLine) {
        self.counts.entry((path, coercion)).and_modify(|count| count.count += 1).or_insert(Count { count: 1, example, line });
    }

    /// Adds the counts of `other`; the earlier line's example stays.
    pub fn merge(&mut self, other: Tally) {
        for (key, theirs) in other.counts {
            match self.counts.get_mut(&key) {
                Some(ours) => {
                    let count = ours.count + theirs.count;
                    if theirs.line < ours.line {
                        *ours = theirs;
                    }
                    ours.count = count;
                }
                None => {
                    self.counts.insert(key, theirs);
                }
            }
        }
    }

    /// Returns path, kind and count, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Coercion, &Count)> {
        self.counts.iter().map(|((path, coercion), count)| (path.as_str(), *coercion, count))
    }

    /// Tells whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Returns at most 100 characters of a value's text.
pub(super) fn excerpt(raw: &[u8]) -> String {
    // 100 characters take 400 bytes at most.
    let begin = raw.get(..raw.len().min(404)).unwrap_or_default();
    let text = String::from_utf8_lossy(begin);
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_counts_keep_the_earliest_example() {
        let mut early = Tally::default();
        early.add("a".into(), Coercion::EmptyText, "1".into(), InputLine(1));
        let mut late = Tally::default();
        late.add("a".into(), Coercion::EmptyText, "2".into(), InputLine(2));
        late.add("b".into(), Coercion::SetNull, "x".into(), InputLine(3));
        late.merge(early);
        let counts: Vec<_> = late.iter().map(|(path, kind, count)| (path, kind, count.count, count.example.as_str())).collect();
        assert_eq!(counts, [("a", Coercion::EmptyText, 2, "1"), ("b", Coercion::SetNull, 1, "x")]);
    }

    #[test]
    fn an_example_is_a_hundred_characters_at_most() {
        assert_eq!(excerpt("é".repeat(300).as_bytes()).chars().count(), 101);
        assert_eq!(excerpt("é".repeat(100).as_bytes()).chars().count(), 100);
    }
}
