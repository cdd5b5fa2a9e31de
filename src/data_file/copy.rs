//! Copies rows of one data file into another: for a file that holds rows on both sides of the last STATE at a bad end.

use std::io::Write;
use std::ops::Range;

use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::reader::ChunkReader;

use super::FileBuilder;
use super::parquet::read_error;
use crate::{Error, Result};

/// In-memory bytes of one batch on the way from file to file.
const BATCH_BYTES: i64 = 4 << 20;

/// Copies the rows `range` (counted from 0) of a Parquet file that we wrote under the same schema into `into`.
///
/// One batch of some 4 MiB is in memory at a time, beside the row group that `into` builds.
///
/// # Errors
/// `Internal` when the file is not what we wrote, or ends before `range` does; what writing returns.
pub fn copy_rows<R: ChunkReader + 'static, W: Write + Send>(
    source: R,
    range: Range<u64>,
    into: &mut FileBuilder<W>,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let options = ArrowReaderOptions::new().with_schema(into.schema().clone());
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(source, options).map_err(read_error)?;

    let mut first_row = 0u64;
    let mut groups = Vec::new();
    let mut skipped_rows = 0u64;
    let mut batch_rows = 8_192i64;
    for (index, group) in builder.metadata().row_groups().iter().enumerate() {
        let group_rows = group.num_rows();
        let end = first_row + group_rows.unsigned_abs();
        if end <= range.start {
            skipped_rows = end;
        } else if first_row < range.end {
            groups.push(index);
            let row_bytes = (decoded_bytes(group) / group_rows.max(1)).max(1);
            batch_rows = batch_rows.min((BATCH_BYTES / row_bytes).max(1));
        }
        first_row = end;
    }
    if first_row < range.end {
        return Err(Error::internal(format!("rows up to {} of a data file of {first_row} rows were asked for", range.end)));
    }

    let reader = builder
        .with_row_groups(groups)
        .with_offset(to_usize(range.start - skipped_rows)?)
        .with_limit(to_usize(range.end - range.start)?)
        .with_batch_size(usize::try_from(batch_rows).unwrap_or(1))
        .build()
        .map_err(read_error)?;
    for batch in reader {
        into.write(&batch.map_err(|error| read_error(error.into()))?)?;
    }
    Ok(())
}

/// Bytes of a row group's values in memory, as far as the file tells: a text that a dictionary holds once counts for every row.
fn decoded_bytes(group: &RowGroupMetaData) -> i64 {
    let column =
        |column: &ColumnChunkMetaData| column.unencoded_byte_array_data_bytes().unwrap_or(0).max(column.uncompressed_size());
    group.columns().iter().map(column).sum()
}

fn to_usize(rows: u64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::internal(format!("{rows} rows are more than this machine can count")))
}
