//! What a layout lacks for a record, and what is bad all the same.

use super::*;

#[test]
fn binary_in_a_partition_column_has_to_be_text() {
    let mut layout = layout_of(&[spec("x", Rule::Binary(BinaryEncoding::Base64))]);
    assert_eq!(row_with(&stream(layout.clone()), &Options::default(), br#"{"x":"AP8="}"#).unwrap().0, "00ff");
    layout.sources[0].is_partition = true;
    let layout = stream(layout);
    for (json, expected) in [(r#""w6k=""#, "c3a9"), (r#""""#, "")] {
        assert_eq!(row_with(&layout, &Options::default(), format!("{{\"x\":{json}}}").as_bytes()).unwrap().0, expected);
    }
    let mut builder = BatchBuilder::new(layout.clone(), Options::default());
    assert_eq!(builder.push_fast(br#"{"x":"AP8="}"#), None, "the exact path decides");
    for on_bad_value in [OnBadValue::Fail, OnBadValue::SetNull, OnBadValue::Reject] {
        let options = Options { on_bad_value, ..Options::default() };
        let fault = row_with(&layout, &options, br#"{"x":"AP8="}"#).unwrap_err();
        let Fault::BadValue(error) = fault else { panic!("{fault:?}") };
        assert_eq!(error.field(), Some("x"));
        assert!(error.message().contains("UTF-8 text once it is decoded"), "{}", error.message());
    }
    // The column keeps its rule when others join it.
    let mut wider = layout_of(&[spec("x", Rule::Binary(BinaryEncoding::Base64)), spec("y", Rule::Long)]);
    wider.sources[0].is_partition = true;
    builder.extend(stream(wider)).unwrap();
    assert_eq!(builder.push_fast(br#"{"x":"AP8=","y":1}"#), None);
}

#[track_caller]
pub(super) fn lacks(fault: Fault) -> Vec<Missing> {
    match fault {
        Fault::Missing(missing) => missing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_a_record_lacks_is_told_at_once() {
    let inner = structure(&[spec("a", Rule::Long)]);
    let specs = [
        spec("id", Rule::Long),
        spec("list", Rule::List(Box::new(inner.clone()))),
        spec("map", Rule::Map(Box::new(inner))),
        Spec { overflow: Some((text(), false)), ..spec("t", Rule::Timestamp) },
    ];
    let key = |path: &[&str], kind| Missing::Key { path: path.iter().map(|key| key.to_string()).collect(), kind };
    let record =
        r#"{"x":1,"list":[{"n":true},{"n":"2","m":1},{"a":1}],"y":"s","t":"soon","map":{"k":{"n":1.5},"l":{"n":1}},"z":null}"#;
    assert_eq!(
        lacks(row(&specs, record).unwrap_err()),
        [
            key(&["x"], ValueKind::Integer),
            key(&["y"], ValueKind::String),
            key(&["list", "[]", "n"], ValueKind::Boolean),
            key(&["list", "[]", "m"], ValueKind::Integer),
            key(&["map", "[]", "n"], ValueKind::Number),
            Missing::Overflow { path: vec!["t".to_owned()] },
        ]
    );
}

#[test]
fn a_bad_value_counts_more_than_what_the_layout_lacks() {
    let specs = [spec("id", Rule::Long), spec("list", Rule::List(Box::new(structure(&[spec("a", Rule::Long)]))))];
    for record in [r#"{"new":1,"id":"no"}"#, r#"{"list":[{"new":1},{"a":"no"}]}"#, r#"{"list":[{"new":1}],"new":2,"id":{}}"#] {
        assert!(matches!(row(&specs, record), Err(Fault::BadValue(_))), "{record}");
    }
    // What stood in a value that found a place of its own, or became null, is not asked for.
    let list = Rule::List(Box::new(structure(&[spec("a", Rule::Long)])));
    let overflow = [Spec { overflow: Some((Rule::JsonText, true)), ..spec("x", list.clone()) }];
    assert_eq!(row(&overflow, r#"{"x":[{"new":1},{"a":"no"}]}"#).unwrap().0, r#"∅|[{"new":1},{"a":"no"}]"#);
    let options = Options { on_bad_value: OnBadValue::SetNull, ..Options::default() };
    let layout = stream(layout_of(&[spec("x", list)]));
    let fault = row_with(&layout, &options, br#"{"x":[7,{"new":1}]}"#).unwrap_err();
    assert_eq!(lacks(fault), [Missing::Key { path: ["x", "[]", "new"].map(str::to_owned).to_vec(), kind: ValueKind::Integer }]);
}
