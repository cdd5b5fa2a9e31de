//! One column of a batch, ready to write any of its cells.

use std::io::Write;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, GenericByteArray,
    GenericByteViewArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, BinaryViewType, ByteArrayType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, GenericBinaryType, GenericStringType, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, StringViewType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::text::{
    Unit, put, write_date, write_double, write_duration, write_interval, write_string, write_time, write_timestamp,
};
use super::{key_text, write_object};
use crate::{Error, Result};

const DAY_MILLISECONDS: i64 = 86_400_000;

/// A column: its nulls, and how its other cells are written.
pub(super) struct Column<'a> {
    nulls: Option<NullBuffer>,
    cell: Cell<'a>,
}

impl<'a> Column<'a> {
    /// Looks the type up once, for all cells.
    ///
    /// # Errors
    /// `Input` field error for a type without JSON text.
    pub fn new(array: &'a ArrayRef) -> Result<Self> {
        Ok(Self { nulls: array.nulls().cloned(), cell: cell(array)? })
    }

    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => out.extend_from_slice(b"null"),
            _ => (self.cell)(row, out),
        }
    }
}

type Cell<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

fn cell(array: &ArrayRef) -> Result<Cell<'_>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, out| out.extend_from_slice(b"null")),
        DataType::Boolean => boolean(array.as_boolean()),
        DataType::Int8 => displayed::<Int8Type>(array),
        DataType::Int16 => displayed::<Int16Type>(array),
        DataType::Int32 => displayed::<Int32Type>(array),
        DataType::Int64 => displayed::<Int64Type>(array),
        DataType::UInt8 => displayed::<UInt8Type>(array),
        DataType::UInt16 => displayed::<UInt16Type>(array),
        DataType::UInt32 => displayed::<UInt32Type>(array),
        DataType::UInt64 => displayed::<UInt64Type>(array),
        DataType::Float16 => primitive::<Float16Type>(array, |value, out| write_double(value.to_f64(), out)),
        DataType::Float32 => primitive::<Float32Type>(array, |value, out| write_double(value.into(), out)),
        DataType::Float64 => primitive::<Float64Type>(array, write_double),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(array),
        DataType::Utf8 => string::<i32>(array.as_string()),
        DataType::LargeUtf8 => string::<i64>(array.as_string()),
        DataType::Utf8View => string_view(array.as_byte_view()),
        DataType::Binary => binary::<GenericBinaryType<i32>>(array.as_bytes()),
        DataType::LargeBinary => binary::<GenericBinaryType<i64>>(array.as_bytes()),
        DataType::BinaryView => binary_view(array.as_byte_view()),
        DataType::FixedSizeBinary(_) => fixed_binary(array.as_fixed_size_binary()),
        DataType::Date32 => primitive::<Date32Type>(array, |value, out| write_date(value.into(), out)),
        DataType::Date64 => primitive::<Date64Type>(array, |value, out| match value.rem_euclid(DAY_MILLISECONDS) {
            0 => write_date(value.div_euclid(DAY_MILLISECONDS), out),
            _ => write_timestamp(value, Unit::MILLISECOND, false, out),
        }),
        DataType::Time32(Second) => primitive::<Time32SecondType>(array, |v, out| write_time(v.into(), Unit::SECOND, out)),
        DataType::Time32(_) => primitive::<Time32MillisecondType>(array, |v, out| write_time(v.into(), Unit::MILLISECOND, out)),
        DataType::Time64(Microsecond) => {
            primitive::<Time64MicrosecondType>(array, |v, out| write_time(v, Unit::MICROSECOND, out))
        }
        DataType::Time64(_) => primitive::<Time64NanosecondType>(array, |v, out| write_time(v, Unit::NANOSECOND, out)),
        DataType::Timestamp(unit, zone) => {
            let is_instant = zone.is_some();
            match unit {
                Second => timestamp::<TimestampSecondType>(array, unit, is_instant),
                Millisecond => timestamp::<TimestampMillisecondType>(array, unit, is_instant),
                Microsecond => timestamp::<TimestampMicrosecondType>(array, unit, is_instant),
                Nanosecond => timestamp::<TimestampNanosecondType>(array, unit, is_instant),
            }
        }
        DataType::Duration(unit) => match unit {
            Second => primitive::<DurationSecondType>(array, |v, out| write_duration(v, Unit::SECOND, out)),
            Millisecond => primitive::<DurationMillisecondType>(array, |v, out| write_duration(v, Unit::MILLISECOND, out)),
            Microsecond => primitive::<DurationMicrosecondType>(array, |v, out| write_duration(v, Unit::MICROSECOND, out)),
            Nanosecond => primitive::<DurationNanosecondType>(array, |v, out| write_duration(v, Unit::NANOSECOND, out)),
        },
        DataType::Interval(unit) => match unit {
            IntervalUnit::YearMonth => {
                primitive::<IntervalYearMonthType>(array, |v, out| write_interval(v.into(), 0, 0, Unit::SECOND, out))
            }
            IntervalUnit::DayTime => primitive::<IntervalDayTimeType>(array, |v, out| {
                write_interval(0, v.days.into(), v.milliseconds.into(), Unit::MILLISECOND, out);
            }),
            IntervalUnit::MonthDayNano => primitive::<IntervalMonthDayNanoType>(array, |v, out| {
                write_interval(v.months.into(), v.days.into(), v.nanoseconds, Unit::NANOSECOND, out);
            }),
        },
        DataType::List(_) => list::<i32>(array.as_list())?,
        DataType::LargeList(_) => list::<i64>(array.as_list())?,
        DataType::ListView(_) => list_view::<i32>(array.as_list_view())?,
        DataType::LargeListView(_) => list_view::<i64>(array.as_list_view())?,
        DataType::FixedSizeList(..) => fixed_list(array.as_fixed_size_list())?,
        DataType::Struct(fields) => {
            let mut columns = Vec::with_capacity(fields.len());
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                columns.push((key_text(field.name()), Column::new(child).map_err(|error| error.in_field(field.name()))?));
            }
            Box::new(move |row, out| write_object(&columns, row, out))
        }
        DataType::Map(..) => map(array.as_map())?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = Column::new(dictionary.values())?;
            if dictionary.values().is_empty() {
                // All keys are null.
                return Ok(Box::new(|_, out| out.extend_from_slice(b"null")));
            }
            let keys = dictionary.normalized_keys();
            Box::new(move |row, out| values.write(keys[row], out))
        }
        other => return Err(Error::input(format!("is of type {other}, which is not read"))),
    })
}

fn boolean(array: &BooleanArray) -> Cell<'_> {
    Box::new(|row, out| out.extend_from_slice(if array.value(row) { b"true" as &[u8] } else { b"false" }))
}

fn primitive<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, write: impl Fn(T::Native, &mut Vec<u8>) + 'a) -> Cell<'a> {
    let values = array.as_primitive::<T>().values();
    Box::new(move |row, out| write(values[row], out))
}

fn displayed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Cell<'_>
where
    T::Native: std::fmt::Display,
{
    primitive::<T>(array, |value, out| {
        put!(out, "{value}");
    })
}

fn timestamp<'a, T: ArrowPrimitiveType<Native = i64>>(array: &'a ArrayRef, unit: &TimeUnit, is_instant: bool) -> Cell<'a> {
    let unit = Unit::from(unit);
    primitive::<T>(array, move |value, out| write_timestamp(value, unit, is_instant, out))
}

fn decimal<T: DecimalType>(array: &ArrayRef) -> Cell<'_> {
    let decimals: &PrimitiveArray<T> = array.as_primitive();
    Box::new(|row, out| out.extend_from_slice(decimals.value_as_string(row).as_bytes()))
}

fn string<O: OffsetSizeTrait>(array: &GenericByteArray<GenericStringType<O>>) -> Cell<'_> {
    Box::new(|row, out| write_string(array.value(row), out))
}

fn string_view(array: &GenericByteViewArray<StringViewType>) -> Cell<'_> {
    Box::new(|row, out| write_string(array.value(row), out))
}

fn binary<T: ByteArrayType<Native = [u8]>>(array: &GenericByteArray<T>) -> Cell<'_> {
    Box::new(|row, out| write_base64(array.value(row), out))
}

fn binary_view(array: &GenericByteViewArray<BinaryViewType>) -> Cell<'_> {
    Box::new(|row, out| write_base64(array.value(row), out))
}

fn fixed_binary(array: &FixedSizeBinaryArray) -> Cell<'_> {
    Box::new(|row, out| write_base64(array.value(row), out))
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<Cell<'_>> {
    let elements = Column::new(array.values())?;
    let offsets = array.value_offsets();
    Ok(Box::new(move |row, out| write_list(&elements, offsets[row].as_usize()..offsets[row + 1].as_usize(), out)))
}

fn list_view<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> Result<Cell<'_>> {
    let elements = Column::new(array.values())?;
    let (offsets, sizes) = (array.value_offsets(), array.value_sizes());
    Ok(Box::new(move |row, out| {
        let first = offsets[row].as_usize();
        write_list(&elements, first..first + sizes[row].as_usize(), out);
    }))
}

fn fixed_list(array: &FixedSizeListArray) -> Result<Cell<'_>> {
    let elements = Column::new(array.values())?;
    let size = array.value_length().as_usize();
    Ok(Box::new(move |row, out| {
        let first = array.value_offset(row).as_usize();
        write_list(&elements, first..first + size, out);
    }))
}

fn write_list(elements: &Column, range: Range<usize>, out: &mut Vec<u8>) {
    out.push(b'[');
    let first = range.start;
    for index in range {
        if index > first {
            out.push(b',');
        }
        elements.write(index, out);
    }
    out.push(b']');
}

/// A map is an object: keys that are not text become it.
fn map(array: &MapArray) -> Result<Cell<'_>> {
    let (keys, values) = (Column::new(array.keys())?, Column::new(array.values())?);
    let offsets = array.value_offsets();
    Ok(Box::new(move |row, out| {
        out.push(b'{');
        let first = offsets[row].as_usize();
        for index in first..offsets[row + 1].as_usize() {
            if index > first {
                out.push(b',');
            }
            let start = out.len();
            keys.write(index, out);
            if out.get(start) != Some(&b'"') {
                let key = out.split_off(start);
                write_string(&String::from_utf8_lossy(&key), out);
            }
            out.push(b':');
            values.write(index, out);
        }
        out.push(b'}');
    }))
}
