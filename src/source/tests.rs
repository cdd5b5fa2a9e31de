//! Files as taps write them.

use std::fs;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal32Array, Decimal64Array,
    Decimal128Array, Decimal256Array, DictionaryArray, DurationMicrosecondArray, DurationMillisecondArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeBinaryArray, LargeListArray, LargeStringArray, ListArray,
    ListViewArray, MapArray, NullArray, RunArray, StringArray, StringViewArray, StructArray, Time32MillisecondArray,
    Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, IntervalDayTime, IntervalMonthDayNano, i256};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::ErrorKind;

const LIMIT: usize = 8 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Reads bytes as a file.
fn read(bytes: &[u8]) -> Result<Vec<String>> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("records");
    fs::write(&path, bytes).unwrap();
    open(&path, LIMIT)?.map(|record| record.map(|record| String::from_utf8_lossy(&record).into_owned())).collect()
}

fn read_all(bytes: &[u8]) -> Vec<String> {
    read(bytes).unwrap()
}

fn parquet_of(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file_of(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn arrow_stream_of(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn batch_of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

#[test]
fn every_format_is_told_by_its_first_bytes() {
    let batch = batch_of(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec![Some("ä\"\n"), None]))),
    ]);
    let wanted = ["{\"id\":1,\"name\":\"ä\\\"\\n\"}", "{\"id\":2,\"name\":null}"];
    let batches = std::slice::from_ref(&batch);
    let contents = [
        wanted.join("\n").into_bytes(),
        parquet_of(&batch),
        arrow_file_of(batches, None),
        arrow_file_of(batches, Some(CompressionType::LZ4_FRAME)),
        arrow_file_of(batches, Some(CompressionType::ZSTD)),
        arrow_stream_of(batches, None),
        arrow_stream_of(batches, Some(CompressionType::LZ4_FRAME)),
        arrow_stream_of(batches, Some(CompressionType::ZSTD)),
    ];
    for content in contents {
        assert_eq!(read_all(&content), wanted);
        assert_eq!(read_all(&gzip(&content)), wanted);
        assert_eq!(read_all(&zstd_of(&content)), wanted);
    }
}

#[test]
fn an_empty_file_has_no_records() {
    for content in [Vec::new(), b"\n\n".to_vec(), gzip(b""), zstd_of(b"")] {
        assert_eq!(read_all(&content), Vec::<String>::new());
    }
    let empty = batch_of(vec![("id", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
    assert!(read_all(&parquet_of(&empty)).is_empty());
    assert!(read_all(&arrow_stream_of(&[empty], None)).is_empty());
}

#[test]
fn compressed_members_follow_one_another() {
    let both = [gzip(b"{\"a\":1}\n{\"a\""), gzip(b":2}\n")].concat();
    assert_eq!(read_all(&both), ["{\"a\":1}", "{\"a\":2}"]);
    let frames = [zstd_of(b"{\"a\":1}\n{\"a\""), zstd_of(b":2}\n")].concat();
    assert_eq!(read_all(&frames), ["{\"a\":1}", "{\"a\":2}"]);
}

#[test]
fn lines_are_trimmed_and_blank_ones_skipped() {
    let text = "\u{FEFF}{\"a\":1}\r\n\r\n  \n {\"a\":2}  \r\n\t{\"a\": 3}";
    assert_eq!(read_all(text.as_bytes()), ["{\"a\":1}", "{\"a\":2}", "{\"a\": 3}"]);
    assert_eq!(read_all("\u{FEFF}\n{}".as_bytes()), ["{}"]);
}

#[test]
fn a_line_keeps_its_bytes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a");
    fs::write(&path, b"{\"a\":\"\xFF\",\"n\":1.10}\n").unwrap();
    let records: Vec<_> = open(&path, LIMIT).unwrap().map(Result::unwrap).collect();
    assert_eq!(records, [b"{\"a\":\"\xFF\",\"n\":1.10}"]);
}

#[test]
fn a_record_has_a_place() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a");
    fs::write(&path, "{}\n\n{}\n").unwrap();
    let mut records = open(&path, LIMIT).unwrap();
    let mut record = Vec::new();
    while records.next_into(&mut record).unwrap() {}
    assert_eq!(records.place(), format!("line 3 of `{}`", path.display()));
    fs::write(&path, parquet_of(&batch_of(vec![("a", Arc::new(Int64Array::from(vec![1, 2])))]))).unwrap();
    let mut records = open(&path, LIMIT).unwrap();
    while records.next_into(&mut record).unwrap() {}
    assert_eq!(records.place(), format!("row 2 of `{}`", path.display()));
}

#[test]
fn a_line_over_the_limit_is_named() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a");
    fs::write(&path, format!("{{}}\n{}\n{}", "x".repeat(10), "y".repeat(11))).unwrap();
    let mut records = open(&path, 10).unwrap();
    assert!(records.next().unwrap().is_ok() && records.next().unwrap().is_ok());
    let error = records.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(error.message(), format!("line 3 of `{}` is longer than 10 bytes", path.display()));
}

#[test]
fn damaged_files_are_named() {
    let batch = batch_of(vec![("id", Arc::new(Int64Array::from_iter_values(0..1_000)))]);
    let lines = (0..1_000).map(|row| format!("{{\"id\":{}}}\n", row * 7_919 % 1_009)).collect::<String>();
    let cut = |content: Vec<u8>| content[..content.len() * 2 / 3].to_vec();
    let contents = [
        cut(gzip(lines.as_bytes())),
        cut(zstd_of(lines.as_bytes())),
        cut(parquet_of(&batch)),
        cut(arrow_file_of(std::slice::from_ref(&batch), None)),
        cut(arrow_stream_of(std::slice::from_ref(&batch), None)),
        cut(gzip(&parquet_of(&batch))),
        b"PAR1".to_vec(),
        b"ARROW1\0\0".to_vec(),
        b"\xFF\xFF\xFF\xFF\x08\0\0\0".to_vec(),
    ];
    for (index, content) in contents.iter().enumerate() {
        let error = read(content).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{index}");
        assert!(error.message().contains("/records`"), "{index}: {}", error.message());
    }
    assert!(read(&contents[0]).unwrap_err().message().contains("after line "));
}

#[test]
fn other_formats_are_refused_by_name() {
    for (content, name) in [
        (b"Obj\x01...." as &[u8], "Avro"),
        (b"ORC....", "ORC"),
        (b"PK\x03\x04....", "zip"),
        (b"\xFF\xFE{\0", "UTF-16"),
        (b"PAREmore", "encrypted"),
        (&gzip(&gzip(b"{}")), "compressed twice"),
    ] {
        let error = read(content).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().contains(name), "{}", error.message());
    }
    let directory = TempDir::new().unwrap();
    assert_eq!(open(directory.path(), LIMIT).unwrap_err().kind(), ErrorKind::Input);
    let error = open(&directory.path().join("nothing"), LIMIT).unwrap_err();
    assert!(error.message().ends_with("nothing` does not exist"));
}

/// The JSON texts of one column.
fn cells(array: impl Array + 'static) -> Vec<String> {
    cells_of(Arc::new(array))
}

fn cells_of(array: ArrayRef) -> Vec<String> {
    let batch = batch_of(vec![("a", array)]);
    let (mut text, mut ends) = (Vec::new(), Vec::new());
    json::write_rows(&batch, usize::MAX, &mut text, &mut ends).unwrap();
    let mut start = 0;
    let mut cells = Vec::new();
    for end in ends {
        let record = std::str::from_utf8(&text[start..end]).unwrap();
        cells.push(record.strip_prefix("{\"a\":").unwrap().strip_suffix('}').unwrap().to_owned());
        start = end;
    }
    cells
}

#[test]
fn numbers_keep_their_digits() {
    assert_eq!(cells(Int8Array::from(vec![Some(-128), None])), ["-128", "null"]);
    assert_eq!(cells(Int64Array::from(vec![i64::MIN])), ["-9223372036854775808"]);
    assert_eq!(cells(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
    assert_eq!(
        cells(Float64Array::from(vec![0.1, -0.0, 1e300, 5e-324, 1e16, 3.0])),
        ["0.1", "-0.0", "1e300", "5e-324", "1e16", "3.0"]
    );
    assert_eq!(cells(Float64Array::from(vec![f64::NAN, f64::INFINITY, -f64::INFINITY])), ["NaN", "Infinity", "-Infinity"]);
    assert_eq!(cells(Float32Array::from(vec![0.1f32, 1.5])), ["0.10000000149011612", "1.5"]);
    let half = Float16Array::from_iter_values([1.5f32, -2.0].map(|value| {
        // Exact in 16 bits: sign, exponent and ten bits of fraction are those of the 32-bit form.
        let bits = value.to_bits();
        let half = ((bits >> 16) & 0x8000) | (((bits >> 13) - (112 << 10)) & 0x7FFF);
        <arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::from_bits(half as u16)
    }));
    assert_eq!(cells(half), ["1.5", "-2.0"]);
}

#[test]
fn decimals_are_plain_and_exact() {
    let most = 10i128.pow(38) - 1;
    let decimals = Decimal128Array::from(vec![most, -most, 0, 5]).with_precision_and_scale(38, 10).unwrap();
    assert_eq!(
        cells(decimals),
        ["9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0.0000000000", "0.0000000005"]
    );
    assert_eq!(cells(Decimal32Array::from(vec![-5]).with_precision_and_scale(9, 2).unwrap()), ["-0.05"]);
    assert_eq!(cells(Decimal64Array::from(vec![123_456]).with_precision_and_scale(18, 0).unwrap()), ["123456"]);
    assert_eq!(cells(Decimal128Array::from(vec![12]).with_precision_and_scale(5, -2).unwrap()), ["1200"]);
    let wide = Decimal256Array::from(vec![i256::from_string(&"9".repeat(76)).unwrap()]).with_precision_and_scale(76, 1).unwrap();
    assert_eq!(cells(wide), [format!("{}.9", "9".repeat(75))]);
}

#[test]
fn texts_and_binaries_of_every_form() {
    let texts = ["", "plain ä", "\"\\/\u{8}\u{c}\n\r\t\u{1f}\u{7f}\u{2028}"];
    let wanted = ["\"\"", "\"plain ä\"", "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u001f\u{7f}\u{2028}\""];
    assert_eq!(cells(StringArray::from(texts.to_vec())), wanted);
    assert_eq!(cells(LargeStringArray::from(texts.to_vec())), wanted);
    assert_eq!(cells(StringViewArray::from(texts.to_vec())), wanted);
    let bytes: Vec<&[u8]> = vec![b"\xFF\xFE\x00", b""];
    let wanted = ["\"//4A\"", "\"\""];
    assert_eq!(cells(BinaryArray::from(bytes.clone())), wanted);
    assert_eq!(cells(LargeBinaryArray::from(bytes.clone())), wanted);
    assert_eq!(cells(BinaryViewArray::from(bytes)), wanted);
    assert_eq!(cells(FixedSizeBinaryArray::try_from_iter([b"ab"].into_iter()).unwrap()), ["\"YWI=\""]);
    assert_eq!(cells(BooleanArray::from(vec![Some(true), Some(false), None])), ["true", "false", "null"]);
    assert_eq!(cells(NullArray::new(1)), ["null"]);
}

#[test]
fn dates_and_times_are_iso() {
    assert_eq!(
        cells(Date32Array::from(vec![0, -1, 19_723, -719_162, -719_528, -719_529, 2_932_897])),
        [
            "\"1970-01-01\"",
            "\"1969-12-31\"",
            "\"2024-01-01\"",
            "\"0001-01-01\"",
            "\"0000-01-01\"",
            "\"-0001-12-31\"",
            "\"+10000-01-01\""
        ]
    );
    assert_eq!(cells(Date32Array::from(vec![i32::MIN, i32::MAX])), ["\"-5877641-06-23\"", "\"+5881580-07-11\""]);
    assert_eq!(cells(Date64Array::from(vec![86_400_000, -1])), ["\"1970-01-02\"", "\"1969-12-31T23:59:59.999\""]);
    assert_eq!(cells(Time32SecondArray::from(vec![3_661])), ["\"01:01:01\""]);
    assert_eq!(cells(Time32MillisecondArray::from(vec![3_661_001, 0])), ["\"01:01:01.001\"", "\"00:00:00\""]);
    assert_eq!(cells(Time64MicrosecondArray::from(vec![86_399_999_999])), ["\"23:59:59.999999\""]);
    assert_eq!(cells(Time64NanosecondArray::from(vec![1])), ["\"00:00:00.000000001\""]);
    assert_eq!(cells(TimestampSecondArray::from(vec![0])), ["\"1970-01-01T00:00:00\""]);
    assert_eq!(cells(TimestampMillisecondArray::from(vec![-1])), ["\"1969-12-31T23:59:59.999\""]);
    assert_eq!(cells(TimestampMicrosecondArray::from(vec![1]).with_timezone("+02:00")), ["\"1970-01-01T00:00:00.000001Z\""]);
    assert_eq!(cells(TimestampNanosecondArray::from(vec![123]).with_timezone("UTC")), ["\"1970-01-01T00:00:00.000000123Z\""]);
    assert_eq!(
        cells(TimestampSecondArray::from(vec![i64::MIN, i64::MAX])),
        ["\"-292277022657-01-27T08:29:52\"", "\"+292277026596-12-04T15:30:07\""]
    );
}

#[test]
fn durations_and_intervals_are_iso() {
    assert_eq!(cells(DurationMillisecondArray::from(vec![1_500, -1_500, 0])), ["\"PT1.500S\"", "\"-PT1.500S\"", "\"PT0S\""]);
    assert_eq!(cells(DurationMicrosecondArray::from(vec![i64::MIN])), ["\"-PT9223372036854.775808S\""]);
    assert_eq!(cells(IntervalYearMonthArray::from(vec![14, -1, 0])), ["\"P14M\"", "\"P-1M\"", "\"PT0S\""]);
    assert_eq!(cells(IntervalDayTimeArray::from(vec![IntervalDayTime::new(3, -4_005)])), ["\"P3DT-4.005S\""]);
    let mixed = IntervalMonthDayNano::new(1, -2, 3_000_000_004);
    assert_eq!(cells(IntervalMonthDayNanoArray::from(vec![mixed])), ["\"P1M-2DT3.000000004S\""]);
}

#[test]
fn nested_values_are_nested() {
    let lists = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let wanted = ["[1,null]", "null", "[]"];
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(lists.clone());
    assert_eq!(cells(list.clone()), wanted);
    assert_eq!(cells(list.slice(1, 2)), &wanted[1..]);
    assert_eq!(cells(LargeListArray::from_iter_primitive::<Int64Type, _, _>(lists)), wanted);
    assert_eq!(cells(ListViewArray::from(list)), wanted);
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), None], 2);
    assert_eq!(cells(fixed.clone()), ["[1,2]", "null"]);
    assert_eq!(cells(fixed.slice(1, 1)), ["null"]);

    let fields: Fields = vec![Field::new("x\"", DataType::Int64, true), Field::new("y", DataType::Utf8, true)].into();
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![Some(1), None])), Arc::new(StringArray::from(vec!["p", "q"]))];
    assert_eq!(
        cells(StructArray::new(fields.clone(), children.clone(), None)),
        ["{\"x\\\"\":1,\"y\":\"p\"}", "{\"x\\\"\":null,\"y\":\"q\"}"]
    );
    assert_eq!(cells(StructArray::new(fields, children, Some(vec![false, true].into())))[0], "null");

    let map = |keys: ArrayRef| {
        let entries = StructArray::from(vec![
            (Arc::new(Field::new("key", keys.data_type().clone(), false)), keys),
            (Arc::new(Field::new("value", DataType::Int64, true)), Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef),
        ]);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        MapArray::new(field, OffsetBuffer::new(vec![0, 2, 2].into()), entries, Some(vec![true, false].into()), false)
    };
    assert_eq!(cells(map(Arc::new(StringArray::from(vec!["k", "l"])))), ["{\"k\":1,\"l\":null}", "null"]);
    assert_eq!(cells(map(Arc::new(Int64Array::from(vec![7, 8]))))[0], "{\"7\":1,\"8\":null}");
    assert_eq!(cells(map(Arc::new(Date32Array::from(vec![0, 1]))))[0], "{\"1970-01-01\":1,\"1970-01-02\":null}");
}

#[test]
fn dictionaries_show_their_values() {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    assert_eq!(cells(dictionary.clone()), ["\"a\"", "null", "\"b\"", "\"a\""]);
    assert_eq!(cells(dictionary.slice(2, 2)), ["\"b\"", "\"a\""]);
    let nulls: DictionaryArray<Int32Type> = vec![None::<&str>, None].into_iter().collect();
    assert_eq!(cells(nulls), ["null", "null"]);
    let values = StringArray::from(vec![None, Some("x")]);
    let with_null_value = DictionaryArray::new(Int32Array::from(vec![0, 1]), Arc::new(values));
    assert_eq!(cells(with_null_value), ["null", "\"x\""]);
}

#[test]
fn a_type_without_json_text_is_refused_by_name() {
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2]), &StringArray::from(vec!["a"])).unwrap();
    let batch = batch_of(vec![("runs", Arc::new(runs) as ArrayRef)]);
    let error = read(&arrow_file_of(&[batch], None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.message().contains("the column `runs` of the file") && error.message().contains("RunEndEncoded"), "{error}");
}

#[test]
fn spark_timestamps_of_96_bits_are_instants_without_overflow() {
    let schema = Arc::new(
        parse_message_type("message m { optional int96 t; optional group s { optional binary x (UTF8); optional int96 u; } }")
            .unwrap(),
    );
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let moment = |julian_day: u32, nanoseconds: u64| {
        let mut value = Int96::new();
        value.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, julian_day);
        value
    };
    let moments = [moment(2_440_588, 1_000), moment(5_373_484, 0), moment(1_721_426, 0)];
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&moments, Some(&[1; 3]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&vec![ByteArray::from("a"); 3], Some(&[2; 3]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&moments[..1], Some(&[2, 1, 0]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let records = read_all(&writer.into_inner().unwrap());
    assert_eq!(records[0], r#"{"t":"1970-01-01T00:00:00.000001Z","s":{"x":"a","u":"1970-01-01T00:00:00.000001Z"}}"#);
    assert!(records[1].starts_with(r#"{"t":"9999-12-31T00:00:00Z""#), "{}", records[1]);
    assert!(records[2].starts_with(r#"{"t":"0001-01-01T00:00:00Z""#), "{}", records[2]);
}

#[test]
fn fixed_length_decimals_of_other_writers_are_read() {
    let schema = Arc::new(parse_message_type("message m { required fixed_len_byte_array(3) d (DECIMAL(6,2)); }").unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<FixedLenByteArrayType>().write_batch(&[vec![0xFF, 0xFF, 0xFE].into()], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    assert_eq!(read_all(&writer.into_inner().unwrap()), [r#"{"d":-0.02}"#]);
}

#[test]
fn rows_beyond_one_part_come_once_and_in_order() {
    let batch = |first: i64, rows: i64| {
        batch_of(vec![
            ("id", Arc::new(Int64Array::from_iter_values(first..first + rows)) as ArrayRef),
            ("text", Arc::new(StringArray::from_iter_values((0..rows).map(|row| "x".repeat(row as usize % 900))))),
        ])
    };
    let batches = [batch(0, 10_000), batch(10_000, 1), batch(10_001, 9_999)];
    let whole = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    for content in [arrow_stream_of(&batches, None), arrow_file_of(&batches, None), parquet_of(&whole)] {
        let records = read_all(&content);
        assert_eq!(records.len(), 20_000);
        for (index, record) in records.iter().enumerate() {
            assert!(record.starts_with(&format!("{{\"id\":{index},")));
        }
    }
}

#[test]
fn a_batch_entry_is_a_path_or_a_file_url() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    let file = here.join("a b%41.jsonl");
    fs::write(&file, "").unwrap();
    fs::create_dir(here.join("sub")).unwrap();
    fs::write(here.join("sub/c d.jsonl"), "").unwrap();
    let resolve = |entry: &str| local(entry, here);
    let absolute = file.display().to_string();
    for entry in [
        absolute.clone(),
        format!("file://{absolute}"),
        format!("FILE://{absolute}"),
        format!("file:{absolute}"),
        format!("file://localhost{absolute}"),
        format!("file:/{absolute}"),
        format!(" file://{absolute}\n"),
        "a b%41.jsonl".to_owned(),
        "file://a b%41.jsonl".to_owned(),
        "./a b%41.jsonl".to_owned(),
        "a%20b%2541.jsonl".to_owned(),
        format!("file://{}", absolute.replace('%', "%25").replace(' ', "%20")),
    ] {
        assert_eq!(fs::canonicalize(resolve(&entry).unwrap()).unwrap(), fs::canonicalize(&file).unwrap(), "{entry}");
    }
    assert_eq!(resolve("file://sub/c%20d.jsonl").unwrap(), here.join("sub/c d.jsonl"));
    assert_eq!(resolve(&format!("file:/{}", &absolute)).unwrap(), file);
    let without_slash = format!("file://{}", absolute.trim_start_matches('/'));
    assert_eq!(resolve(&without_slash).unwrap(), file);
}

#[test]
fn the_text_as_it_is_comes_before_the_decoded_one() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("a%20b"), "").unwrap();
    fs::write(directory.path().join("a b"), "").unwrap();
    assert_eq!(local("a%20b", directory.path()).unwrap(), directory.path().join("a%20b"));
}

fn local(entry: &str, here: &Path) -> crate::Result<std::path::PathBuf> {
    match resolve_batch_path(entry, here)? {
        BatchPlace::Local(path) => Ok(path),
        BatchPlace::Object(object) => panic!("{object:?} is not local"),
    }
}

#[test]
fn an_object_is_named_by_its_root_and_path_raw_before_decoded() {
    for (entry, root, paths, shown) in [
        ("s3://bucket/a/b.jsonl.gz", "s3://bucket/", vec!["a/b.jsonl.gz"], "s3://bucket/a/b.jsonl.gz"),
        (" s3a://b/x%20y/50%25\n", "s3a://b/", vec!["x%20y/50%25", "x y/50%"], "s3a://b/x%20y/50%25"),
        (
            "abfss://c@acct.dfs.core.windows.net/p/q",
            "abfss://c@acct.dfs.core.windows.net/",
            vec!["p/q"],
            "abfss://c@acct.dfs.core.windows.net/p/q",
        ),
        (
            "https://acct.blob.core.windows.net/c/p/q?sig=hunter2",
            "https://acct.blob.core.windows.net/c/",
            vec!["p/q?sig=hunter2"],
            "https://acct.blob.core.windows.net/c/p/q",
        ),
        ("s3://AKIA:hunter2@bucket/a#b", "s3://AKIA:hunter2@bucket/", vec!["a#b"], "s3://***@bucket/a"),
        // Not UTF-8 when decoded: only as it is.
        ("gs://b/%FF", "gs://b/", vec!["%FF"], "gs://b/%FF"),
    ] {
        let BatchPlace::Object(object) = resolve_batch_path(entry, Path::new("/tmp")).unwrap() else {
            panic!("{entry} is local")
        };
        assert_eq!(
            (object.root.as_str(), &object.paths, object.shown.as_str()),
            (root, &paths.into_iter().map(str::to_owned).collect(), shown)
        );
    }
    for entry in ["s3://bucket", "s3://bucket/", "s3:///a", "s3://b/a//b", "s3://b/../a", "https://host/file?sig=hunter2"] {
        let error = resolve_batch_path(entry, Path::new("/tmp")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{entry}");
        assert!(error.message().contains("no place for an object") && !error.message().contains("hunter2"), "{error}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    let error = resolve_batch_path("file:///no/such.jsonl", Path::new("/tmp")).unwrap_err();
    assert_eq!(error.message(), "the BATCH file `file:///no/such.jsonl` does not exist (looked for `/no/such.jsonl`)");
    assert!(resolve_batch_path("", Path::new("/tmp")).is_err());
}

proptest! {
    #[test]
    fn lines_come_back_whatever_the_chunks(texts in proptest::collection::vec("[^\n\r\u{feff}]{0,40}", 0..30), wrap in 0u8..3) {
        let wanted: Vec<String> =
            texts.iter().map(|text| text.trim_matches(|c: char| c.is_ascii_whitespace())).filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let mut content = b"{}\n".to_vec();
        content.extend_from_slice(texts.join("\n").as_bytes());
        let content = match wrap { 0 => content, 1 => gzip(&content), _ => zstd_of(&content) };
        prop_assert_eq!(&read_all(&content)[1..], wanted.as_slice());
    }

    #[test]
    fn texts_and_doubles_are_json_with_the_same_value(texts in proptest::collection::vec(any::<String>(), 1..10), doubles in proptest::collection::vec(any::<f64>(), 1..10)) {
        for (cell, text) in cells(StringArray::from(texts.clone())).iter().zip(&texts) {
            prop_assert_eq!(&serde_json::from_str::<String>(cell).unwrap(), text);
        }
        for (cell, double) in cells(Float64Array::from(doubles.clone())).iter().zip(&doubles) {
            if double.is_finite() {
                prop_assert_eq!(cell.parse::<f64>().unwrap().to_bits(), double.to_bits());
                prop_assert!(serde_json::from_str::<serde_json::Value>(cell).is_ok());
            }
        }
    }

    #[test]
    fn timestamps_are_what_chrono_makes_of_them(value in -62_135_596_800_000_000i64..253_402_300_800_000_000) {
        let wanted = chrono::DateTime::from_timestamp_micros(value).unwrap();
        let cell = &cells(TimestampMicrosecondArray::from(vec![value]).with_timezone("UTC"))[0];
        let text: String = serde_json::from_str(cell).unwrap();
        prop_assert_eq!(text.parse::<chrono::DateTime<chrono::Utc>>().unwrap(), wanted);
    }

    #[test]
    fn no_bytes_make_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), start in 0usize..6) {
        let starts: [&[u8]; 6] = [b"", b"PAR1", b"ARROW1\0\0", b"\xFF\xFF\xFF\xFF", b"\x1F\x8B\x08\0", b"\x28\xB5\x2F\xFD"];
        let mut content = starts[start].to_vec();
        content.append(&mut bytes);
        if start == 1 { content.extend_from_slice(b"PAR1"); }
        let _ = read(&content);
    }
}

#[test]
fn an_arrow_stream_that_is_cut_between_two_batches_is_no_whole_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.arrow");
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![0i64; 3]))]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut bytes, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let read = |bytes: &[u8]| -> Result<usize> {
        fs::write(&path, bytes).unwrap();
        let mut records = open(&path, 1 << 20)?;
        let (mut record, mut count) = (Vec::new(), 0);
        while records.next_into(&mut record)? {
            count += 1;
        }
        Ok(count)
    };
    assert_eq!(read(&bytes).unwrap(), 3);
    assert!(read(&bytes[..bytes.len() - 8]).is_err(), "the end marker is missing");
}
