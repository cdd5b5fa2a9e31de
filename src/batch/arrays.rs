//! Columns to Arrow arrays, without a copy.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

use super::column::{Bits, Bytes, Column, Validity, Values};

/// Returns the column as an array of `field`'s type.
///
/// Errors: when the type is not the column's, or a null stands where `field` allows none.
pub(super) fn array_of(column: Column, field: &Field) -> Result<ArrayRef, ArrowError> {
    let rows = column.len();
    let nulls = nulls_of(column.validity);
    let mismatch = || ArrowError::SchemaError(format!("column `{}` is not of type {}", field.name(), field.data_type()));
    let array: ArrayRef = match (column.values, field.data_type()) {
        (Values::Boolean(bits), DataType::Boolean) => Arc::new(BooleanArray::new(buffer_of(bits), nulls)),
        (Values::Byte(values), DataType::Int8) => Arc::new(Int8Array::try_new(values.into(), nulls)?),
        (Values::Short(values), DataType::Int16) => Arc::new(Int16Array::try_new(values.into(), nulls)?),
        (Values::Integer(values), DataType::Int32) => Arc::new(Int32Array::try_new(values.into(), nulls)?),
        (Values::Long(values), DataType::Int64) => Arc::new(Int64Array::try_new(values.into(), nulls)?),
        (Values::Float(values), DataType::Float32) => Arc::new(Float32Array::try_new(values.into(), nulls)?),
        (Values::Double(values), DataType::Float64) => Arc::new(Float64Array::try_new(values.into(), nulls)?),
        (Values::Decimal { values, .. }, DataType::Decimal128(precision, scale)) => {
            Arc::new(Decimal128Array::try_new(values.into(), nulls)?.with_precision_and_scale(*precision, *scale)?)
        }
        (Values::Text { text, .. } | Values::JsonText(text), DataType::Utf8) => {
            Arc::new(StringArray::try_new(offsets_of(text.offsets), Buffer::from_vec(text.bytes), nulls)?)
        }
        (Values::Binary { bytes: Bytes { offsets, bytes }, .. }, DataType::Binary) => {
            Arc::new(BinaryArray::try_new(offsets_of(offsets), Buffer::from_vec(bytes), nulls)?)
        }
        (Values::Date(values), DataType::Date32) => Arc::new(Date32Array::try_new(values.into(), nulls)?),
        (Values::Timestamp(values) | Values::TimestampNtz(values), DataType::Timestamp(_, zone)) => {
            Arc::new(TimestampMicrosecondArray::try_new(values.into(), nulls)?.with_timezone_opt(zone.clone()))
        }
        (Values::Struct(fields), DataType::Struct(types)) => {
            if fields.columns.len() != types.len() {
                return Err(mismatch());
            }
            let children = fields.columns.into_iter().zip(types).map(|(column, field)| array_of(column, field));
            Arc::new(StructArray::try_new_with_length(types.clone(), children.collect::<Result<_, _>>()?, nulls, rows)?)
        }
        (Values::List { offsets, element }, DataType::List(item)) => {
            Arc::new(ListArray::try_new(item.clone(), offsets_of(offsets), array_of(*element, item)?, nulls)?)
        }
        (Values::Map { offsets, keys, value }, DataType::Map(entries, is_sorted)) => {
            let DataType::Struct(types) = entries.data_type() else { return Err(mismatch()) };
            let [_, value_field] = &types[..] else { return Err(mismatch()) };
            let keys = StringArray::try_new(offsets_of(keys.offsets), Buffer::from_vec(keys.bytes), None)?;
            let value = array_of(*value, value_field)?;
            let pairs = StructArray::try_new(types.clone(), vec![Arc::new(keys), value], None)?;
            Arc::new(MapArray::try_new(entries.clone(), offsets_of(offsets), pairs, nulls, *is_sorted)?)
        }
        _ => return Err(mismatch()),
    };
    Ok(array)
}

fn nulls_of(validity: Validity) -> Option<NullBuffer> {
    validity.bits.map(|bits| NullBuffer::new(buffer_of(bits)))
}

fn buffer_of(bits: Bits) -> BooleanBuffer {
    BooleanBuffer::new(Buffer::from_vec(bits.bytes), 0, bits.len)
}

fn offsets_of(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}
