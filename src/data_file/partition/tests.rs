use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
    TimestampMicrosecondArray,
};
use proptest::prelude::*;

use super::super::tests::batch_of;
use super::*;
use crate::ErrorKind;

fn split(batch: &RecordBatch, columns: &[&str]) -> Vec<Partition> {
    split_partitions(batch, &columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

/// The texts of the values, in order, each once.
fn texts(array: impl Array + 'static) -> Vec<Option<String>> {
    let rows = array.len() as i64;
    let batch = batch_of(vec![("p", Arc::new(array) as ArrayRef), ("n", Arc::new(Int64Array::from_iter_values(0..rows)))]);
    split(&batch, &["p"]).into_iter().map(|partition| partition.values[0].1.clone()).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|&text| Some(text.to_owned())).collect()
}

#[test]
fn values_have_the_texts_of_the_protocol() {
    assert_eq!(texts(BooleanArray::from(vec![true, false])), some(&["true", "false"]));
    assert_eq!(texts(Int32Array::from(vec![-1, 7])), some(&["-1", "7"]));
    assert_eq!(
        texts(Float64Array::from(vec![1.0, -0.0, 1e16, f64::INFINITY, f64::NEG_INFINITY, f64::NAN])),
        some(&["1.0", "-0.0", "1e16", "Infinity", "-Infinity", "NaN"])
    );
    let decimals = Decimal128Array::from(vec![4, -234_234_223_423, 23_400_000]).with_precision_and_scale(38, 5).unwrap();
    assert_eq!(texts(decimals), some(&["0.00004", "-2342342.23423", "234.00000"]));
    assert_eq!(texts(Date32Array::from(vec![0, -719_162, 2_932_897])), some(&["1970-01-01", "0001-01-01", "+10000-01-01"]));
    assert_eq!(
        texts(TimestampMicrosecondArray::from(vec![0, 1_704_067_200_123_450, -1]).with_timezone("UTC")),
        some(&["1970-01-01T00:00:00.000000Z", "2024-01-01T00:00:00.123450Z", "1969-12-31T23:59:59.999999Z"])
    );
    assert_eq!(
        texts(TimestampMicrosecondArray::from(vec![0, 1_704_067_200_123_450])),
        some(&["1970-01-01 00:00:00", "2024-01-01 00:00:00.12345"])
    );
    assert_eq!(
        texts(StringArray::from(vec!["a b/%", "__HIVE_DEFAULT_PARTITION__"])),
        some(&["a b/%", "__HIVE_DEFAULT_PARTITION__"])
    );
    assert_eq!(texts(BinaryArray::from(vec!["ä".as_bytes()])), some(&["ä"]));
}

#[test]
fn null_and_empty_text_are_one_partition_and_the_empty_ones_are_counted() {
    let batch = batch_of(vec![
        ("p", Arc::new(StringArray::from(vec![Some(""), Some("x"), None, Some("")])) as ArrayRef),
        ("n", Arc::new(Int64Array::from(vec![0, 1, 2, 3]))),
    ]);
    let partitions = split(&batch, &["p"]);
    assert_eq!(partitions.len(), 2);
    assert_eq!(partitions[0].values, [("p".to_owned(), None)]);
    assert_eq!(partitions[0].rows, Some(vec![0, 2, 3]));
    assert_eq!(partitions[0].empty_texts, 2);
    assert_eq!(partitions[0].batch.column(0).as_ref(), &Int64Array::from(vec![0, 2, 3]) as &dyn Array);
    assert_eq!((partitions[1].rows.clone(), partitions[1].empty_texts), (Some(vec![1]), 0));
}

#[test]
fn one_partition_is_the_batch_itself() {
    let batch = batch_of(vec![
        ("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("p", Arc::new(StringArray::from(vec!["x", "x"]))),
    ]);
    let partitions = split(&batch, &["p"]);
    assert_eq!((partitions.len(), &partitions[0].rows), (1, &None));
    assert_eq!(partitions[0].batch.schema().fields().len(), 1);
    let whole = split(&batch, &[]);
    assert_eq!((whole.len(), &whole[0].rows, whole[0].values.len()), (1, &None, 0));
    assert_eq!(whole[0].batch, batch);
    assert!(split(&batch.slice(0, 0), &["p"]).is_empty());
}

#[test]
fn values_keep_the_order_of_the_partition_columns() {
    let batch = batch_of(vec![
        ("b", Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef),
        ("a", Arc::new(StringArray::from(vec!["x", "y"]))),
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    let partitions = split(&batch, &["a", "b"]);
    assert_eq!(directory(&partitions[0].values), "a=x/b=1");
    assert_eq!(directory(&partitions[1].values), "a=y/b=1");
}

#[test]
fn what_cannot_be_a_partition_value_is_refused() {
    let failure = |array: ArrayRef| {
        let batch = batch_of(vec![("p", array), ("n", Arc::new(Int64Array::from(vec![1])))]);
        split_partitions(&batch, &["p".to_owned()]).unwrap_err()
    };
    let error = failure(Arc::new(BinaryArray::from(vec![b"\xFF" as &[u8]])));
    assert_eq!((error.kind(), error.field()), (ErrorKind::Input, Some("p")));
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)])]);
    assert_eq!(failure(Arc::new(list)).kind(), ErrorKind::Schema);
    let batch = batch_of(vec![("n", Arc::new(Int64Array::from(vec![1])))]);
    assert_eq!(split_partitions(&batch, &["p".to_owned()]).unwrap_err().kind(), ErrorKind::Internal);
}

fn directory_of(value: Option<&str>) -> String {
    directory(&[("p".to_owned(), value.map(str::to_owned))])
}

#[test]
fn directories_are_escaped_as_hive_does() {
    assert_eq!(directory(&[]), "");
    assert_eq!(directory_of(None), "p=__HIVE_DEFAULT_PARTITION__");
    assert_eq!(directory_of(Some("x y")), "p=x y");
    assert_eq!(directory_of(Some("a/b")), "p=a%2Fb");
    assert_eq!(directory_of(Some("ä+&<>|~,;!@$()}")), "p=ä+&<>|~,;!@$()}");
    let escaped = "\"#%'*/:=?\\{[]^\u{7F}\u{1}\n\u{1F}\0";
    assert_eq!(directory_of(Some(escaped)), "p=%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E%7F%01%0A%1F%00");
    assert_eq!(directory(&[("a=b".to_owned(), Some("1".to_owned()))]), "a%3Db=1");
}

#[test]
fn the_text_of_hives_null_gets_another_directory_than_null() {
    assert_eq!(directory_of(Some("__HIVE_DEFAULT_PARTITION__")), "p=%5F_HIVE_DEFAULT_PARTITION__");
    assert_ne!(directory_of(Some("%5F_HIVE_DEFAULT_PARTITION__")), directory_of(Some("__HIVE_DEFAULT_PARTITION__")));
}

#[test]
fn long_values_get_names_that_file_systems_take() {
    let long = |last: char| directory_of(Some(&("ä/".repeat(200) + &last.to_string())));
    assert!(long('a').len() <= 240 && long('a').contains("%~"));
    assert_ne!(long('a'), long('b'));
    assert_eq!(long('a'), long('a'));
}

fn any_value() -> impl Strategy<Value = Option<String>> {
    let tricky = prop::sample::select(vec!["", "__HIVE_DEFAULT_PARTITION__", "%5F", "a/b", "a%2Fb", "a=b", "=", "/", "."]);
    prop::option::of(prop_oneof![any::<String>(), tricky.prop_map(str::to_owned), "[ab/=%]{0,3}", "a{235,260}"])
}

proptest! {
    #[test]
    fn different_values_have_different_directories(
        a in proptest::collection::vec(any_value(), 2),
        b in proptest::collection::vec(any_value(), 2),
    ) {
        let named = |values: &[Option<String>]| -> Vec<(String, Option<String>)> {
            ["p", "q=/"].iter().map(|name| (*name).to_owned()).zip(values.iter().cloned()).collect()
        };
        // The empty text is null by the time that a directory is asked for.
        let of_log = |values: &[Option<String>]| -> Vec<Option<String>> {
            values.iter().map(|value| value.clone().filter(|text| !text.is_empty())).collect()
        };
        prop_assert_eq!(directory(&named(&a)) == directory(&named(&b)), of_log(&a) == of_log(&b));
        prop_assert_eq!(directory(&named(&a)).matches('/').count(), 1);
    }

    #[test]
    fn a_split_loses_and_doubles_no_row(
        rows in proptest::collection::vec((prop::option::of("[ab]{0,2}"), prop::option::of(0i64..3), any::<i64>()), 1..80),
    ) {
        let batch = batch_of(vec![
            ("p", Arc::new(StringArray::from_iter(rows.iter().map(|row| row.0.clone()))) as ArrayRef),
            ("n", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
            ("q", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.1)))),
        ]);
        let partitions = split(&batch, &["p", "q"]);
        let mut seen: HashMap<u32, i64> = HashMap::new();
        let mut values = Vec::new();
        for partition in &partitions {
            prop_assert!(!values.contains(&partition.values));
            values.push(partition.values.clone());
            let indexes = partition.rows.clone().unwrap_or_else(|| (0..rows.len() as u32).collect());
            prop_assert!(indexes.is_sorted());
            prop_assert_eq!(indexes.len(), partition.batch.num_rows());
            let numbers = partition.batch.column(0).as_primitive::<Int64Type>();
            for (index, number) in indexes.iter().zip(numbers.values()) {
                prop_assert!(seen.insert(*index, *number).is_none());
                let row = &rows[*index as usize];
                prop_assert_eq!(&partition.values[0].1, &row.0.clone().filter(|text| !text.is_empty()));
                prop_assert_eq!(&partition.values[1].1, &row.1.map(|value| value.to_string()));
                prop_assert_eq!(*number, row.2);
            }
        }
        prop_assert_eq!(seen.len(), rows.len());
        let empty: u64 = partitions.iter().map(|partition| partition.empty_texts).sum();
        prop_assert_eq!(empty, rows.iter().filter(|row| row.0.as_deref() == Some("")).count() as u64);
    }
}
