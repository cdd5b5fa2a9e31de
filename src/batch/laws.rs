//! Laws of the two paths, over random layouts and records: valid, odd and malformed ones.

use arrow::compute::concat_batches;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::tests::{Spec, layout_of, spec, stream, structure, text};
use super::*;
use crate::InputLine;
use crate::schema::{BinaryEncoding, NaiveTimestamps, Rule};

const KEYS: [&str; 6] = ["id", "a", "b\"", "é", "long_name_of_a_key", "x"];

fn leaf() -> impl Strategy<Value = Rule> {
    select(vec![
        Rule::Boolean,
        Rule::Byte,
        Rule::Integer,
        Rule::Long,
        Rule::Float,
        Rule::Double,
        Rule::Decimal { precision: 10, scale: 2 },
        Rule::Decimal { precision: 38, scale: 18 },
        text(),
        Rule::Text { max_characters: Some(4) },
        Rule::JsonText,
        Rule::Binary(BinaryEncoding::Base64),
        Rule::Date,
        Rule::Timestamp,
        Rule::TimestampNtz,
    ])
}

fn rule() -> impl Strategy<Value = Rule> {
    leaf().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|rule| Rule::List(Box::new(rule))),
            inner.clone().prop_map(|rule| Rule::Map(Box::new(rule))),
            subsequence(KEYS.to_vec(), 1..4)
                .prop_flat_map(move |keys| {
                    let rules = proptest::collection::vec(inner.clone(), keys.len());
                    (Just(keys), rules)
                })
                .prop_map(|(keys, rules)| structure(
                    &keys.into_iter().zip(rules).map(|(key, rule)| spec(key, rule)).collect::<Vec<_>>()
                )),
        ]
    })
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    subsequence(KEYS.to_vec(), 1..=KEYS.len()).prop_flat_map(|keys| {
        let one = (rule(), prop::bool::weighted(0.9), prop::bool::weighted(0.1), prop::option::weighted(0.2, any::<bool>()));
        proptest::collection::vec(one, keys.len()).prop_map(move |parts| {
            let of = |(key, (rule, nullable, is_key, overflow)): (&&'static str, (Rule, bool, bool, Option<bool>))| Spec {
                key,
                rule,
                nullable,
                is_key,
                overflow: overflow.map(|is_there| (text(), is_there)),
            };
            keys.iter().zip(parts).map(of).collect()
        })
    })
}

/// Values that some rule or other has something to say about.
fn odd() -> BoxedStrategy<String> {
    let fixed = select(vec![
        "NaN",
        "-Infinity",
        "01",
        "-",
        "1.5",
        "1.0",
        "1e3",
        "-0",
        "-0.0",
        "1e400",
        "1e-400",
        "\"\"",
        "[]",
        "{}",
        "\"12\"",
        "\"1.50\"",
        "\" 7 \"",
        "true",
        "false",
        "0",
        "1",
        "2",
        "\"t\"",
        "\"FALSE\"",
        "9223372036854775807",
        "9223372036854775808",
        "123456789012345678",
        "1234567890123456.7891",
        "9007199254740993",
        "0.30000000000000004",
        "0.125",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"\\u0000\"",
        "\"2024-02-30\"",
        "\"0000-00-00\"",
        "\"10000-01-01\"",
        "1700000000",
        "1700000000123.5",
        "\"a\tb\"",
        "nul",
        "\"x",
        "",
        "[1,]",
        "[ 1 , null ]",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"id\" : {\"a\": [true]} }",
        "\"2024-03-01T24:00:00Z\"",
        "\"2024-03-01T10:20:30\"",
        "\"2024-03-01 10:20:30.123456789+02:00\"",
        "\"2024-03-01T10:20:60Z\"",
        "\"9999-12-31T23:59:59-05:00\"",
        "\"0001-01-01T00:00:00+05:00\"",
        "\"2024-03-01T10:20:30.Z\"",
        "\"2024-03-01\"",
        "\"AP8=\"",
        "\"_-8\"",
        "\"*\"",
        "\"Infinity\"",
        "\"-\"",
        "\"1e2\"",
        "0.1234567890123456789",
        "100000000",
        "99999999.995",
        "\"äöüxy\"",
    ]);
    fixed.prop_map(str::to_owned).boxed()
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Texts of values that mostly fit the rule.
fn value(rule: &Rule) -> BoxedStrategy<String> {
    let fitting: BoxedStrategy<String> = match rule {
        Rule::Boolean => any::<bool>().prop_map(|value| value.to_string()).boxed(),
        Rule::Byte => any::<i8>().prop_map(|value| value.to_string()).boxed(),
        Rule::Short | Rule::Integer => any::<i16>().prop_map(|value| value.to_string()).boxed(),
        Rule::Long => prop_oneof![any::<i64>(), -999i64..999].prop_map(|value| value.to_string()).boxed(),
        Rule::Float => (-9999i32..9999).prop_map(|value| format!("{}", f64::from(value) / 8.0)).boxed(),
        Rule::Double => prop_oneof![
            any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| serde_json::json!(value).to_string()),
            (any::<i32>(), 0..1_000_000u32).prop_map(|(whole, part)| format!("{whole}.{part}")),
        ]
        .boxed(),
        Rule::Decimal { .. } => prop_oneof![
            (-9_999_999i32..9_999_999, 0..100u8).prop_map(|(whole, part)| format!("{whole}.{part:02}")),
            (-9_999_999i32..9_999_999, 0..100u8).prop_map(|(whole, part)| format!("\"{whole}.{part:02}\"")),
        ]
        .boxed(),
        Rule::Text { .. } | Rule::JsonText => prop_oneof![
            "[a-zäß€😀\"\\\\\n\u{1}]{0,20}".prop_map(|text| json_string(&text)),
            "[a-z]{0,5}(\\\\u00e9|\\\\/|\\\\ud83d\\\\ude00)?".prop_map(|text| format!("\"{text}\"")),
        ]
        .boxed(),
        Rule::Binary(_) => "([A-Za-z0-9+/]{4}){0,4}".prop_map(|text| format!("\"{text}\"")).boxed(),
        Rule::Date => (1..9999u16, 1..13u8, 1..32u8).prop_map(|(y, m, d)| format!("\"{y:04}-{m:02}-{d:02}\"")).boxed(),
        Rule::Timestamp | Rule::TimestampNtz => {
            let zone = select(vec!["Z", "", "+02:00", "-11:30", "+00:00"]);
            let fraction = select(vec!["", ".5", ".123456", ".999999999", ".0"]);
            (1990..2030u16, 1..13u8, 1..30u8, 0..86_400u32, fraction, zone)
                .prop_map(|(y, m, d, s, f, z)| {
                    format!("\"{y}-{m:02}-{d:02}T{:02}:{:02}:{:02}{f}{z}\"", s / 3600, s / 60 % 60, s % 60)
                })
                .boxed()
        }
        Rule::Struct(layout) => {
            let parts =
                layout.sources.iter().map(|source| (source.key.clone(), layout.columns[source.column.unwrap()].rule.clone()));
            object(parts.collect())
        }
        Rule::List(rule) => (proptest::collection::vec(value(rule), 0..4), select(vec![",", ", ", " , "]))
            .prop_map(|(values, comma)| format!("[{}]", values.join(comma)))
            .boxed(),
        Rule::Map(rule) => proptest::collection::vec((select(KEYS.to_vec()), value(rule)), 0..4)
            .prop_map(|pairs| {
                format!(
                    "{{{}}}",
                    pairs.iter().map(|(key, value)| format!("{}:{value}", json_string(key))).collect::<Vec<_>>().join(",")
                )
            })
            .boxed(),
    };
    prop_oneof![30 => fitting, 2 => Just("null".to_owned()), 1 => odd()].boxed()
}

/// Texts of objects that mostly have these keys, mostly in order.
fn object(parts: Vec<(String, Rule)>) -> BoxedStrategy<String> {
    let members: Vec<_> = parts
        .iter()
        .map(|(key, rule)| {
            prop::option::weighted(0.92, value(rule)).prop_map({
                let key = json_string(key);
                move |value| value.map(|value| (key.clone(), value))
            })
        })
        .collect();
    let keys: Vec<String> =
        KEYS.iter().map(|key| json_string(key)).chain(["\"new\"".to_owned(), "\"\\u00e9\"".to_owned()]).collect();
    let extra = prop::option::weighted(0.06, (select(keys), prop_oneof![odd(), Just("null".to_owned())]));
    let order = prop_oneof![4 => Just(None), 1 => any::<u64>().prop_map(Some)];
    let marks = prop_oneof![
        6 => Just(("", ":", ",")),
        6 => Just(("", ": ", ", ")),
        2 => Just((" ", " : ", " , ")),
        1 => Just(("
", ":	", ",
")),
    ];
    (members, extra, order, marks)
        .prop_map(|(members, extra, order, (edge, colon, comma))| {
            let mut members: Vec<(String, String)> = members.into_iter().flatten().chain(extra).collect();
            if let Some(order) = order
                && !members.is_empty()
            {
                let turn = order as usize % members.len();
                members.rotate_left(turn);
            }
            let members: Vec<_> = members.into_iter().map(|(key, value)| format!("{key}{colon}{value}")).collect();
            format!("{{{edge}{}{edge}}}", members.join(comma))
        })
        .boxed()
}

/// A record, now and then with a byte lost or another put in.
fn record(specs: &[Spec]) -> BoxedStrategy<String> {
    let whole = object(specs.iter().map(|spec| (spec.key.to_owned(), spec.rule.clone())).collect());
    let damage =
        prop::option::weighted(0.06, (any::<prop::sample::Index>(), prop::option::of(select(b"{}[]\",:0-.ex\\n ".to_vec()))));
    (whole, damage)
        .prop_map(|(whole, damage)| {
            let Some((at, by)) = damage else { return whole };
            let mut characters: Vec<char> = whole.chars().collect();
            let at = at.index(characters.len());
            match by {
                Some(by) => characters.insert(at, char::from(by)),
                None => drop(characters.remove(at)),
            }
            characters.into_iter().collect()
        })
        .boxed()
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>()).prop_map(|(is_set_null, is_ntz)| Options {
        on_bad_value: if is_set_null { OnBadValue::SetNull } else { OnBadValue::Fail },
        keep_nan: false,
        naive_timestamps: if is_ntz { NaiveTimestamps::Ntz } else { NaiveTimestamps::Utc },
    })
}

fn stream_of_records() -> impl Strategy<Value = (Vec<Spec>, Vec<String>, Options)> {
    specs().prop_flat_map(|specs| {
        let records = proptest::collection::vec(record(&specs), 1..12);
        (Just(specs), records, options())
    })
}

const META: RowMeta = RowMeta {
    extracted_at_us: None,
    received_at_us: 0,
    batched_at_us: 0,
    sequence: 0,
    table_version: None,
    sync_started_at: None,
};

/// Takes the record whichever way takes it first. Tells whether the fast path did.
fn push_either(builder: &mut BatchBuilder, record: &str, line: InputLine, tally: &mut Tally) -> Result<bool, Fault> {
    if builder.push_fast(record.as_bytes()) == Some(record.len()) {
        builder.end_row(&META);
        return Ok(true);
    }
    builder.undo_row();
    builder.push(record.as_bytes(), line, &META, tally).map(|()| false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_the_fast_path_takes_is_the_exact_row((specs, records, options) in stream_of_records()) {
        let layout = stream(layout_of(&specs));
        let mut either = BatchBuilder::new(layout.clone(), options.clone());
        let mut exact = BatchBuilder::new(layout, options);
        let (mut either_tally, mut exact_tally) = (Tally::default(), Tally::default());
        for (line, record) in records.iter().enumerate() {
            let line = InputLine(line as u64);
            let before = exact_tally.clone();
            let expected = exact.push(record.as_bytes(), line, &META, &mut exact_tally);
            match (push_either(&mut either, record, line, &mut either_tally), expected) {
                (Ok(true), Ok(())) => prop_assert_eq!(&before, &exact_tally, "counted: {}", record),
                (Ok(false), Ok(())) => {}
                (Err(fault), Err(expected)) => prop_assert_eq!(format!("{fault:?}"), format!("{expected:?}")),
                (taken, expected) => prop_assert!(false, "{record}: {taken:?}, but exactly {expected:?}"),
            }
        }
        prop_assert_eq!(either_tally, exact_tally);
        prop_assert_eq!(either.finish().unwrap(), exact.finish().unwrap());
    }

    #[test]
    fn any_split_into_batches_gives_the_same_rows((specs, records, options) in stream_of_records(), splits in proptest::collection::vec(any::<bool>(), 12)) {
        let layout = stream(layout_of(&specs));
        let schema = layout.table_schema.arrow_schema().unwrap();
        let mut whole = BatchBuilder::new(layout.clone(), options.clone());
        let mut split = BatchBuilder::new(layout, options);
        let mut batches = Vec::new();
        let mut tally = Tally::default();
        for (record, is_split) in records.iter().zip(splits) {
            let _ = push_either(&mut whole, record, InputLine(1), &mut tally);
            let _ = push_either(&mut split, record, InputLine(1), &mut tally);
            if is_split {
                batches.push(split.finish().unwrap());
            }
        }
        batches.push(split.finish().unwrap());
        prop_assert_eq!(concat_batches(&schema, &batches).unwrap(), whole.finish().unwrap());
    }

    #[test]
    fn a_refused_or_undone_record_leaves_the_columns_as_they_were((specs, records, options) in stream_of_records()) {
        let mut builder = BatchBuilder::new(stream(layout_of(&specs)), options);
        let mut tally = Tally::default();
        for record in &records {
            let before = (builder.content().clone(), tally.clone());
            let _ = builder.push_fast(record.as_bytes());
            builder.undo_row();
            prop_assert_eq!(builder.content(), &before.0);
            if builder.push(record.as_bytes(), InputLine(1), &META, &mut tally).is_err() {
                prop_assert_eq!((builder.content(), &tally), (&before.0, &before.1));
            }
        }
    }
}

/// Were the fast path to refuse what is ordinary, the laws above would hold and mean nothing.
#[test]
fn the_fast_path_takes_most_ordinary_records() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut taken, mut all) = (0, 0);
    for _ in 0..300 {
        let (specs, records, options) = stream_of_records().new_tree(&mut runner).unwrap().current();
        let layout = stream(layout_of(&specs));
        for record in records {
            let mut builder = BatchBuilder::new(layout.clone(), options.clone());
            let Ok(is_fast) = push_either(&mut builder, &record, InputLine(1), &mut Tally::default()) else { continue };
            taken += usize::from(is_fast);
            all += 1;
        }
    }
    assert!(all > 500 && taken * 3 > all, "{taken} of {all}");
}
