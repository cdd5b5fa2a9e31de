//! Cells of Arrow columns as JSON text, with every digit that they have.
//!
//! Numbers keep their digits, decimals are plain number text, a 32-bit float is its value as a double. Instants end in `Z`, wall clocks
//! in nothing, binary is base 64, maps are objects, NaN and the infinities stand bare as taps send them.

mod cells;
mod text;

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

use self::cells::Column;
use self::text::write_string;
use crate::{Error, Result};

/// Writes the rows of `batch` one after the other, each as an object, until `text` has `limit_bytes`; at least one. `ends` gets the end
/// of each in `text`.
///
/// # Errors
/// `Input` field error for a type without JSON text.
pub(super) fn write_rows(batch: &RecordBatch, limit_bytes: usize, text: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<()> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        columns.push((key_text(field.name()), Column::new(array).map_err(|error| error.in_field(field.name()))?));
    }
    for row in 0..batch.num_rows() {
        write_object(&columns, row, text);
        ends.push(text.len());
        if text.len() >= limit_bytes {
            break;
        }
    }
    Ok(())
}

/// Refuses a type whose values have no JSON text.
///
/// # Errors
/// `Input` field error that names the type.
pub(super) fn check_type(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => {
            Err(Error::input(format!("is of type {data_type}, which is not read")))
        }
        DataType::Dictionary(_, values) => check_type(values),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::Map(element, _) => check_type(element.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_type(field.data_type())),
        _ => Ok(()),
    }
}

/// A name as an object's key, with its colon.
fn key_text(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 3);
    write_string(name, &mut key);
    key.push(b':');
    key
}

fn write_object(columns: &[(Vec<u8>, Column)], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, column)) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        column.write(row, out);
    }
    out.push(b'}');
}
