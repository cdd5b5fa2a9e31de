//! Every row of the value tables, on both paths: what a value becomes, what is counted, what is bad.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::InputLine;
use crate::schema::{
    BinaryEncoding, Column, DataType, Field, Fill, Layout, MetadataColumn, Missing, NaiveTimestamps, Overflow, Rule, Source,
    StreamLayout, TableSchema, ValueKind,
};

mod missing;

use missing::lacks;

/// A key of a test layout.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub key: &'static str,
    pub rule: Rule,
    pub nullable: bool,
    pub is_key: bool,
    pub overflow: Option<(Rule, bool)>,
}

pub(super) fn spec(key: &'static str, rule: Rule) -> Spec {
    Spec { key, rule, nullable: true, is_key: false, overflow: None }
}

pub(super) fn type_of(rule: &Rule) -> DataType {
    match rule {
        Rule::Boolean => DataType::Boolean,
        Rule::Byte => DataType::Byte,
        Rule::Short => DataType::Short,
        Rule::Integer => DataType::Integer,
        Rule::Long => DataType::Long,
        Rule::Float => DataType::Float,
        Rule::Double => DataType::Double,
        Rule::Decimal { precision, scale } => DataType::Decimal { precision: *precision, scale: *scale },
        Rule::Text { .. } | Rule::JsonText => DataType::String,
        Rule::Binary(_) => DataType::Binary,
        Rule::Date => DataType::Date,
        Rule::Timestamp => DataType::Timestamp,
        Rule::TimestampNtz => DataType::TimestampNtz,
        Rule::Struct(layout) => DataType::Struct(fields_of(layout)),
        Rule::List(rule) => DataType::Array { element: Box::new(type_of(rule)), contains_null: true },
        Rule::Map(rule) => {
            DataType::Map { key: Box::new(DataType::String), value: Box::new(type_of(rule)), value_contains_null: true }
        }
    }
}

fn fields_of(layout: &Layout) -> Vec<Field> {
    let field = |column: &Column| Field {
        name: column.name.clone(),
        data_type: type_of(&column.rule),
        nullable: column.nullable,
        metadata: Default::default(),
    };
    layout.columns.iter().map(field).collect()
}

pub(super) fn layout_of(specs: &[Spec]) -> Layout {
    let mut layout = Layout::default();
    for spec in specs {
        let column = layout.columns.len();
        layout.columns.push(Column {
            name: spec.key.to_owned(),
            rule: spec.rule.clone(),
            nullable: spec.nullable,
            fill: Fill::Record,
        });
        layout.by_key.insert(spec.key.to_owned(), layout.sources.len());
        layout.sources.push(Source {
            key: spec.key.to_owned(),
            column: Some(column),
            overflow: spec.overflow.as_ref().map(|(rule, _)| Overflow { rule: rule.clone(), column: None }),
            is_key: spec.is_key,
            is_partition: false,
        });
    }
    for (index, spec) in specs.iter().enumerate() {
        if let Some((rule, true)) = &spec.overflow {
            layout.sources[index].overflow.as_mut().unwrap().column = Some(layout.columns.len());
            let name = format!("{}__other", spec.key);
            layout.columns.push(Column { name, rule: rule.clone(), nullable: true, fill: Fill::Record });
        }
    }
    layout
}

pub(super) fn stream(layout: Layout) -> Arc<StreamLayout> {
    let table_schema = Arc::new(TableSchema { fields: fields_of(&layout) });
    let key_sources = layout.sources.iter().enumerate().filter(|(_, source)| source.is_key).map(|(index, _)| index).collect();
    Arc::new(StreamLayout { layout, table_schema, key_sources })
}

pub(super) fn structure(specs: &[Spec]) -> Rule {
    Rule::Struct(Box::new(layout_of(specs)))
}

pub(super) fn text() -> Rule {
    Rule::Text { max_characters: None }
}

fn decimal(precision: u8, scale: u8) -> Rule {
    Rule::Decimal { precision, scale }
}

/// Rows as text, one line per row, columns by `|`, null as `∅`.
pub(super) fn show(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

fn counts(tally: &Tally) -> Vec<(String, Coercion)> {
    tally.iter().map(|(path, coercion, _)| (path.to_owned(), coercion)).collect()
}

/// The row that a record makes on the exact path, and what was counted. The fast path must agree or refuse.
fn row_with(layout: &Arc<StreamLayout>, options: &Options, record: &[u8]) -> Result<(String, Tally), Fault> {
    let mut tally = Tally::default();
    let mut exact = BatchBuilder::new(layout.clone(), options.clone());
    let pushed = exact.push(record, InputLine(7), &RowMeta::default(), &mut tally);
    let mut fast = BatchBuilder::new(layout.clone(), options.clone());
    let is_fast = std::str::from_utf8(record).is_ok() && fast.push_fast(record) == Some(record.len());
    if !is_fast {
        fast.undo_row();
    }
    fast.end_row(&RowMeta::default());
    match pushed {
        Ok(()) => {
            let row = show(&exact.finish().unwrap()).remove(0);
            if is_fast {
                assert_eq!(show(&fast.finish().unwrap()), std::slice::from_ref(&row), "{}", String::from_utf8_lossy(record));
                assert!(tally.is_empty(), "the fast path must not count");
            }
            Ok((row, tally))
        }
        Err(fault) => {
            assert!(!is_fast, "the fast path took {}", String::from_utf8_lossy(record));
            assert_eq!((exact.rows(), exact.finish().unwrap().num_rows()), (0, 0));
            Err(fault)
        }
    }
}

fn row(specs: &[Spec], record: &str) -> Result<(String, Tally), Fault> {
    row_with(&stream(layout_of(specs)), &Options::default(), record.as_bytes())
}

/// A value that becomes another, counting nothing.
#[track_caller]
fn becomes(rule: Rule, json: &str, expected: &str) {
    let (row, tally) = row(&[spec("x", rule)], &format!("{{\"x\":{json}}}")).unwrap();
    assert_eq!((row.as_str(), counts(&tally)), (expected, vec![]), "{json}");
}

/// A value that becomes another, counted.
#[track_caller]
fn counted(rule: Rule, json: &str, expected: &str, coercion: Coercion) {
    let (row, tally) = row(&[spec("x", rule)], &format!("{{\"x\":{json}}}")).unwrap();
    assert_eq!((row.as_str(), counts(&tally)), (expected, vec![("x".to_owned(), coercion)]), "{json}");
    let (_, _, count) = tally.iter().next().unwrap();
    assert_eq!((count.example.as_str(), count.line), (json, InputLine(7)));
}

/// A value that is bad; the message tells what was expected.
#[track_caller]
fn bad(rule: Rule, json: &str, expected: &str) {
    match row(&[spec("x", rule.clone())], &format!("{{\"x\":{json}}}")) {
        Err(Fault::BadValue(error)) => {
            assert_eq!(error.field(), Some("x"));
            assert_eq!(error.message(), format!("is {json}, which is not {expected}"));
            assert!(error.hint_text().is_some());
        }
        other => panic!("{json} in {rule:?}: {other:?}"),
    }
    // Where bad values become null they do, and are counted.
    let options = Options { on_bad_value: OnBadValue::SetNull, ..Options::default() };
    let layout = stream(layout_of(&[spec("x", rule)]));
    let (row, tally) = row_with(&layout, &options, format!("{{\"x\":{json}}}").as_bytes()).unwrap();
    assert_eq!((row.as_str(), counts(&tally)), ("∅", vec![("x".to_owned(), Coercion::SetNull)]));
}

#[test]
fn whole_numbers_in_any_form_are_longs() {
    becomes(Rule::Long, "1.0", "1");
    becomes(Rule::Long, "1e3", "1000");
    becomes(Rule::Long, "-12", "-12");
    becomes(Rule::Long, "9223372036854775807", "9223372036854775807");
    bad(Rule::Long, "1.5", "a long");
    bad(Rule::Long, "true", "a long");
    bad(Rule::Long, "NaN", "a long");
    bad(Rule::Long, "{}", "a long");
}

#[test]
fn beyond_64_bits_is_bad_and_the_hint_names_the_override() {
    let Err(Fault::BadValue(error)) = row(&[spec("x", Rule::Long)], r#"{"x":9223372036854775808}"#) else { panic!() };
    assert_eq!(error.message(), "is 9223372036854775808, which is not a long");
    assert!(error.hint_text().unwrap().contains("`columns`") && error.hint_text().unwrap().contains("decimal(38,0)"));
}

#[test]
fn narrow_integers_take_what_is_in_their_range() {
    becomes(Rule::Integer, "2147483647", "2147483647");
    bad(Rule::Integer, "2147483648", "an integer");
    becomes(Rule::Short, "-32768", "-32768");
    bad(Rule::Short, "32768", "a short");
    becomes(Rule::Byte, "127", "127");
    bad(Rule::Byte, "-129", "a byte");
}

#[test]
fn decimals_are_exact_round_half_even_or_bad() {
    becomes(decimal(38, 18), "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678");
    becomes(decimal(10, 2), "12.5", "12.50");
    becomes(decimal(10, 2), "12.5000", "12.50");
    becomes(decimal(10, 2), "-1e3", "-1000.00");
    counted(decimal(10, 2), "0.125", "0.12", Coercion::RoundedToScale);
    counted(decimal(10, 2), "0.135", "0.14", Coercion::RoundedToScale);
    counted(decimal(38, 18), "0.1234567890123456785", "0.123456789012345678", Coercion::RoundedToScale);
    bad(decimal(10, 2), "123456789", "a decimal(10,2)");
    bad(decimal(10, 2), "99999999.999", "a decimal(10,2)");
    bad(decimal(10, 2), "NaN", "a decimal(10,2)");
}

#[test]
fn a_double_that_loses_digits_is_counted() {
    becomes(Rule::Double, "0.30000000000000004", "0.30000000000000004");
    becomes(Rule::Double, "1e300", "1e300");
    becomes(Rule::Double, "17", "17.0");
    becomes(Rule::Double, "-0.0", "-0.0");
    counted(Rule::Double, "1234567890123456.7891", "1234567890123456.8", Coercion::RoundedToDouble);
    counted(Rule::Double, "9007199254740993", "9007199254740992.0", Coercion::RoundedToDouble);
    bad(Rule::Double, "1e400", "a double");
    assert!(Coercion::RoundedToDouble.hint().unwrap().contains("`columns`"));
}

#[test]
fn a_float_takes_what_it_gives_back() {
    becomes(Rule::Float, "0.1", "0.1");
    bad(Rule::Float, "0.123456789", "a float of the same digits");
    counted(Rule::Float, "NaN", "∅", Coercion::NotANumber);
}

#[test]
fn number_text_is_a_number() {
    becomes(Rule::Long, r#""12""#, "12");
    becomes(Rule::Long, r#"" +007 ""#, "7");
    becomes(Rule::Double, r#""12.5""#, "12.5");
    becomes(decimal(10, 2), r#""12.50""#, "12.50");
    becomes(Rule::Integer, r#""1e3""#, "1000");
    for (rule, expected) in [(Rule::Long, "a long"), (Rule::Double, "a double"), (decimal(10, 2), "a decimal(10,2)")] {
        bad(rule, r#""12,5""#, expected);
    }
}

#[test]
fn not_a_number_is_null_in_doubles_unless_kept() {
    for json in ["NaN", "Infinity", "-Infinity", r#""NaN""#] {
        counted(Rule::Double, json, "∅", Coercion::NotANumber);
    }
    let layout = stream(layout_of(&[spec("x", Rule::Double), spec("y", Rule::Float)]));
    let options = Options { keep_nan: true, ..Options::default() };
    let (row, tally) = row_with(&layout, &options, br#"{"x":-Infinity,"y":NaN}"#).unwrap();
    assert_eq!((row.as_str(), tally.is_empty()), ("-inf|NaN", true));
}

#[test]
fn not_a_number_in_text_is_its_name_and_in_json_text_null() {
    becomes(text(), "-Infinity", "-Infinity");
    counted(Rule::JsonText, "NaN", "∅", Coercion::NotANumber);
    counted(Rule::JsonText, "[1,NaN]", "[1,null]", Coercion::NotANumber);
}

#[test]
fn empty_text_is_null_but_in_strings() {
    for rule in
        [Rule::Long, Rule::Byte, Rule::Float, Rule::Double, decimal(10, 2), Rule::Date, Rule::Timestamp, Rule::TimestampNtz]
    {
        counted(rule, r#""""#, "∅", Coercion::EmptyText);
    }
    becomes(text(), r#""""#, "");
    becomes(Rule::JsonText, r#""""#, r#""""#);
    bad(Rule::Boolean, r#""""#, "a boolean");
}

#[test]
fn dates_that_no_table_holds_are_null() {
    for json in [r#""0000-00-00""#, r#""0000-00-00 00:00:00""#, r#""10000-01-01""#, r#""0044-03-15 BC""#] {
        counted(Rule::Date, json, "∅", Coercion::ImpossibleDate);
        counted(Rule::Timestamp, json, "∅", Coercion::ImpossibleDate);
        counted(Rule::TimestampNtz, json, "∅", Coercion::ImpossibleDate);
    }
    bad(Rule::Date, r#""2024-02-30""#, "a date");
    bad(Rule::Date, "20240301", "a date");
    bad(Rule::Timestamp, r#""tomorrow""#, "a timestamp");
    bad(Rule::Timestamp, "true", "a timestamp");
}

#[test]
fn date_and_date_time_text_convert_both_ways() {
    becomes(Rule::Date, r#""2024-03-01""#, "2024-03-01");
    becomes(Rule::Date, r#""2024-03-01T23:30:00-05:00""#, "2024-03-01");
    becomes(Rule::Timestamp, r#""2024-03-01""#, "2024-03-01T00:00:00Z");
    becomes(Rule::TimestampNtz, r#""2024-03-01""#, "2024-03-01T00:00:00");
}

#[test]
fn epoch_numbers_go_by_their_size() {
    for (json, expected) in [
        ("1700000000", "2023-11-14T22:13:20Z"),
        ("1700000000.5", "2023-11-14T22:13:20.500Z"),
        ("99999999999", "5138-11-16T09:46:39Z"),
        ("100000000000", "1973-03-03T09:46:40Z"),
        ("1700000000123", "2023-11-14T22:13:20.123Z"),
        ("1700000000123456", "2023-11-14T22:13:20.123456Z"),
        ("1700000000123456789", "2023-11-14T22:13:20.123456Z"),
        ("-1.5", "1969-12-31T23:59:58.500Z"),
        ("-0.0000001", "1969-12-31T23:59:59.999999Z"),
        ("0", "1970-01-01T00:00:00Z"),
    ] {
        counted(Rule::Timestamp, json, expected, Coercion::EpochNumber);
    }
    counted(Rule::Timestamp, "1e40", "∅", Coercion::ImpossibleDate);
    counted(Rule::Timestamp, "-99999999999", "∅", Coercion::ImpossibleDate);
}

#[test]
fn timestamps_of_every_form_are_utc() {
    for (json, expected) in [
        ("2024-03-01T10:20:30Z", "2024-03-01T10:20:30Z"),
        ("2024-03-01T10:20:30+05:30", "2024-03-01T04:50:30Z"),
        ("2024-03-01 10:20:30.123456789", "2024-03-01T10:20:30.123456Z"),
        ("2024-02-29T24:00:00", "2024-03-01T00:00:00Z"),
        ("1969-12-31T23:59:59.9999999-00:00", "1969-12-31T23:59:59.999999Z"),
    ] {
        becomes(Rule::Timestamp, &format!("\"{json}\""), expected);
    }
    becomes(Rule::TimestampNtz, r#""2024-03-01T10:20:30+05:30""#, "2024-03-01T04:50:30");
    becomes(Rule::TimestampNtz, r#""2024-03-01T10:20:30""#, "2024-03-01T10:20:30");
}

#[test]
fn a_wall_clock_is_no_instant_where_the_setting_says_so() {
    let layout = stream(layout_of(&[spec("x", Rule::Timestamp)]));
    let options = Options { naive_timestamps: NaiveTimestamps::Ntz, ..Options::default() };
    let fault = row_with(&layout, &options, br#"{"x":"2024-03-01T10:20:30"}"#).unwrap_err();
    let Fault::BadValue(error) = fault else { panic!("{fault:?}") };
    assert!(error.message().contains("no offset") && error.hint_text().unwrap().contains("naive_timestamps"));
}

#[test]
fn booleans_come_as_digits_and_letters() {
    for (json, expected) in [
        ("true", "true"),
        ("0", "false"),
        ("1", "true"),
        ("1.0", "true"),
        (r#""T""#, "true"),
        (r#""False""#, "false"),
        (r#""f""#, "false"),
    ] {
        becomes(Rule::Boolean, json, expected);
    }
    bad(Rule::Boolean, "2", "a boolean");
    bad(Rule::Boolean, r#""yes""#, "a boolean");
}

#[test]
fn anything_in_a_string_is_its_json_text() {
    becomes(text(), "1.50", "1.50");
    becomes(text(), "12345678901234567890.10e+1", "12345678901234567890.10e+1");
    becomes(text(), "true", "true");
    becomes(text(), r#"{ "b" : 1.50, "a" : [ "x y" ] }"#, r#"{"b":1.50,"a":["x y"]}"#);
    becomes(text(), r#""a\n\u00e9\ud83d\ude00\"""#, "a\né😀\"");
}

#[test]
fn json_text_is_compact_and_keeps_order_digits_and_quotes() {
    becomes(Rule::JsonText, r#"{ "b" : 1.50, "a" : [ "x y" , null ] }"#, r#"{"b":1.50,"a":["x y",null]}"#);
    becomes(Rule::JsonText, r#""a\u00e9""#, r#""a\u00e9""#);
    becomes(Rule::JsonText, "1.0", "1.0");
    becomes(Rule::JsonText, "null", "∅");
}

#[test]
fn strings_keep_to_the_length_of_their_type() {
    let rule = Rule::Text { max_characters: Some(3) };
    becomes(rule.clone(), r#""äöü""#, "äöü");
    becomes(rule.clone(), "123", "123");
    bad(rule.clone(), r#""äöüx""#, "a string of at most 3 characters");
    bad(rule, "1234", "a string of at most 3 characters");
}

#[test]
fn binary_text_is_decoded() {
    becomes(Rule::Binary(BinaryEncoding::Base64), r#""AP8=""#, "00ff");
    becomes(Rule::Binary(BinaryEncoding::Base64), r#""_-8""#, "ffef");
    becomes(Rule::Binary(BinaryEncoding::Base64), r#""""#, "");
    bad(Rule::Binary(BinaryEncoding::Base64), r#""*""#, "base 64 text");
    becomes(Rule::Binary(BinaryEncoding::Hex), r#""00fF""#, "00ff");
    bad(Rule::Binary(BinaryEncoding::Hex), r#""0""#, "hexadecimal text");
    becomes(Rule::Binary(BinaryEncoding::Utf8), r#""a\u0000""#, "6100");
    bad(Rule::Binary(BinaryEncoding::Utf8), "1", "text of bytes");
}

#[test]
fn an_empty_array_or_text_is_a_null_object() {
    for rule in [structure(&[spec("a", Rule::Long)]), Rule::Map(Box::new(Rule::Long))] {
        counted(rule.clone(), "[]", "∅", Coercion::EmptyObject);
        counted(rule.clone(), r#""""#, "∅", Coercion::EmptyObject);
        bad(rule.clone(), "[1]", "an object");
        bad(rule, "1", "an object");
    }
    bad(Rule::List(Box::new(Rule::Long)), r#""""#, "an array");
}

#[test]
fn nested_values_follow_their_rules() {
    let user = structure(&[spec("name", text()), spec("tags", Rule::List(Box::new(Rule::Long)))]);
    becomes(user.clone(), r#"{"tags":[1,null,2],"name":"a"}"#, "{name: a, tags: [1, ∅, 2]}");
    becomes(user.clone(), "{}", "{name: ∅, tags: ∅}");
    becomes(user, "null", "∅");
    becomes(Rule::List(Box::new(structure(&[spec("a", Rule::Long)]))), r#"[{"a":1},{},null]"#, "[{a: 1}, {a: ∅}, ∅]");
    becomes(Rule::Map(Box::new(Rule::Double)), r#"{"b":1,"a":null}"#, "{b: 1.0, a: ∅}");
    // A repeated key keeps its place and takes the last value.
    becomes(Rule::Map(Box::new(Rule::Double)), r#"{"b":1,"a":2,"\u0062":3}"#, "{b: 3.0, a: 2.0}");
}

#[test]
fn errors_and_counts_name_the_path() {
    let rule = structure(&[spec("items", Rule::List(Box::new(structure(&[spec("n", Rule::Long)]))))]);
    let fault = row(&[spec("x", rule.clone())], r#"{"x":{"items":[{"n":1},{"n":"no"}]}}"#).unwrap_err();
    let Fault::BadValue(error) = fault else { panic!("{fault:?}") };
    assert_eq!(error.field(), Some("x.items[1].n"));
    let (_, tally) = row(&[spec("x", rule)], r#"{"x":{"items":[{"n":""},{"n":""}]}}"#).unwrap();
    assert_eq!(tally.iter().map(|(path, _, count)| (path, count.count)).collect::<Vec<_>>(), [("x.items[].n", 2)]);
}

#[test]
fn a_bad_value_inside_becomes_null_alone() {
    let rule = structure(&[spec("a", Rule::Long), spec("b", Rule::List(Box::new(Rule::Long)))]);
    let options = Options { on_bad_value: OnBadValue::SetNull, ..Options::default() };
    let layout = stream(layout_of(&[spec("x", rule)]));
    let (row, tally) = row_with(&layout, &options, br#"{"x":{"a":"no","b":[1,"no",3]}}"#).unwrap();
    assert_eq!(row, "{a: ∅, b: [1, ∅, 3]}");
    assert_eq!(counts(&tally), [("x.a".to_owned(), Coercion::SetNull), ("x.b[]".to_owned(), Coercion::SetNull)]);
}

#[test]
fn keys_and_partition_columns_never_become_null() {
    let options = Options { on_bad_value: OnBadValue::SetNull, ..Options::default() };
    for (is_key, is_partition) in [(true, false), (false, true)] {
        let mut layout = layout_of(&[spec("x", Rule::Long)]);
        layout.sources[0].is_key = is_key;
        layout.sources[0].is_partition = is_partition;
        let fault = row_with(&stream(layout), &options, br#"{"x":"no"}"#).unwrap_err();
        let Fault::BadValue(error) = fault else { panic!("{fault:?}") };
        let hint = error.hint_text().expect("has one");
        assert!(hint.contains("reject") && !hint.contains("set_null"), "{hint}");
    }
}

#[test]
fn a_null_in_a_not_null_column_is_bad() {
    let specs = [Spec { nullable: false, ..spec("x", Rule::Long) }];
    for record in [r#"{"x":null}"#, "{}", r#"{"x":""}"#] {
        let Err(Fault::BadValue(error)) = row(&specs, record) else { panic!("{record}") };
        assert_eq!((error.field(), error.message().contains("NOT NULL")), (Some("x"), true));
        assert!(!error.hint_text().expect("has one").contains("set_null"), "null is what the column refuses");
    }
    let options = Options { on_bad_value: OnBadValue::SetNull, ..Options::default() };
    let layout = stream(layout_of(&specs));
    for record in [r#"{"x":null}"#, r#"{"x":"no"}"#] {
        let fault = row_with(&layout, &options, record.as_bytes()).unwrap_err();
        assert!(matches!(fault, Fault::BadValue(_)), "{fault:?}");
    }
    // Inside a struct that is null there is no value to be null.
    becomes(structure(&[Spec { nullable: false, ..spec("a", Rule::Long) }]), "null", "∅");
}

#[test]
fn list_elements_that_may_not_be_null_are_not() {
    let layout = stream(layout_of(&[spec("x", Rule::List(Box::new(Rule::Long)))]));
    let mut table_schema = (*layout.table_schema).clone();
    table_schema.fields[0].data_type = DataType::Array { element: Box::new(DataType::Long), contains_null: false };
    let layout = Arc::new(StreamLayout { table_schema: Arc::new(table_schema), ..(*layout).clone() });
    assert!(row_with(&layout, &Options::default(), br#"{"x":[1,2]}"#).is_ok());
    let fault = row_with(&layout, &Options::default(), br#"{"x":[1,null]}"#).unwrap_err();
    let Fault::BadValue(error) = fault else { panic!("{fault:?}") };
    assert_eq!(error.field(), Some("x[1]"));
}

#[test]
fn a_missing_key_property_is_told_before_all_else() {
    let specs = [Spec { is_key: true, ..spec("id", Rule::Long) }, spec("x", Rule::Long)];
    let fault = row(&specs, r#"{"x":"no","new":1}"#).unwrap_err();
    assert!(matches!(&fault, Fault::MissingKey { key } if key == "id"), "{fault:?}");
    assert_eq!(row(&specs, r#"{"id":null}"#).unwrap().0, "∅|∅");
}

#[test]
fn undeclared_keys_are_missing_by_their_first_value() {
    let nested = structure(&[spec("list", Rule::List(Box::new(structure(&[]))))]);
    let specs = [spec("x", nested)];
    for (json, kind) in [
        ("true", ValueKind::Boolean),
        ("12", ValueKind::Integer),
        ("9223372036854775808", ValueKind::Number),
        ("1.0", ValueKind::Number),
        ("NaN", ValueKind::Number),
        (r#""2024-03-01""#, ValueKind::String),
        ("[]", ValueKind::Nested),
        ("{}", ValueKind::Nested),
    ] {
        for (record, path) in [
            (format!(r#"{{"new":{json}}}"#), vec!["new"]),
            (format!(r#"{{"x":{{"new":{json}}}}}"#), vec!["x", "new"]),
            (format!(r#"{{"x":{{"list":[{{"new":{json}}}]}}}}"#), vec!["x", "list", "[]", "new"]),
        ] {
            match row(&specs, &record) {
                Err(Fault::Missing(missing)) => {
                    assert_eq!(missing, [Missing::Key { path: path.iter().map(|s| s.to_string()).collect(), kind }])
                }
                other => panic!("{record}: {other:?}"),
            }
        }
    }
    assert_eq!(row(&specs, r#"{"new":null,"x":{"new":null}}"#).unwrap().0, "{list: ∅}");
    assert_eq!(row(&specs, r#"{"new":1,"new":null}"#).unwrap().0, "∅");
}

#[test]
fn discarded_fields_are_counted() {
    let mut layout = layout_of(&[spec("x", Rule::Long)]);
    layout.by_key.insert("gone".to_owned(), 1);
    layout.sources.push(Source { key: "gone".into(), column: None, overflow: None, is_key: false, is_partition: false });
    let layout = stream(layout);
    let (row, tally) = row_with(&layout, &Options::default(), br#"{"gone":[1],"x":1}"#).unwrap();
    assert_eq!((row.as_str(), counts(&tally)), ("1", vec![("gone".to_owned(), Coercion::Discarded)]));
    assert!(row_with(&layout, &Options::default(), br#"{"gone":null,"x":1}"#).unwrap().1.is_empty());
}

#[test]
fn of_repeated_keys_the_last_counts() {
    let specs = [spec("x", Rule::Long), spec("y", Rule::Long)];
    assert_eq!(row(&specs, r#"{"x":1,"y":2,"x":3}"#).unwrap().0, "3|2");
    assert_eq!(row(&specs, r#"{"x":"bad","\u0078":4}"#).unwrap().0, "4|∅");
    assert_eq!(row(&specs, r#"{"x":1,"x":null}"#).unwrap().0, "∅|∅");
}

#[test]
fn digits_that_have_a_place_of_their_own_are_not_rounded_away() {
    let narrow = Rule::Decimal { precision: 5, scale: 2 };
    let wide = Rule::Decimal { precision: 10, scale: 4 };
    let specs = [Spec { overflow: Some((wide, true)), ..spec("x", narrow.clone()) }];
    assert_eq!(row(&specs, r#"{"x":1.25}"#).unwrap().0, "1.25|∅");
    assert_eq!(row(&specs, r#"{"x":1.2345}"#).unwrap().0, "∅|1.2345");
    assert_eq!(row(&[spec("x", narrow)], r#"{"x":1.2345}"#).unwrap().0, "1.23");
}

#[test]
fn values_that_do_not_fit_have_a_place_of_their_own() {
    let of = |is_there| [Spec { overflow: Some((text(), is_there)), ..spec("x", Rule::Timestamp) }];
    let fault = row(&of(false), r#"{"x":"soon"}"#).unwrap_err();
    assert_eq!(lacks(fault), [Missing::Overflow { path: vec!["x".to_owned()] }]);
    let (shown, tally) = row(&of(true), r#"{"x":"soon"}"#).unwrap();
    assert_eq!((shown.as_str(), counts(&tally)), ("∅|soon", vec![("x".to_owned(), Coercion::OtherColumn)]));
    // What is null by the tables stays null.
    let (shown, tally) = row(&of(true), r#"{"x":"0000-00-00"}"#).unwrap();
    assert_eq!((shown.as_str(), counts(&tally)), ("∅|∅", vec![("x".to_owned(), Coercion::ImpossibleDate)]));
    // A list goes as a whole.
    let list = [Spec { overflow: Some((Rule::JsonText, true)), ..spec("x", Rule::List(Box::new(Rule::Integer))) }];
    assert_eq!(row(&list, r#"{"x":[1, 5000000000]}"#).unwrap().0, "∅|[1,5000000000]");
    let nested = structure(&of(false));
    let fault = row(&[spec("s", nested)], r#"{"s":{"x":"soon"}}"#).unwrap_err();
    assert_eq!(lacks(fault), [Missing::Overflow { path: vec!["s".to_owned(), "x".to_owned()] }]);
}

#[test]
fn what_is_no_object_or_no_json_is_told_apart() {
    let specs = [spec("x", Rule::Long)];
    for record in ["[]", "1", "null", "\"{}\""] {
        assert!(matches!(row(&specs, record), Err(Fault::NotAnObject)), "{record}");
    }
    for record in [
        "",
        "{",
        r#"{"x":01}"#,
        r#"{"x":1}}"#,
        r#"{"x":1,}"#,
        "{\"x\":\"a\tb\"}",
        r#"{"x":1 "y":2}"#,
        r#"{"skipped":[nul],"x":1}"#,
    ] {
        assert!(matches!(row(&specs, record), Err(Fault::Malformed { .. })), "{record}");
    }
}

#[test]
fn broken_text_is_replaced_and_counted() {
    let layout = stream(layout_of(&[spec("x", text()), spec("y", Rule::JsonText)]));
    let (row, tally) = row_with(&layout, &Options::default(), b"{\"x\":\"a\xff\\ud800\",\"y\":[\"\\udc00\xff\"]}").unwrap();
    assert_eq!(row, "a\u{fffd}\u{fffd}|[\"\\ufffd\u{fffd}\"]");
    let expected = [
        ("x", Coercion::InvalidUtf8),
        ("x", Coercion::LoneSurrogate),
        ("y", Coercion::InvalidUtf8),
        ("y", Coercion::LoneSurrogate),
    ];
    assert_eq!(counts(&tally), expected.map(|(path, coercion)| (path.to_owned(), coercion)));
}

fn with_metadata(mut layout: Layout, columns: &[(MetadataColumn, &str, Rule)]) -> Layout {
    for (metadata, name, rule) in columns {
        layout.columns.push(Column {
            name: name.to_string(),
            rule: rule.clone(),
            nullable: true,
            fill: Fill::Metadata(*metadata),
        });
    }
    layout
}

const META: RowMeta = RowMeta {
    extracted_at_us: Some(1_000_000),
    received_at_us: 2_000_000,
    batched_at_us: 3_000_000,
    sequence: 2_000,
    table_version: Some(9),
    sync_started_at: Some(1),
};

#[test]
fn metadata_columns_come_from_the_row() {
    let layout = with_metadata(
        layout_of(&[spec("x", Rule::Long)]),
        &[
            (MetadataColumn::ExtractedAt, "_sdc_extracted_at", Rule::Timestamp),
            (MetadataColumn::ReceivedAt, "_sdc_received_at", text()),
            (MetadataColumn::BatchedAt, "_sdc_batched_at", Rule::Timestamp),
            (MetadataColumn::DeletedAt, "_sdc_deleted_at", Rule::Timestamp),
            (MetadataColumn::Sequence, "_sdc_sequence", Rule::Long),
            (MetadataColumn::TableVersion, "_sdc_table_version", Rule::Integer),
            (MetadataColumn::SyncStartedAt, "_sdc_sync_started_at", Rule::Long),
        ],
    );
    let mut builder = BatchBuilder::new(stream(layout), Options::default());
    let mut tally = Tally::default();
    builder.push(br#"{"x":1}"#, InputLine(1), &META, &mut tally).unwrap();
    assert_eq!(builder.push_fast(br#"{"x":1} "#), Some(7));
    builder.end_row(&META);
    // A tap's own mark counts, declared or not.
    let deleted = br#"{"_sdc_deleted_at":"2024-03-01T00:00:00Z","x":2}"#;
    builder.push(deleted, InputLine(1), &META, &mut tally).unwrap();
    assert_eq!(builder.push_fast(deleted), Some(deleted.len()));
    builder.end_row(&RowMeta { extracted_at_us: None, table_version: None, ..META });
    let plain = "1|1970-01-01T00:00:01Z|1970-01-01T00:00:02.000000Z|1970-01-01T00:00:03Z|∅|2000|9|1";
    let marked = "2|1970-01-01T00:00:01Z|1970-01-01T00:00:02.000000Z|1970-01-01T00:00:03Z|2024-03-01T00:00:00Z|2000|9|1";
    let last = "2|∅|1970-01-01T00:00:02.000000Z|1970-01-01T00:00:03Z|2024-03-01T00:00:00Z|2000|∅|1";
    assert_eq!(show(&builder.finish().unwrap()), [plain, plain, marked, last]);
}

#[test]
fn a_version_or_a_soft_delete_asks_for_its_column() {
    let layout = stream(layout_of(&[spec("x", Rule::Long)]));
    let mut builder = BatchBuilder::new(layout, Options::default());
    let mut tally = Tally::default();
    let fault = builder.push(br#"{"x":1}"#, InputLine(1), &META, &mut tally).unwrap_err();
    assert_eq!(lacks(fault), [Missing::Metadata(MetadataColumn::TableVersion)]);
    let meta = RowMeta { table_version: None, ..META };
    let fault = builder.push(br#"{"x":1,"_sdc_deleted_at":"2024-01-01"}"#, InputLine(1), &meta, &mut tally).unwrap_err();
    assert_eq!(lacks(fault), [Missing::Metadata(MetadataColumn::DeletedAt)]);
    builder.push(br#"{"x":1,"_sdc_deleted_at":null}"#, InputLine(1), &meta, &mut tally).unwrap();
    assert_eq!(show(&builder.finish().unwrap()), ["1"]);
}

#[test]
fn a_layout_that_grows_fills_up_with_nulls() {
    let before =
        [spec("s", structure(&[spec("a", Rule::Long)])), spec("l", Rule::List(Box::new(structure(&[spec("a", Rule::Long)]))))];
    let inner = [spec("a", Rule::Long), spec("b", text())];
    let after = [spec("s", structure(&inner)), spec("l", Rule::List(Box::new(structure(&inner)))), spec("new", Rule::Boolean)];
    let mut builder = BatchBuilder::new(stream(layout_of(&before)), Options::default());
    let (meta, mut tally) = (RowMeta::default(), Tally::default());
    builder.push(br#"{"s":{"a":1},"l":[{"a":1},{"a":2}]}"#, InputLine(1), &meta, &mut tally).unwrap();
    let wider = br#"{"s":{"a":2,"b":"x"},"l":[{"b":"y"}],"new":true}"#;
    assert!(builder.push_fast(wider).is_none());
    assert!(matches!(builder.push(wider, InputLine(2), &meta, &mut tally), Err(Fault::Missing(_))));
    let next = stream(layout_of(&after));
    builder.extend(next.clone()).unwrap();
    assert_eq!((builder.rows(), builder.layout() == &next), (1, true));
    builder.push(wider, InputLine(2), &meta, &mut tally).unwrap();
    assert!(builder.push_fast(wider).is_some());
    builder.end_row(&meta);
    let wide = "{a: 2, b: x}|[{a: ∅, b: y}]|true";
    assert_eq!(show(&builder.finish().unwrap()), ["{a: 1, b: ∅}|[{a: 1, b: ∅}, {a: 2, b: ∅}]|∅", wide, wide]);
    // A column that changes its type needs a new batch; nothing is lost by asking.
    builder.push(wider, InputLine(3), &meta, &mut tally).unwrap();
    assert!(builder.extend(stream(layout_of(&before))).is_err());
    assert!(builder.extend(stream(layout_of(&[spec("s", text())]))).is_err());
    assert_eq!(show(&builder.finish().unwrap()), [wide]);
}

#[test]
fn batches_have_the_schema_of_the_table_also_when_empty() {
    let layout = stream(layout_of(&[
        spec("t", Rule::Timestamp),
        spec("n", Rule::TimestampNtz),
        spec("d", decimal(12, 3)),
        spec("m", Rule::Map(Box::new(Rule::List(Box::new(Rule::Float))))),
        Spec { nullable: false, ..spec("k", Rule::Binary(BinaryEncoding::Base64)) },
    ]));
    let mut builder = BatchBuilder::new(layout.clone(), Options::default());
    for rows in [0, 1] {
        if rows == 1 {
            let record = br#"{"k":"AA==","m":{"a":[1]}}"#;
            builder.push(record, InputLine(1), &RowMeta::default(), &mut Tally::default()).unwrap();
        }
        let batch = builder.finish().unwrap();
        assert_eq!((batch.schema(), batch.num_rows()), (layout.table_schema.arrow_schema().unwrap(), rows));
    }
    let mut nothing = BatchBuilder::new(stream(Layout::default()), Options::default());
    nothing.push(b"{}", InputLine(1), &RowMeta::default(), &mut Tally::default()).unwrap();
    assert_eq!(nothing.finish().unwrap().num_rows(), 1);
}

#[test]
fn a_row_taken_back_leaves_nothing() {
    let layout = stream(layout_of(&[spec("x", text()), spec("l", Rule::List(Box::new(text())))]));
    let mut builder = BatchBuilder::new(layout, Options::default());
    let (meta, mut tally) = (RowMeta::default(), Tally::default());
    builder.push(br#"{"x":"a","l":["b"]}"#, InputLine(1), &meta, &mut tally).unwrap();
    builder.push_fast(br#"{"x":"gone","l":["gone",null]}"#).unwrap();
    builder.undo_row();
    builder.push_fast(br#"{"l":["gone"],"x":"gone"}"#).unwrap();
    // Never ended: the next row takes its place.
    builder.push_fast(br#"{"x":"c"}"#).unwrap();
    builder.end_row(&meta);
    builder.end_row(&meta);
    builder.push_fast(br#"{"x":"never ended"}"#).unwrap();
    assert_eq!(builder.rows(), 2);
    assert_eq!(show(&builder.finish().unwrap()), ["a|[b]", "c|∅"]);
}

#[test]
fn a_batch_is_full_at_64_mebibytes() {
    let mut builder = BatchBuilder::new(stream(layout_of(&[spec("x", text())])), Options::default());
    let record = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let mut rows = 0;
    while !builder.is_full() {
        builder.push_fast(record.as_bytes()).unwrap();
        builder.end_row(&RowMeta::default());
        rows += 1;
    }
    assert!((32..=65).contains(&rows) && builder.bytes() >= 64 << 20, "{rows}");
    builder.finish().unwrap();
    assert!(!builder.is_full() && builder.bytes() < 1 << 20);
}

#[test]
fn the_fast_path_rests_when_it_never_helps() {
    let mut builder = BatchBuilder::new(stream(layout_of(&[spec("x", Rule::Timestamp)])), Options::default());
    let taken = |builder: &mut BatchBuilder, text: &[u8]| builder.push_fast(text).is_some();
    (0..8).for_each(|_| assert!(!taken(&mut builder, br#"{"x":1700000000}"#)));
    let refused = (0..200).take_while(|_| !taken(&mut builder, br#"{"x":null}"#)).count();
    assert_eq!(refused, 64);
}

#[test]
fn keys_in_any_order_and_spelling_are_found() {
    let layout = stream(layout_of(&[spec("a", Rule::Long), spec("é", Rule::Long), spec("c", Rule::Long)]));
    let mut builder = BatchBuilder::new(layout, Options::default());
    let mut expected = Vec::new();
    for (record, row) in [
        (r#"{"a":1,"é":2,"c":3}"#, "1|2|3"),
        (r#"{"c" : 3, "\u00e9": 2 , "a":1 }"#, "1|2|3"),
        (r#"{ "c" :3,"a":1}"#, "1|∅|3"),
        (r#"{"\u00e9": 2,"c":3}"#, "∅|2|3"),
        ("{ }", "∅|∅|∅"),
    ] {
        for _ in 0..2 {
            assert_eq!(builder.push_fast(record.as_bytes()), Some(record.len()), "{record}");
            builder.end_row(&RowMeta::default());
            expected.push(row);
        }
    }
    assert_eq!(show(&builder.finish().unwrap()), expected);
}
