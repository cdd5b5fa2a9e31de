//! Files as the library's own reader sees them.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::basic::Encoding;
use ::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use ::parquet::schema::printer::print_schema;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::delta::StatisticsColumns;

fn options() -> Options {
    Options::default()
}

fn builder(schema: SchemaRef) -> FileBuilder<Vec<u8>> {
    FileBuilder::new(Vec::new(), schema, &options(), &StatisticsColumns::default()).unwrap()
}

pub(super) fn batch_of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn file_of(batches: &[RecordBatch]) -> (Bytes, Written) {
    let mut file = builder(batches[0].schema());
    for batch in batches {
        file.write(batch).unwrap();
    }
    let (bytes, written) = file.close().unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);
    (bytes.into(), written)
}

fn read(bytes: &Bytes) -> (SchemaRef, Vec<RecordBatch>, Arc<ParquetMetaData>) {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options).unwrap();
    let (schema, metadata) = (builder.schema().clone(), builder.metadata().clone());
    (schema, builder.build().unwrap().map(Result::unwrap).collect(), metadata)
}

fn rows_of(bytes: &Bytes) -> RecordBatch {
    let (schema, batches, _) = read(bytes);
    concat_batches(&schema, &batches).unwrap()
}

/// One column of every type that a table has, three rows.
fn every_type() -> RecordBatch {
    let decimal = |precision, scale, values: [i128; 3]| -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap())
    };
    let element = Arc::new(Field::new("element", DataType::Utf8, true));
    let list = ListArray::new(
        element,
        OffsetBuffer::new(vec![0, 2, 2, 3].into()),
        Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])),
        Some(vec![true, false, true].into()),
    );
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("key", DataType::Utf8, false)), Arc::new(StringArray::from(vec!["k", "l"])) as ArrayRef),
        (Arc::new(Field::new("value", DataType::Int64, true)), Arc::new(Int64Array::from(vec![Some(1), None]))),
    ]);
    let key_value = Arc::new(Field::new("key_value", entries.data_type().clone(), false));
    let map = MapArray::new(key_value, OffsetBuffer::new(vec![0, 1, 1, 2].into()), entries, None, false);
    let fields: Fields = vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Utf8, true)].into();
    let nested = StructArray::new(
        fields,
        vec![Arc::new(Int64Array::from(vec![1, 2, 3])), Arc::new(StringArray::from(vec!["p", "q", "r"]))],
        Some(vec![true, false, true].into()),
    );
    batch_of(vec![
        ("boolean", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("byte", Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]))),
        ("short", Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)]))),
        ("integer", Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)]))),
        ("long", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("float", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(-1.5)]))),
        ("double", Arc::new(Float64Array::from(vec![Some(0.1), None, Some(-1.5)]))),
        ("decimal9", decimal(9, 2, [1, -999_999_999, 999_999_999])),
        ("decimal18", decimal(18, 0, [1, -999_999_999_999_999_999, 3])),
        ("decimal38", decimal(38, 10, [1, 10i128.pow(38) - 1, 1 - 10i128.pow(38)])),
        ("string", Arc::new(StringArray::from(vec![Some("ä"), None, Some("")]))),
        ("binary", Arc::new(BinaryArray::from(vec![Some(b"\xFF\x00" as &[u8]), None, Some(b"")]))),
        ("date", Arc::new(Date32Array::from(vec![Some(-141_428), None, Some(19_723)]))),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC"))),
        ("timestamp_ntz", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]))),
        ("list", Arc::new(list)),
        ("map", Arc::new(map)),
        ("struct", Arc::new(nested)),
    ])
}

#[test]
fn every_type_has_the_parquet_form_that_readers_know() {
    let (bytes, written) = file_of(&[every_type()]);
    assert_eq!(written.rows, 3);
    let (_, _, metadata) = read(&bytes);
    let mut printed = Vec::new();
    print_schema(&mut printed, metadata.file_metadata().schema());
    assert_eq!(
        String::from_utf8(printed).unwrap().trim(),
        "message schema {
  OPTIONAL BOOLEAN boolean;
  OPTIONAL INT32 byte (INTEGER(8,true));
  OPTIONAL INT32 short (INTEGER(16,true));
  OPTIONAL INT32 integer;
  OPTIONAL INT64 long;
  OPTIONAL FLOAT float;
  OPTIONAL DOUBLE double;
  OPTIONAL INT32 decimal9 (DECIMAL(9,2));
  OPTIONAL INT64 decimal18 (DECIMAL(18,0));
  OPTIONAL FIXED_LEN_BYTE_ARRAY (16) decimal38 (DECIMAL(38,10));
  OPTIONAL BYTE_ARRAY string (STRING);
  OPTIONAL BYTE_ARRAY binary;
  OPTIONAL INT32 date (DATE);
  OPTIONAL INT64 timestamp (TIMESTAMP(MICROS,true));
  OPTIONAL INT64 timestamp_ntz (TIMESTAMP(MICROS,false));
  OPTIONAL group list (LIST) {
    REPEATED group list {
      OPTIONAL BYTE_ARRAY element (STRING);
    }
  }
  OPTIONAL group map (MAP) {
    REPEATED group key_value {
      REQUIRED BYTE_ARRAY key (STRING);
      OPTIONAL INT64 value;
    }
  }
  OPTIONAL group struct {
    OPTIONAL INT64 x;
    OPTIONAL BYTE_ARRAY y (STRING);
  }
}"
    );
    let file_metadata = metadata.file_metadata();
    assert_eq!(file_metadata.key_value_metadata(), None, "no Arrow schema beside Parquet's");
    assert!(file_metadata.created_by().unwrap().starts_with("delta-load version "));
    assert!(metadata.column_index().is_some() && metadata.offset_index().is_some());
}

#[test]
fn every_type_comes_back() {
    let batch = every_type();
    let (bytes, _) = file_of(std::slice::from_ref(&batch));
    let back = rows_of(&bytes);
    for (index, field) in batch.schema().fields().iter().enumerate() {
        assert_eq!(batch.column(index).as_ref(), back.column(index).as_ref(), "{}", field.name());
    }
}

#[test]
fn every_codec_comes_back() {
    for compression in [
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Gzip(6),
        Compression::Zstd(1),
        Compression::Zstd(19),
    ] {
        let batch = every_type();
        let options = Options { compression, ..options() };
        let mut file = FileBuilder::new(Vec::new(), batch.schema(), &options, &StatisticsColumns::default()).unwrap();
        file.write(&batch).unwrap();
        let (bytes, _) = file.close().unwrap();
        assert_eq!(rows_of(&bytes.into()).num_rows(), 3, "{compression:?}");
    }
    let options = Options { compression: Compression::Zstd(99), ..options() };
    let error = FileBuilder::new(Vec::new(), every_type().schema(), &options, &StatisticsColumns::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn types_that_readers_take_for_others_are_refused() {
    let refused = [
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())),
        DataType::Decimal128(5, -2),
        DataType::Struct(Fields::empty()),
        DataType::List(Arc::new(Field::new("item", DataType::Int64, true))),
        DataType::UInt64,
    ];
    for data_type in refused {
        let schema = Schema::new(vec![Field::new("a", data_type.clone(), true)]);
        let error = FileBuilder::new(Vec::new(), Arc::new(schema), &options(), &StatisticsColumns::default()).unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Internal, Some("a")), "{data_type}");
    }
    let error = FileBuilder::new(Vec::new(), Arc::new(Schema::empty()), &options(), &StatisticsColumns::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let mut file = builder(batch_of(vec![("a", Arc::new(Int64Array::from(vec![1])))]).schema());
    let other = batch_of(vec![("a", Arc::new(StringArray::from(vec!["x"])))]);
    assert_eq!(file.write(&other).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_file_without_rows_is_a_file() {
    let (bytes, written) = builder(every_type().schema()).close().unwrap();
    assert_eq!((written.rows, written.bytes), (0, bytes.len() as u64));
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    assert_eq!((builder.metadata().file_metadata().num_rows(), builder.schema().fields().len()), (0, 18));
}

#[test]
fn row_groups_are_bounded_in_rows() {
    let batch = batch_of(vec![("a", Arc::new(Int64Array::from_iter_values(0..150_000)))]);
    let (bytes, _) = file_of(&[batch.clone(), batch.slice(0, 100_000), batch.clone()]);
    let (_, _, metadata) = read(&bytes);
    let rows: Vec<i64> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [131_072, 131_072, 131_072, 6_784]);
}

#[test]
fn row_groups_and_memory_are_bounded_in_bytes() {
    let mut state = 7u64;
    let mut text = |length: usize| -> String {
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + (state >> 33) as u8 % 95)
            })
            .collect()
    };
    let batch = batch_of(vec![("a", Arc::new(StringArray::from_iter_values((0..1_500).map(|_| text(40_000)))))]);
    let mut file = builder(batch.schema());
    file.write(&batch).unwrap();
    assert!(file.memory_bytes() < 60 << 20, "{}", file.memory_bytes());
    assert!(file.encoded_bytes() > 40 << 20, "{}", file.encoded_bytes());
    let (bytes, written) = file.close().unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    let (_, _, metadata) = read(&bytes.into());
    assert!(metadata.num_row_groups() >= 2);
    assert!(metadata.row_groups().iter().all(|group| group.compressed_size() < 50 << 20));
}

#[test]
fn memory_of_held_rows_is_told() {
    let batch = batch_of(vec![("a", Arc::new(Int64Array::from_iter_values(0..1_000)))]);
    let mut file = builder(batch.schema());
    file.write(&batch).unwrap();
    assert!(file.memory_bytes() >= 8_000);
    assert_eq!((file.encoded_bytes(), file.rows()), (0, 1_000));
}

#[test]
fn a_small_target_ends_the_sample_early() {
    let batch = batch_of(vec![("a", Arc::new(Int64Array::from_iter_values(0..1_000)))]);
    let options = Options { target_file_bytes: 4_000, ..options() };
    let mut file = FileBuilder::new(Vec::new(), batch.schema(), &options, &StatisticsColumns::default()).unwrap();
    file.write(&batch).unwrap();
    assert!(file.encoded_bytes() > 0);
}

fn encodings(metadata: &ParquetMetaData, group: usize, column: usize) -> Vec<Encoding> {
    metadata.row_group(group).column(column).encodings().collect()
}

#[test]
fn encodings_follow_the_first_rows() {
    let hash = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let batch = batch_of(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..40_000)) as ArrayRef),
        ("country", Arc::new(StringArray::from_iter_values((0..40_000).map(|row| format!("c{}", hash(row) % 100))))),
        ("session", Arc::new(StringArray::from_iter_values((0..40_000).map(|row| format!("{:016x}", hash(row)))))),
    ]);
    let (bytes, _) = file_of(&[batch.slice(0, 10_000), batch.slice(10_000, 30_000)]);
    let (_, _, metadata) = read(&bytes);
    assert!(encodings(&metadata, 0, 0).contains(&Encoding::DELTA_BINARY_PACKED));
    assert!(encodings(&metadata, 0, 1).contains(&Encoding::RLE_DICTIONARY));
    assert_eq!(metadata.row_group(0).column(2).dictionary_page_offset(), None);
    assert!(encodings(&metadata, 0, 2).contains(&Encoding::PLAIN));
    for column in 0..3 {
        assert!(!encodings(&metadata, 0, column).contains(&Encoding::BYTE_STREAM_SPLIT));
    }
    assert_eq!(rows_of(&bytes), rows_of(&file_of(std::slice::from_ref(&batch)).0));
}

#[test]
fn a_large_value_ends_statistics_and_dictionary_of_its_column_only() {
    let large = "x".repeat((1 << 20) + 1);
    let few = |value: &str| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![value; 20_000]));
        batch_of(vec![("a", texts.clone()), ("b", texts)])
    };
    let one = batch_of(vec![
        ("a", Arc::new(StringArray::from(vec![large.as_str(), "z"])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec!["y", "z"]))),
    ]);
    let (bytes, written) = file_of(&[few("m"), one, few("n")]);
    let (_, _, metadata) = read(&bytes);
    assert_eq!(metadata.num_row_groups(), 2);
    assert!(metadata.row_group(0).column(0).statistics().unwrap().min_bytes_opt().is_some());
    let large_column = metadata.row_group(1).column(0);
    assert!(large_column.statistics().is_none_or(|statistics| statistics.min_bytes_opt().is_none()));
    assert_eq!(large_column.dictionary_page_offset(), None);
    assert!(metadata.row_group(1).column(1).statistics().unwrap().min_bytes_opt().is_some());
    let rows = rows_of(&bytes);
    assert_eq!(rows.num_rows(), 40_002);
    let texts = rows.column(0).as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!((texts.value(19_999), texts.value(20_000), texts.value(20_001)), ("m", large.as_str(), "z"));
    assert_eq!(
        written.statistics,
        r#"{"numRecords":40002,"minValues":{"b":"m"},"maxValues":{"b":"z"},"nullCount":{"a":0,"b":0},"tightBounds":true}"#
    );
}

#[test]
fn long_texts_have_short_bounds_in_parquet_too() {
    let text = "é".repeat(300);
    let (bytes, _) = file_of(&[batch_of(vec![("a", Arc::new(StringArray::from(vec![text.as_str(); 2])))])]);
    let (_, _, metadata) = read(&bytes);
    let statistics = metadata.row_group(0).column(0).statistics().unwrap().clone();
    let (min, max) = (statistics.min_bytes_opt().unwrap(), statistics.max_bytes_opt().unwrap());
    assert!(min.len() <= 64 && max.len() <= 64);
    assert!(min <= text.as_bytes() && max >= text.as_bytes());
}

/// Takes some bytes, then fails.
struct Full(usize, fn() -> io::Error);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(self.1());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_sink_says_decides_what_has_to_be_done() {
    let cases: [(fn() -> io::Error, ErrorKind); 4] = [
        (|| io::ErrorKind::StorageFull.into(), ErrorKind::Denied),
        (|| io::ErrorKind::ReadOnlyFilesystem.into(), ErrorKind::Denied),
        (|| io::ErrorKind::TimedOut.into(), ErrorKind::Unavailable),
        (|| io::Error::other(crate::Error::conflict("somebody was here")), ErrorKind::Conflict),
    ];
    for (fault, kind) in cases {
        let batch = every_type();
        let mut file = FileBuilder::new(Full(100, fault), batch.schema(), &options(), &StatisticsColumns::default()).unwrap();
        file.write(&batch).unwrap();
        assert_eq!(file.close().err().map(|error| error.kind()), Some(kind));
    }
}

#[test]
fn a_file_stays_broken() {
    let batch = batch_of(vec![(
        "a",
        Arc::new(Int64Array::from_iter_values((0..140_000i64).map(|row| (row * row * row).wrapping_mul(0x5E37_79B9_7F4A_7C15)))),
    )]);
    let fault = || io::ErrorKind::StorageFull.into();
    let mut file = FileBuilder::new(Full(100, fault), batch.schema(), &options(), &StatisticsColumns::default()).unwrap();
    assert_eq!(file.write(&batch).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(file.write(&batch).unwrap_err().kind(), ErrorKind::Internal);
    assert!(file.close().is_err());
}

#[test]
fn copying_beyond_the_end_fails() {
    let batch = every_type();
    let (bytes, _) = file_of(std::slice::from_ref(&batch));
    let mut copy = builder(batch.schema());
    assert_eq!(copy_rows(bytes.clone(), 1..4, &mut copy).unwrap_err().kind(), ErrorKind::Internal);
    copy_rows(bytes, 2..2, &mut copy).unwrap();
    assert_eq!(copy.rows(), 0);
    let mut copy = builder(batch.schema());
    assert_eq!(copy_rows(Bytes::from_static(b"PAR1PAR1"), 0..1, &mut copy).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn copying_crosses_row_groups() {
    let batch = batch_of(vec![("a", Arc::new(Int64Array::from_iter_values(0..300_000)))]);
    let (bytes, _) = file_of(std::slice::from_ref(&batch));
    for range in [0..1, 0..131_072, 131_071..131_073, 131_072..140_000, 200_000..300_000, 0..300_000] {
        let mut copy = builder(batch.schema());
        copy_rows(bytes.clone(), range.clone(), &mut copy).unwrap();
        let (copied, written) = copy.close().unwrap();
        assert_eq!(written.rows, range.end - range.start);
        let wanted = batch.slice(range.start as usize, written.rows as usize);
        assert_eq!(rows_of(&copied.into()).column(0).as_ref(), wanted.column(0).as_ref());
    }
}

proptest! {
    #[test]
    fn a_copy_is_the_slice_with_its_own_statistics(
        values in proptest::collection::vec((any::<Option<i64>>(), any::<Option<String>>()), 1..200),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let batch = batch_of(vec![
            ("n", Arc::new(Int64Array::from_iter(values.iter().map(|value| value.0))) as ArrayRef),
            ("s", Arc::new(StringArray::from_iter(values.iter().map(|value| value.1.as_deref())))),
        ]);
        let (a, b) = (a.index(values.len()), b.index(values.len()));
        let (first, last) = (a.min(b), a.max(b) + 1);
        let (bytes, _) = file_of(std::slice::from_ref(&batch));
        let mut copy = builder(batch.schema());
        copy_rows(bytes, first as u64..last as u64, &mut copy).unwrap();
        let (copied, written) = copy.close().unwrap();
        let slice = batch.slice(first, last - first);
        let (_, wanted) = file_of(std::slice::from_ref(&slice));
        prop_assert_eq!(written.statistics, wanted.statistics);
        let rows = rows_of(&copied.into());
        for column in 0..2 {
            prop_assert_eq!(rows.column(column).as_ref(), slice.column(column).as_ref());
        }
    }

    #[test]
    fn any_integers_survive_their_encoding(
        wide in proptest::collection::vec(any::<i64>(), 1..400),
        steps in proptest::collection::vec(-3i64..3, 400),
    ) {
        // Extremes after a sample that asks for packed differences.
        let mut values: Vec<i64> = steps.iter().scan(0i64, |sum, step| { *sum += step; Some(*sum) }).collect();
        values.extend(&wide);
        values.extend([i64::MAX, i64::MIN, i64::MAX]);
        let narrow = Int32Array::from_iter_values(values.iter().map(|value| *value as i32));
        let batch = batch_of(vec![("l", Arc::new(Int64Array::from(values)) as ArrayRef), ("i", Arc::new(narrow))]);
        let (bytes, _) = file_of(std::slice::from_ref(&batch));
        let rows = rows_of(&bytes);
        prop_assert_eq!(rows.column(0).as_ref(), batch.column(0).as_ref());
        prop_assert_eq!(rows.column(1).as_ref(), batch.column(1).as_ref());
    }
}
