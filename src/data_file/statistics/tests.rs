use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    ListArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Int64Type};
use proptest::prelude::*;
use serde_json::Value;

use super::super::tests::batch_of;
use super::*;

fn statistics(batches: &[RecordBatch], columns: &StatisticsColumns) -> String {
    let mut collector = Collector::new(&batches[0].schema(), columns);
    batches.iter().for_each(|batch| collector.add(batch));
    let text = collector.to_json();
    serde_json::from_str::<Value>(&text).unwrap();
    text
}

fn of(array: impl Array + 'static) -> String {
    statistics(&[batch_of(vec![("a", Arc::new(array))])], &StatisticsColumns::default())
}

/// The bounds' JSON texts.
fn bounds_of(array: impl Array + 'static) -> (Option<String>, Option<String>) {
    let text = of(array);
    let value: serde_json::value::Value = serde_json::from_str(&text).unwrap();
    let raw = |section: &str| {
        value[section].get("a")?;
        let start = text.find(&format!("\"{section}\":{{\"a\":")).unwrap() + section.len() + 8;
        let end = text[start..].find('}').unwrap();
        Some(text[start..start + end].to_owned())
    };
    (raw("minValues"), raw("maxValues"))
}

fn both(min: &str, max: &str) -> (Option<String>, Option<String>) {
    (Some(min.to_owned()), Some(max.to_owned()))
}

#[test]
fn integers_are_exact() {
    assert_eq!(
        of(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        r#"{"numRecords":3,"minValues":{"a":-9223372036854775808},"maxValues":{"a":9223372036854775807},"nullCount":{"a":1},"tightBounds":true}"#
    );
    assert_eq!(bounds_of(Int32Array::from(vec![5, -7, 3])), both("-7", "5"));
}

#[test]
fn a_column_of_nulls_has_a_count_and_no_bounds() {
    assert_eq!(of(Int64Array::new_null(2)), r#"{"numRecords":2,"nullCount":{"a":2},"tightBounds":true}"#);
    assert_eq!(of(StringArray::new_null(2)), r#"{"numRecords":2,"nullCount":{"a":2},"tightBounds":true}"#);
}

#[test]
fn decimals_keep_every_digit() {
    let decimals = |precision, scale, values: Vec<i128>| {
        bounds_of(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
    };
    let most = 10i128.pow(38) - 1;
    assert_eq!(
        decimals(38, 10, vec![most, -most]),
        both("-9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999")
    );
    assert_eq!(decimals(5, 2, vec![-5, 7, 12_345]), both("-0.05", "123.45"));
    assert_eq!(decimals(5, 5, vec![1]), both("0.00001", "0.00001"));
    assert_eq!(decimals(38, 0, vec![most]), both(&most.to_string(), &most.to_string()));
}

#[test]
fn floats_have_bounds_that_json_can_hold() {
    assert_eq!(bounds_of(Float64Array::from(vec![1.5, -2.5])), both("-2.5", "1.5"));
    assert_eq!(bounds_of(Float64Array::from(vec![1.5, f64::NAN])), (None, None));
    assert_eq!(bounds_of(Float64Array::from(vec![1.5, -f64::NAN])), (None, None));
    assert_eq!(bounds_of(Float64Array::from(vec![0.0])), both("-0.0", "0.0"));
    assert_eq!(bounds_of(Float64Array::from(vec![-0.0])), both("-0.0", "0.0"));
    assert_eq!(bounds_of(Float64Array::from(vec![f64::INFINITY, 1.0])), (Some("1.0".into()), None));
    assert_eq!(bounds_of(Float64Array::from(vec![f64::NEG_INFINITY, 1.0])), (None, Some("1.0".into())));
    assert_eq!(bounds_of(Float64Array::from(vec![1e300, 5e-324])), both("5e-324", "1e300"));
    assert_eq!(bounds_of(Float32Array::from(vec![0.1f32])), both("0.10000000149011612", "0.10000000149011612"));
    assert_eq!(bounds_of(Float32Array::from(vec![f32::NAN, 1.0])), (None, None));
}

#[test]
fn nan_in_a_later_batch_takes_the_bounds_back() {
    let batch = |value: f64| batch_of(vec![("a", Arc::new(Float64Array::from(vec![value])))]);
    let text = statistics(&[batch(1.0), batch(f64::NAN), batch(2.0)], &StatisticsColumns::default());
    assert_eq!(text, r#"{"numRecords":3,"nullCount":{"a":0},"tightBounds":true}"#);
}

#[test]
fn dates_are_iso_within_four_digit_years() {
    assert_eq!(bounds_of(Date32Array::from(vec![0, 19_723])), both("\"1970-01-01\"", "\"2024-01-01\""));
    assert_eq!(bounds_of(Date32Array::from(vec![-719_162, 2_932_896])), both("\"0001-01-01\"", "\"9999-12-31\""));
    assert_eq!(bounds_of(Date32Array::from(vec![-719_163, 2_932_897])), (None, None));
    assert_eq!(bounds_of(Date32Array::from(vec![i32::MIN, i32::MAX])), (None, None));
}

#[test]
fn timestamps_go_down_and_up_to_whole_milliseconds() {
    let utc = |values: Vec<i64>| bounds_of(TimestampMicrosecondArray::from(values).with_timezone("UTC"));
    let jan = 1_704_067_200_000_000;
    assert_eq!(utc(vec![jan]), both("\"2024-01-01T00:00:00.000Z\"", "\"2024-01-01T00:00:00.000Z\""));
    assert_eq!(utc(vec![jan + 1]), both("\"2024-01-01T00:00:00.000Z\"", "\"2024-01-01T00:00:00.001Z\""));
    assert_eq!(utc(vec![-1]), both("\"1969-12-31T23:59:59.999Z\"", "\"1970-01-01T00:00:00.000Z\""));
    let ntz = bounds_of(TimestampMicrosecondArray::from(vec![jan + 123_456]));
    assert_eq!(ntz, both("\"2024-01-01T00:00:00.123\"", "\"2024-01-01T00:00:00.124\""));
    let end_of_time = 253_402_300_799_999_999;
    assert_eq!(utc(vec![end_of_time]), (Some("\"9999-12-31T23:59:59.999Z\"".into()), None));
    assert_eq!(utc(vec![i64::MIN, i64::MAX]), (None, None));
}

#[test]
fn booleans_binaries_and_lists_have_counts_only() {
    assert_eq!(of(BooleanArray::from(vec![Some(true), None])), r#"{"numRecords":2,"nullCount":{"a":1},"tightBounds":true}"#);
    assert_eq!(
        of(BinaryArray::from(vec![Some(b"x" as &[u8]), None])),
        r#"{"numRecords":2,"nullCount":{"a":1},"tightBounds":true}"#
    );
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![None, Some(1)]), None]);
    assert_eq!(of(list), r#"{"numRecords":2,"nullCount":{"a":1},"tightBounds":true}"#);
}

#[test]
fn texts_are_cut_at_32_characters_and_the_upper_one_raised() {
    let cut = |text: &str| bounds_of(StringArray::from(vec![text]));
    let quoted = |text: &str| Value::from(text).to_string();
    let exact = "é".repeat(32);
    assert_eq!(cut(&exact), both(&quoted(&exact), &quoted(&exact)));
    assert_eq!(cut(&"a".repeat(33)), both(&quoted(&"a".repeat(32)), &quoted(&("a".repeat(31) + "b"))));
    let before_surrogates = "a".repeat(31) + "\u{D7FF}!";
    assert_eq!(cut(&before_surrogates).1, Some(quoted(&("a".repeat(31) + "\u{E000}"))));
    let last = "a".repeat(30) + "b\u{10FFFF}!";
    assert_eq!(cut(&last).1, Some(quoted(&("a".repeat(30) + "c"))));
    assert_eq!(cut(&"\u{10FFFF}".repeat(33)), (Some(quoted(&"\u{10FFFF}".repeat(32))), None));
    assert_eq!(cut("\"\\\n\u{1}"), both(r#""\"\\\n\u0001""#, r#""\"\\\n\u0001""#));
    assert_eq!(cut(""), both("\"\"", "\"\""));
}

#[test]
fn a_value_above_a_mebibyte_leaves_its_column_without_bounds() {
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(bounds_of(StringArray::from(vec!["a", large.as_str(), "b"])), (None, None));
    let at_limit = &large[1..];
    assert_eq!(bounds_of(StringArray::from(vec!["a", at_limit])).0, Some("\"a\"".into()));
}

fn nested() -> RecordBatch {
    let inner: Fields = vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Boolean, true)].into();
    let inner_array = StructArray::new(
        inner,
        vec![Arc::new(Int64Array::from(vec![Some(-100), None, Some(3)])), Arc::new(BooleanArray::from(vec![true; 3]))],
        Some(vec![true, true, true].into()),
    );
    let outer: Fields =
        vec![Field::new("z", inner_array.data_type().clone(), true), Field::new("s", DataType::Utf8, true)].into();
    let outer_array = StructArray::new(
        outer,
        vec![Arc::new(inner_array), Arc::new(StringArray::from(vec!["hidden", "b", "c"]))],
        Some(vec![false, true, true].into()),
    );
    batch_of(vec![("st", Arc::new(outer_array) as ArrayRef), ("n", Arc::new(Int64Array::from(vec![1, 2, 3])))])
}

#[test]
fn the_leaves_of_structs_are_null_where_a_struct_is() {
    assert_eq!(
        statistics(&[nested()], &StatisticsColumns::default()),
        r#"{"numRecords":3,"minValues":{"st":{"z":{"x":3},"s":"b"},"n":1},"maxValues":{"st":{"z":{"x":3},"s":"c"},"n":3},"nullCount":{"st":{"z":{"x":2,"y":1},"s":1},"n":0},"tightBounds":true}"#
    );
}

#[test]
fn only_the_first_leaves_or_the_named_ones_are_counted() {
    let nulls = |columns: StatisticsColumns| -> Value {
        serde_json::from_str::<Value>(&statistics(&[nested()], &columns)).unwrap()["nullCount"].clone()
    };
    let first = |leaves| nulls(StatisticsColumns { first_leaves: leaves, named: None }).to_string();
    assert_eq!(first(Some(0)), "null");
    assert_eq!(first(Some(1)), r#"{"st":{"z":{"x":2}}}"#);
    assert_eq!(first(Some(3)), r#"{"st":{"z":{"x":2,"y":1},"s":1}}"#);
    assert_eq!(first(None), r#"{"st":{"z":{"x":2,"y":1},"s":1},"n":0}"#);
    let named = |names: &[&str]| {
        let named = Some(names.iter().map(|name| (*name).to_owned()).collect());
        nulls(StatisticsColumns { first_leaves: Some(1), named }).to_string()
    };
    assert_eq!(named(&["n"]), r#"{"n":0}"#);
    assert_eq!(named(&["ST.z"]), r#"{"st":{"z":{"x":2,"y":1}}}"#);
    assert_eq!(named(&["st.`s`", "`n`"]), r#"{"st":{"s":1},"n":0}"#);
    assert_eq!(named(&[]), "null");
    assert_eq!(path_parts("`a.b`.c.`d``e`"), ["a.b", "c", "d`e"]);
}

#[test]
fn the_33rd_column_has_no_statistics() {
    let names: Vec<String> = (0..34).map(|index| format!("c{index}")).collect();
    let columns = names.iter().map(|name| (name.as_str(), Arc::new(Int64Array::from(vec![1])) as ArrayRef)).collect();
    let text = statistics(&[batch_of(columns)], &StatisticsColumns::default());
    assert!(text.contains("\"c31\"") && !text.contains("\"c32\""));
}

fn any_text() -> impl Strategy<Value = String> {
    // Long shared beginnings of few characters, the last ones of Unicode among them.
    let few = proptest::collection::vec(prop::sample::select(vec!['a', 'b', '\0', '\u{D7FF}', '\u{E000}', '\u{10FFFF}']), 28..40);
    prop_oneof![any::<String>(), few.prop_map(|characters| characters.into_iter().collect())]
}

proptest! {
    #[test]
    fn text_bounds_hold_for_every_text(batches in proptest::collection::vec(proptest::collection::vec(prop::option::of(any_text()), 0..8), 1..5)) {
        let arrays: Vec<RecordBatch> =
            batches.iter().map(|texts| batch_of(vec![("a", Arc::new(StringArray::from(texts.clone())))])).collect();
        let value: Value = serde_json::from_str(&statistics(&arrays, &StatisticsColumns::default())).unwrap();
        let texts: Vec<&String> = batches.iter().flatten().flatten().collect();
        let (min, max) = (value["minValues"]["a"].as_str(), value["maxValues"]["a"].as_str());
        prop_assert_eq!(min.is_some(), !texts.is_empty());
        for text in &texts {
            prop_assert!(min.unwrap() <= text.as_str());
            prop_assert!(max.is_none_or(|max| max >= text.as_str()));
        }
        for bound in min.iter().chain(&max) {
            prop_assert!(bound.chars().count() <= 32);
        }
        // Tight where nothing is cut.
        let is_cut = |text: &str| text.chars().count() > 32;
        if let Some(least) = texts.iter().min().filter(|text| !is_cut(text)) {
            prop_assert_eq!(min.unwrap(), least.as_str());
        }
        if let Some(most) = texts.iter().max().filter(|text| !is_cut(text)) {
            prop_assert_eq!(max.unwrap(), most.as_str());
        }
        let nulls = batches.iter().flatten().filter(|text| text.is_none()).count();
        prop_assert_eq!(value["nullCount"]["a"].as_u64().unwrap(), nulls as u64);
    }

    #[test]
    fn bounds_hold_for_every_value_of_every_type(
        longs in proptest::collection::vec(any::<Option<i64>>(), 1..40),
        doubles in proptest::collection::vec(any::<Option<f64>>(), 1..40),
        days in proptest::collection::vec(prop::option::of(-800_000i32..3_000_000), 1..40),
        times in proptest::collection::vec(prop::option::of(-70_000_000_000_000_000i64..260_000_000_000_000_000), 1..40),
        decimals in proptest::collection::vec(-(10i128.pow(38) - 1)..10i128.pow(38), 1..40),
    ) {
        let range = |array: ArrayRef| -> (Option<Value>, Option<Value>) {
            let text = statistics(&[batch_of(vec![("a", array)])], &StatisticsColumns::default());
            let value: Value = serde_json::from_str(&text).unwrap();
            (value["minValues"].get("a").cloned(), value["maxValues"].get("a").cloned())
        };
        let (min, max) = range(Arc::new(Int64Array::from(longs.clone())));
        prop_assert_eq!(min.map(|min| min.as_i64().unwrap()), longs.iter().flatten().min().copied());
        prop_assert_eq!(max.map(|max| max.as_i64().unwrap()), longs.iter().flatten().max().copied());

        let (min, max) = range(Arc::new(Float64Array::from(doubles.clone())));
        for value in doubles.iter().flatten() {
            prop_assert!(min.as_ref().is_none_or(|min| min.as_f64().unwrap() <= *value));
            prop_assert!(max.as_ref().is_none_or(|max| max.as_f64().unwrap() >= *value));
        }

        let (min, max) = range(Arc::new(Date32Array::from(days.clone())));
        let day_of = |text: &Value| {
            let date: chrono::NaiveDate = text.as_str().unwrap().parse().unwrap();
            date.signed_duration_since(chrono::NaiveDate::default()).num_days()
        };
        for day in days.iter().flatten() {
            prop_assert!(min.as_ref().is_none_or(|min| day_of(min) <= i64::from(*day)));
            prop_assert!(max.as_ref().is_none_or(|max| day_of(max) >= i64::from(*day)));
        }

        let (min, max) = range(Arc::new(TimestampMicrosecondArray::from(times.clone()).with_timezone("UTC")));
        let time_of = |text: &Value| text.as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros();
        for time in times.iter().flatten() {
            prop_assert!(min.as_ref().is_none_or(|min| (0..1_000_000_000_000_000_000).contains(&(time - time_of(min)))));
            prop_assert!(max.as_ref().is_none_or(|max| time_of(max) >= *time));
        }

        let array = Decimal128Array::from(decimals.clone()).with_precision_and_scale(38, 9).unwrap();
        let (min, max) = bounds_of(array);
        let unscaled = |text: String| text.replace('.', "").parse::<i128>().unwrap();
        prop_assert_eq!(min.map(unscaled), decimals.iter().min().copied());
        prop_assert_eq!(max.map(unscaled), decimals.iter().max().copied());
    }
}
