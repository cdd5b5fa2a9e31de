//! Which encoding each leaf column of a file gets, decided from its first rows.
//!
//! A dictionary everywhere, the library's default, makes files a quarter larger and slower to write; none at all makes columns of
//! few distinct values three times as large. So the distinct share of a sample decides, column by column, and integers whose
//! neighbours are close go as packed differences.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;

/// Rows that the sample holds at most: a quarter of a second's input, and enough to tell 5,000 distinct values from 50,000.
pub(super) const SAMPLE_ROWS: usize = 16_384;

/// Rows of a full row group, for which the sizes are estimated.
const ROW_GROUP_ROWS: f64 = 131_072.0;

/// Bytes of a dictionary above which the writer gives it up in the middle of a row group, having paid for it.
pub(super) const DICTIONARY_BYTES: usize = 1 << 20;

/// Zstandard at level 1 leaves about so much of plain text and plain numbers of business data.
const PLAIN_RATIO: f64 = 0.45;

/// How the values of a leaf column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// One after the other.
    Plain,
    /// A dictionary page and indexes, plain when it grows too large.
    Dictionary,
    /// DELTA_BINARY_PACKED, only for integers, dates and timestamps that are not nested: readers with a vectorised path for it
    /// have it for flat columns.
    Delta,
}

/// A leaf of a batch, in the order of the Parquet schema's columns.
pub(super) struct Leaf {
    /// Its values, those under null parents included.
    pub array: ArrayRef,
    /// Whether it is inside a struct, list or map.
    pub is_nested: bool,
}

/// Returns the leaves of a batch.
pub(super) fn leaves(batch: &RecordBatch) -> Vec<Leaf> {
    let mut leaves = Vec::with_capacity(batch.num_columns());
    for column in batch.columns() {
        collect(column, false, &mut leaves);
    }
    leaves
}

fn collect(array: &ArrayRef, is_nested: bool, leaves: &mut Vec<Leaf>) {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|child| collect(child, true, leaves)),
        DataType::List(_) => collect(&list_values(array), true, leaves),
        DataType::Map(..) => map_entries(array.as_map()).columns().iter().for_each(|child| collect(child, true, leaves)),
        _ => leaves.push(Leaf { array: array.clone(), is_nested }),
    }
}

/// Returns the elements of the lists of `array`, and of no others.
fn list_values(array: &ArrayRef) -> ArrayRef {
    let list = array.as_list::<i32>();
    let (first, last) = span(list.value_offsets());
    list.values().slice(first, last - first)
}

fn map_entries(map: &MapArray) -> StructArray {
    let (first, last) = span(map.value_offsets());
    map.entries().slice(first, last - first)
}

fn span(offsets: &[i32]) -> (usize, usize) {
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    (first as usize, last as usize)
}

/// Returns the bytes that the values of a batch take, without spare capacity and without what a slice does not show.
pub(super) fn batch_bytes(batch: &RecordBatch) -> usize {
    leaves(batch).iter().map(|leaf| array_bytes(&leaf.array)).sum()
}

fn array_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Utf8 => value_bytes(array.as_string::<i32>().value_offsets()) + 4 * rows,
        DataType::Binary => value_bytes(array.as_binary::<i32>().value_offsets()) + 4 * rows,
        other => other.primitive_width().unwrap_or(1) * rows,
    }
}

fn value_bytes(offsets: &[i32]) -> usize {
    let (first, last) = span(offsets);
    last - first
}

/// Returns whether some value of the leaf is longer than `limit` bytes.
pub(super) fn has_value_over(array: &ArrayRef, limit: usize) -> bool {
    let offsets = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value_offsets(),
        DataType::Binary => array.as_binary::<i32>().value_offsets(),
        _ => return false,
    };
    value_bytes(offsets) > limit && offsets.windows(2).any(|pair| (pair[1] - pair[0]) as usize > limit)
}

/// Returns the choice for each leaf, from the first rows of the file.
pub(super) fn choose(sample: &[RecordBatch]) -> Vec<Choice> {
    let mut sampled: Vec<Sampled> = Vec::new();
    let mut rows = 0;
    for batch in sample {
        let batch = batch.slice(0, batch.num_rows().min(SAMPLE_ROWS - rows));
        rows += batch.num_rows();
        for (index, leaf) in leaves(&batch).iter().enumerate() {
            if sampled.len() == index {
                sampled.push(Sampled::new(&leaf.array, leaf.is_nested));
            }
            sampled[index].add(&leaf.array);
        }
        if rows == SAMPLE_ROWS {
            break;
        }
    }
    sampled.iter().map(|leaf| leaf.choice(rows)).collect()
}

/// What the sample says about one leaf.
struct Sampled {
    may_use_dictionary: bool,
    may_use_delta: bool,
    /// Hashes of the distinct values.
    distinct: HashSet<u64, BuildHasherDefault<AsIs>>,
    /// Values that are not null.
    count: usize,
    /// Bytes of these values in plain encoding.
    bytes: usize,
    /// Bits per value in packed differences, summed over whole blocks of 32.
    delta_bits: u64,
    delta_values: u64,
    previous: Option<i64>,
    block: Vec<i64>,
}

impl Sampled {
    fn new(array: &ArrayRef, is_nested: bool) -> Self {
        let is_integer = matches!(
            array.data_type(),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Timestamp(..)
        );
        Self {
            may_use_dictionary: *array.data_type() != DataType::Boolean,
            may_use_delta: is_integer && !is_nested,
            distinct: HashSet::default(),
            count: 0,
            bytes: 0,
            delta_bits: 0,
            delta_values: 0,
            previous: None,
            block: Vec::with_capacity(32),
        }
    }

    fn add(&mut self, array: &ArrayRef) {
        match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().for_each(|value| self.add_bytes(value.as_bytes())),
            DataType::Binary => array.as_binary::<i32>().iter().flatten().for_each(|value| self.add_bytes(value)),
            DataType::Int8 => self.add_integers(array.as_primitive::<Int8Type>().iter(), 4),
            DataType::Int16 => self.add_integers(array.as_primitive::<Int16Type>().iter(), 4),
            DataType::Int32 => self.add_integers(array.as_primitive::<Int32Type>().iter(), 4),
            DataType::Date32 => self.add_integers(array.as_primitive::<Date32Type>().iter(), 4),
            DataType::Int64 => self.add_integers(array.as_primitive::<Int64Type>().iter(), 8),
            DataType::Timestamp(..) => self.add_integers(array.as_primitive::<TimestampMicrosecondType>().iter(), 8),
            DataType::Float32 => {
                array.as_primitive::<Float32Type>().iter().flatten().for_each(|v| self.add_word(v.to_bits().into(), 4));
            }
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().iter().flatten().for_each(|v| self.add_word(v.to_bits(), 8));
            }
            DataType::Decimal128(precision, _) => {
                let width = decimal_bytes(*precision);
                for value in array.as_primitive::<Decimal128Type>().iter().flatten() {
                    self.add_word(mix(value as u64) ^ (value >> 64) as u64, width);
                }
            }
            _ => {}
        }
    }

    fn add_bytes(&mut self, value: &[u8]) {
        self.distinct.insert(hash_bytes(value));
        self.count += 1;
        self.bytes += value.len() + 4;
    }

    fn add_word(&mut self, value: u64, width: usize) {
        self.distinct.insert(mix(value));
        self.count += 1;
        self.bytes += width;
    }

    fn add_integers<T: Into<i64>>(&mut self, values: impl Iterator<Item = Option<T>>, width: usize) {
        for value in values.flatten() {
            let value: i64 = value.into();
            self.add_word(value as u64, width);
            if let Some(previous) = self.previous.replace(value) {
                self.block.push(value.wrapping_sub(previous));
                if self.block.len() == 32 {
                    self.close_block();
                }
            }
        }
    }

    fn close_block(&mut self) {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for &difference in &self.block {
            least = least.min(difference);
            most = most.max(difference);
        }
        self.delta_bits += 32 * u64::from(64 - (most.wrapping_sub(least) as u64).leading_zeros());
        self.delta_values += 32;
        self.block.clear();
    }

    /// Compares estimated sizes of the column in a full row group.
    fn choice(&self, sampled_rows: usize) -> Choice {
        if self.count == 0 {
            return Choice::Plain;
        }
        let count = self.count as f64;
        let value_bytes = self.bytes as f64 / count;
        let values = ROW_GROUP_ROWS * count / sampled_rows.max(1) as f64;
        let distinct = distinct_among(values.max(count), self.distinct.len() as f64, count);
        let index_bytes = values * distinct.log2().ceil().max(1.0) / 8.0;
        let dictionary = index_bytes + distinct * value_bytes * PLAIN_RATIO;
        let is_small = distinct * value_bytes <= DICTIONARY_BYTES as f64;
        let plain = values * value_bytes * PLAIN_RATIO;
        let use_dictionary = self.may_use_dictionary && is_small && dictionary < plain;
        if self.may_use_delta && self.delta_values > 0 {
            // Blocks of 128 have a header of some 14 bytes.
            let packed_bytes = self.delta_bits as f64 / self.delta_values as f64 / 8.0 + 0.11;
            if packed_bytes <= 0.75 * value_bytes && !(use_dictionary && dictionary < 0.6 * values * packed_bytes) {
                return Choice::Delta;
            }
        }
        if use_dictionary { Choice::Dictionary } else { Choice::Plain }
    }
}

/// Returns how many distinct values to expect among `values`, when `seen` were distinct among `count`: values drawn evenly from a
/// domain of D give D(1 − e^(−n/D)) distinct ones among n.
fn distinct_among(values: f64, seen: f64, count: f64) -> f64 {
    if seen >= count {
        return values;
    }
    let (mut low, mut high) = (seen, seen * 1e6);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if middle * -(-count / middle).exp_m1() < seen { low = middle } else { high = middle }
    }
    (high * -(-values / high).exp_m1()).max(1.0)
}

/// Returns the bytes of a decimal of so many digits in Parquet.
fn decimal_bytes(precision: u8) -> usize {
    match precision {
        0..=9 => 4,
        10..=18 => 8,
        _ => ((f64::from(precision) * 10f64.log2() + 1.0) / 8.0).ceil() as usize,
    }
}

fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    (product >> 64) as u64 ^ product as u64
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = mix(bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        state = mix(state ^ chunk.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    mix(state ^ chunks.remainder().iter().fold(1, |word, &byte| word << 8 | u64::from(byte)))
}

/// A hasher for values that are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray};

    use super::*;

    fn choice_of(array: ArrayRef) -> Choice {
        let batch = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
        choose(&[batch])[0]
    }

    fn scrambled(row: u64) -> u64 {
        mix(row.wrapping_mul(77))
    }

    #[test]
    fn few_distinct_texts_get_a_dictionary_and_many_do_not() {
        let country = StringArray::from_iter_values((0..20_000u64).map(|row| format!("country {}", scrambled(row) % 200)));
        assert_eq!(choice_of(Arc::new(country)), Choice::Dictionary);
        let street = StringArray::from_iter_values((0..20_000u64).map(|row| format!("{} High Street", scrambled(row) % 5_000)));
        assert_eq!(choice_of(Arc::new(street)), Choice::Dictionary);
        let session = StringArray::from_iter_values((0..20_000u64).map(|row| format!("{:016x}", scrambled(row))));
        assert_eq!(choice_of(Arc::new(session)), Choice::Plain);
        let cents = Float64Array::from_iter_values((0..20_000u64).map(|row| (scrambled(row) % 1_000) as f64 / 100.0));
        assert_eq!(choice_of(Arc::new(cents)), Choice::Dictionary);
        let measure = Float64Array::from_iter_values((0..20_000u64).map(|row| scrambled(row) as f64 / 1e19));
        assert_eq!(choice_of(Arc::new(measure)), Choice::Plain);
    }

    #[test]
    fn integers_with_close_neighbours_go_as_differences_and_random_ones_plain() {
        let id = Int64Array::from_iter_values(0..20_000);
        assert_eq!(choice_of(Arc::new(id)), Choice::Delta);
        let user = Int64Array::from_iter_values((0..20_000u64).map(|row| (scrambled(row) % 1_000_000) as i64));
        assert_eq!(choice_of(Arc::new(user)), Choice::Delta);
        let hash = Int64Array::from_iter_values((0..20_000u64).map(|row| scrambled(row) as i64));
        assert_eq!(choice_of(Arc::new(hash)), Choice::Plain);
        let code =
            Int64Array::from_iter_values((0..20_000u64).map(|row| [7, 400_000_000_000, -3_000_000_000_000][row as usize % 3]));
        assert_eq!(choice_of(Arc::new(code)), Choice::Dictionary);
    }

    #[test]
    fn booleans_and_columns_of_nulls_stay_plain() {
        assert_eq!(choice_of(Arc::new(BooleanArray::from(vec![true; 100]))), Choice::Plain);
        assert_eq!(choice_of(Arc::new(StringArray::new_null(100))), Choice::Plain);
    }

    #[test]
    fn the_estimate_of_distinct_values_fits_an_even_draw() {
        let among_sample = 5_000.0 * -(-16_384.0f64 / 5_000.0).exp_m1();
        let estimate = distinct_among(131_072.0, among_sample, 16_384.0);
        assert!((4_900.0..5_100.0).contains(&estimate), "{estimate}");
        assert_eq!(distinct_among(131_072.0, 16_384.0, 16_384.0), 131_072.0);
    }
}
