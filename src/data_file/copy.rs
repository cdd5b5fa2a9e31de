//! Copies rows of one data file into another: for a file that holds rows on both sides of the last STATE at a bad end.

use std::io::Write;
use std::ops::Range;

use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::reader::ChunkReader;

use super::FileBuilder;
use super::parquet::read_error;
use crate::source::rows_per_batch;
use crate::{Error, Result};

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
    for (index, group) in builder.metadata().row_groups().iter().enumerate() {
        let end = first_row + group.num_rows().unsigned_abs();
        if end <= range.start {
            skipped_rows = end;
        } else if first_row < range.end {
            groups.push(index);
        }
        first_row = end;
    }
    if first_row < range.end {
        return Err(Error::internal(format!("rows up to {} of a data file of {first_row} rows were asked for", range.end)));
    }

    let batch_rows = rows_per_batch(groups.iter().map(|group| builder.metadata().row_group(*group)));
    let reader = builder
        .with_row_groups(groups)
        .with_offset(to_usize(range.start - skipped_rows)?)
        .with_limit(to_usize(range.end - range.start)?)
        .with_batch_size(batch_rows)
        .build()
        .map_err(read_error)?;
    for batch in reader {
        into.write(&batch.map_err(|error| read_error(error.into()))?)?;
    }
    Ok(())
}

fn to_usize(rows: u64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::internal(format!("{rows} rows are more than this machine can count")))
}
