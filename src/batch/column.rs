//! Column builders: values in plain vectors, shaped like Arrow's buffers, so that a batch is made without a copy.
//!
//! Guarantee: after `truncate(n)` a column of any depth holds its first `n` rows and nothing else, however far the rest had been
//! pushed. Without it a refused record would leave its first half in the table.

use super::fields::Fields;
use crate::schema::{BinaryEncoding, DataType, Rule};

/// One column: the values, which of them are null, and what may be absent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub validity: Validity,
    pub values: Values,
    pub absence: Absence,
}

/// What a column takes when a record has no value for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    /// Null.
    Null,
    /// The record cannot be taken: the table forbids null.
    NotNull,
    /// The row's metadata, filled at its end.
    Metadata,
}

/// The values of a column, one variant per rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Boolean(Bits),
    Byte(Vec<i8>),
    Short(Vec<i16>),
    Integer(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal {
        precision: u8,
        scale: u8,
        values: Vec<i128>,
    },
    Text {
        max_characters: Option<u32>,
        text: Bytes,
    },
    JsonText(Bytes),
    Binary {
        encoding: BinaryEncoding,
        /// Of a partition column, whose values stand in the log as text.
        must_be_text: bool,
        bytes: Bytes,
    },
    Date(Vec<i32>),
    Timestamp(Vec<i64>),
    TimestampNtz(Vec<i64>),
    Struct(Box<Fields>),
    List {
        offsets: Vec<i32>,
        element: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        keys: Bytes,
        value: Box<Column>,
    },
}

impl Column {
    /// Returns an empty column for `rule`; `data_type` tells, where the rule does not, whether elements may be null.
    pub fn new(rule: &Rule, data_type: Option<&DataType>, absence: Absence) -> Self {
        let values = match rule {
            Rule::Boolean => Values::Boolean(Bits::default()),
            Rule::Byte => Values::Byte(Vec::new()),
            Rule::Short => Values::Short(Vec::new()),
            Rule::Integer => Values::Integer(Vec::new()),
            Rule::Long => Values::Long(Vec::new()),
            Rule::Float => Values::Float(Vec::new()),
            Rule::Double => Values::Double(Vec::new()),
            Rule::Decimal { precision, scale } => Values::Decimal { precision: *precision, scale: *scale, values: Vec::new() },
            Rule::Text { max_characters } => Values::Text { max_characters: *max_characters, text: Bytes::default() },
            Rule::JsonText => Values::JsonText(Bytes::default()),
            Rule::Binary(encoding) => Values::Binary { encoding: *encoding, must_be_text: false, bytes: Bytes::default() },
            Rule::Date => Values::Date(Vec::new()),
            Rule::Timestamp => Values::Timestamp(Vec::new()),
            Rule::TimestampNtz => Values::TimestampNtz(Vec::new()),
            Rule::Struct(layout) => {
                let fields = match data_type {
                    Some(DataType::Struct(fields)) => fields.as_slice(),
                    _ => &[],
                };
                Values::Struct(Box::new(Fields::new(layout, fields, 0)))
            }
            Rule::List(element) => {
                let (element_type, contains_null) = match data_type {
                    Some(DataType::Array { element, contains_null }) => (Some(&**element), *contains_null),
                    _ => (None, true),
                };
                let element = Column::new(element, element_type, Absence::of(contains_null));
                Values::List { offsets: vec![0], element: Box::new(element) }
            }
            Rule::Map(value) => {
                let (value_type, contains_null) = match data_type {
                    Some(DataType::Map { value, value_contains_null, .. }) => (Some(&**value), *value_contains_null),
                    _ => (None, true),
                };
                let value = Column::new(value, value_type, Absence::of(contains_null));
                Values::Map { offsets: vec![0], keys: Bytes::default(), value: Box::new(value) }
            }
        };
        Self { validity: Validity::default(), values, absence }
    }

    /// Returns the rows pushed completely.
    pub fn len(&self) -> usize {
        self.validity.len
    }

    /// Tells whether a null may be pushed.
    pub fn is_nullable(&self) -> bool {
        self.absence != Absence::NotNull
    }

    /// Marks the value that was just pushed as there.
    pub fn close(&mut self) {
        self.validity.push_valid();
    }

    /// Pushes a null.
    pub fn push_null(&mut self) {
        self.push_nulls(1);
    }

    /// Pushes `count` nulls.
    pub fn push_nulls(&mut self, count: usize) {
        let len = self.validity.len + count;
        match &mut self.values {
            Values::Boolean(bits) => (0..count).for_each(|_| bits.push(false)),
            Values::Byte(values) => values.resize(len, 0),
            Values::Short(values) => values.resize(len, 0),
            Values::Integer(values) | Values::Date(values) => values.resize(len, 0),
            Values::Long(values) | Values::Timestamp(values) | Values::TimestampNtz(values) => values.resize(len, 0),
            Values::Float(values) => values.resize(len, 0.0),
            Values::Double(values) => values.resize(len, 0.0),
            Values::Decimal { values, .. } => values.resize(len, 0),
            Values::Text { text, .. } | Values::JsonText(text) | Values::Binary { bytes: text, .. } => text.push_empty(count),
            Values::Struct(fields) => fields.columns.iter_mut().for_each(|column| column.push_nulls(count)),
            Values::List { offsets, .. } | Values::Map { offsets, .. } => {
                let end = offsets.last().copied().unwrap_or_default();
                offsets.resize(len + 1, end);
            }
        }
        self.validity.push_nulls(count);
    }

    /// Leaves the first `len` rows, also of values that were pushed but not closed.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.values {
            Values::Boolean(bits) => bits.truncate(len),
            Values::Byte(values) => values.truncate(len),
            Values::Short(values) => values.truncate(len),
            Values::Integer(values) | Values::Date(values) => values.truncate(len),
            Values::Long(values) | Values::Timestamp(values) | Values::TimestampNtz(values) => values.truncate(len),
            Values::Float(values) => values.truncate(len),
            Values::Double(values) => values.truncate(len),
            Values::Decimal { values, .. } => values.truncate(len),
            Values::Text { text, .. } | Values::JsonText(text) | Values::Binary { bytes: text, .. } => text.truncate(len),
            Values::Struct(fields) => fields.truncate(len),
            Values::List { offsets, element } => {
                offsets.truncate(len + 1);
                element.truncate(end_of(offsets));
            }
            Values::Map { offsets, keys, value } => {
                offsets.truncate(len + 1);
                keys.truncate(end_of(offsets));
                value.truncate(end_of(offsets));
            }
        }
        self.validity.truncate(len);
    }

    /// Takes the content; the column stays as an empty one of the same shape.
    pub fn take(&mut self) -> Column {
        let values = match &mut self.values {
            Values::Boolean(bits) => Values::Boolean(std::mem::take(bits)),
            Values::Byte(values) => Values::Byte(renew(values)),
            Values::Short(values) => Values::Short(renew(values)),
            Values::Integer(values) => Values::Integer(renew(values)),
            Values::Long(values) => Values::Long(renew(values)),
            Values::Float(values) => Values::Float(renew(values)),
            Values::Double(values) => Values::Double(renew(values)),
            Values::Decimal { precision, scale, values } => {
                Values::Decimal { precision: *precision, scale: *scale, values: renew(values) }
            }
            Values::Text { max_characters, text } => Values::Text { max_characters: *max_characters, text: text.take() },
            Values::JsonText(text) => Values::JsonText(text.take()),
            Values::Binary { encoding, must_be_text, bytes } => {
                Values::Binary { encoding: *encoding, must_be_text: *must_be_text, bytes: bytes.take() }
            }
            Values::Date(values) => Values::Date(renew(values)),
            Values::Timestamp(values) => Values::Timestamp(renew(values)),
            Values::TimestampNtz(values) => Values::TimestampNtz(renew(values)),
            Values::Struct(fields) => Values::Struct(Box::new(fields.take())),
            Values::List { offsets, element } => {
                Values::List { offsets: std::mem::replace(offsets, vec![0]), element: Box::new(element.take()) }
            }
            Values::Map { offsets, keys, value } => {
                Values::Map { offsets: std::mem::replace(offsets, vec![0]), keys: keys.take(), value: Box::new(value.take()) }
            }
        };
        Column { validity: std::mem::take(&mut self.validity), values, absence: self.absence }
    }

    /// Returns the memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Boolean(bits) => bits.bytes.capacity(),
            Values::Byte(values) => values.capacity(),
            Values::Short(values) => 2 * values.capacity(),
            Values::Integer(values) | Values::Date(values) => 4 * values.capacity(),
            Values::Long(values) | Values::Timestamp(values) | Values::TimestampNtz(values) => 8 * values.capacity(),
            Values::Float(values) => 4 * values.capacity(),
            Values::Double(values) => 8 * values.capacity(),
            Values::Decimal { values, .. } => 16 * values.capacity(),
            Values::Text { text, .. } | Values::JsonText(text) | Values::Binary { bytes: text, .. } => text.memory_bytes(),
            Values::Struct(fields) => fields.columns.iter().map(Column::memory_bytes).sum(),
            Values::List { offsets, element } => 4 * offsets.capacity() + element.memory_bytes(),
            Values::Map { offsets, keys, value } => 4 * offsets.capacity() + keys.memory_bytes() + value.memory_bytes(),
        };
        values + self.validity.bits.as_ref().map_or(0, |bits| bits.bytes.capacity())
    }

    /// Returns what the fullest offset buffer below has reached: offsets are 32 bits wide.
    pub fn widest_offset(&self) -> usize {
        match &self.values {
            Values::Text { text, .. } | Values::JsonText(text) | Values::Binary { bytes: text, .. } => text.bytes.len(),
            Values::Struct(fields) => fields.columns.iter().map(Column::widest_offset).max().unwrap_or_default(),
            Values::List { element, .. } => element.len().max(element.widest_offset()),
            Values::Map { keys, value, .. } => keys.bytes.len().max(value.len()).max(value.widest_offset()),
            _ => 0,
        }
    }
}

impl Absence {
    /// Returns what a column that allows null, or does not, takes when there is no value.
    pub fn of(is_nullable: bool) -> Self {
        if is_nullable { Self::Null } else { Self::NotNull }
    }
}

/// The end of the last closed row.
pub(super) fn end_of(offsets: &[i32]) -> usize {
    offsets.last().map_or(0, |end| *end as usize)
}

/// The number of values for which a new batch reserves room, at most: what a stream that sends little holds for nothing is bounded.
const RESERVED_VALUES: usize = 4096;

fn renew<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len().min(RESERVED_VALUES));
    std::mem::replace(values, next)
}

/// Bits, least significant first, as Arrow packs them; those past the end are zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bits {
    pub len: usize,
    pub bytes: Vec<u8>,
}

impl Bits {
    pub fn push(&mut self, bit: bool) {
        let shift = self.len & 7;
        match self.bytes.last_mut() {
            Some(last) if shift != 0 => *last |= u8::from(bit) << shift,
            _ => self.bytes.push(u8::from(bit)),
        }
        self.len += 1;
    }

    fn ones(len: usize) -> Self {
        let mut bits = Self { len: usize::MAX, bytes: vec![0xff; len.div_ceil(8)] };
        bits.truncate(len);
        bits
    }

    fn get(&self, index: usize) -> bool {
        self.bytes.get(index / 8).is_some_and(|byte| byte >> (index & 7) & 1 == 1)
    }

    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        self.bytes.truncate(len.div_ceil(8));
        if let Some(last) = self.bytes.last_mut()
            && len & 7 != 0
        {
            *last &= (1 << (len & 7)) - 1;
        }
        self.len = len;
    }
}

/// Which rows are not null. A bitmap exists only from the first null on.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Validity {
    pub len: usize,
    pub nulls: usize,
    pub bits: Option<Bits>,
}

impl Validity {
    fn push_valid(&mut self) {
        self.len += 1;
        if let Some(bits) = &mut self.bits {
            bits.push(true);
        }
    }

    fn push_nulls(&mut self, count: usize) {
        let len = self.len;
        let bits = self.bits.get_or_insert_with(|| Bits::ones(len));
        (0..count).for_each(|_| bits.push(false));
        self.len += count;
        self.nulls += count;
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        if let Some(bits) = &mut self.bits {
            self.nulls -= (len..self.len).filter(|index| !bits.get(*index)).count();
            bits.truncate(len);
            if self.nulls == 0 {
                self.bits = None;
            }
        }
        self.len = len;
    }
}

/// Byte strings, one after another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bytes {
    pub offsets: Vec<i32>,
    pub bytes: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Bytes {
    /// Pushes one string.
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end_value();
    }

    /// Ends the string whose bytes were added to `bytes`.
    pub fn end_value(&mut self) {
        // `BatchBuilder` takes no row that could pass 2 GiB in one buffer.
        debug_assert!(i32::try_from(self.bytes.len()).is_ok(), "offsets past 2 GiB would point elsewhere");
        self.offsets.push(self.bytes.len() as i32);
    }

    fn push_empty(&mut self, count: usize) {
        // Bytes of a value that was begun are dropped with it.
        let end = self.offsets.last().copied().unwrap_or_default();
        self.bytes.truncate(end as usize);
        self.offsets.resize(self.offsets.len() + count, end);
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.bytes.truncate(end_of(&self.offsets));
    }

    fn take(&mut self) -> Self {
        let mut offsets = Vec::with_capacity(self.offsets.len().min(RESERVED_VALUES));
        offsets.push(0);
        Self { offsets: std::mem::replace(&mut self.offsets, offsets), bytes: std::mem::take(&mut self.bytes) }
    }

    fn memory_bytes(&self) -> usize {
        4 * self.offsets.capacity() + self.bytes.capacity()
    }
}
