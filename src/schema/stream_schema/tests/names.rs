//! CONTRACTS 6: columns.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::super::super::ColumnNames;
use super::*;

#[test]
fn equal_names_are_numbered_in_order_of_appearance_and_kept() {
    let text = json!({"type": "string"});
    let stream = fresh(json!({"Id": text, "id": text, "a b": text, "a_b": text, "a,b": text}), &Options::default());
    assert_eq!(columns(&stream), "Id: string, id_2: string, a_b: string, a_b_2: string, a_b_3: string");
    assert_eq!(column_of(&stream, "a_b"), "a_b_2");
    assert_eq!(stream.notices()[0], "field `id` is stored in the column `id_2`");
    let again = restarted(&stream, json!({"new": text, "a,b": text, "id": text, "ID": text, "a_b": text}));
    assert_eq!(["a,b", "id", "ID", "a_b", "new"].map(|key| column_of(&again, key)), ["a_b_3", "id_2", "ID_3", "a_b_2", "new"]);
    assert_eq!(columns(&again), format!("{}, new: string, ID_3: string", columns(&stream)));
}

#[test]
fn the_same_holds_inside_structs_and_lists() {
    let inner =
        json!({"type": "object", "properties": {"X": {"type": "string"}, "x": {"type": "integer"}, "": {"type": "boolean"}}});
    let stream = fresh(json!({"s": inner, "l": {"type": "array", "items": inner}}), &Options::default());
    let shown = "struct<X: string, x_2: long, column_e3b0c442: boolean>";
    assert_eq!(columns(&stream), format!("s: {shown}, l: array<{shown}>"));
    let turned = json!({"type": "object", "properties": {"x": {"type": "integer"}, "X": {"type": "string"}}});
    let again = restarted(&stream, json!({"l": {"type": "array", "items": turned}, "s": turned}));
    assert_eq!(columns(&again), columns(&stream));
    let Rule::Struct(layout) = again.layout().layout.columns[0].rule.clone() else { panic!() };
    assert_eq!(layout.sources[layout.by_key["x"]].column, Some(1));
}

#[test]
fn a_change_of_the_style_leaves_columns_as_they_are() {
    let properties = json!({"OrderId": {"type": "string"}});
    let mut stream = fresh(properties, &Options::default());
    stream.options.column_names = ColumnNames::SnakeCase;
    let again = restarted(&stream, json!({"OrderId": {"type": "string"}, "ShipTo": {"type": "string"}}));
    assert_eq!(columns(&again), "OrderId: string, ship_to: string");
}

#[test]
fn columns_of_other_writers_are_matched_by_name_without_regard_to_case() {
    let other = table(&[("ID", DataType::Long), ("order_date", DataType::Date), ("id_2", DataType::Long)]);
    let properties = json!({"order date": {"type": "string", "format": "date"}, "id": {"type": "integer"}});
    let mut stream = against(&other, properties.clone(), &Options::default()).unwrap();
    assert_eq!(column_of(&stream, "id"), "ID");
    assert_eq!(column_of(&stream, "order date"), "order_date");
    assert_eq!(*stream.layout().table_schema, other, "matching alone does not change the table");
    // `ID` comes later: it has its name exactly, but `id` has the column.
    let later = json!({"ID": {"type": "integer"}, "order date": {"type": "string", "format": "date"}, "id": {"type": "integer"}});
    stream.replace(&json!({"properties": later}), &[]).unwrap();
    assert_eq!(["id", "ID"].map(|key| column_of(&stream, key)), ["ID", "ID_3"]);
    let again = restarted(&stream, later);
    assert_eq!(["id", "ID"].map(|key| column_of(&again, key)), ["ID", "ID_3"]);
    // An exact name goes first where both come at once.
    let both = json!({"id": {"type": "integer"}, "ID": {"type": "integer"}});
    let both = against(&other, both, &Options::default()).unwrap();
    assert_eq!(["ID", "id"].map(|key| column_of(&both, key)), ["ID", "id_3"]);
}

#[test]
fn a_json_column_of_another_writer_stays_json_when_its_name_is_kept() {
    let other = table(&[("pay_load", DataType::String)]);
    let stream = against(&other, json!({"pay load": {}, "new": {"type": "string"}}), &Options::default()).unwrap();
    assert_eq!(way(&stream, "pay load"), "pay_load JsonText");
    let again = restarted(&stream, json!({"pay load": {}}));
    assert_eq!(way(&again, "pay load"), "pay_load JsonText");
}

#[test]
fn a_variant_s_name_gives_way_to_a_declared_one() {
    let mixed = json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]});
    let mut stream = fresh(json!({"a": mixed, "a__string": {"type": "string"}}), &Options::default());
    stream.grow(&[overflow(&["a"])]).unwrap();
    assert_eq!(columns(&stream), "a: date, a__string: string, a__string_2: string");
    assert_eq!(way(&stream, "a"), "a Date, else a__string_2");
    // The column is the variant's for ever, though its name is one that a key would get.
    let mut stream = fresh(json!({"a": mixed}), &Options::default());
    stream.grow(&[overflow(&["a"])]).unwrap();
    let again = restarted(&stream, json!({"a__string": {"type": "string"}, "a": mixed}));
    assert_eq!(column_of(&again, "a__string"), "a__string_2");
    assert_eq!(way(&again, "a"), "a Date, else a__string");
}

/// What happens to a stream: a SCHEMA with these keys, a restart with these keys, an undeclared key, text that is no date.
#[derive(Debug, Clone)]
enum Step {
    Schema(Vec<usize>),
    Restart(Vec<usize>),
    Undeclared(usize),
    Overflow(usize),
}

const KEYS: [&str; 14] =
    ["a", "A", "a_2", "A_2", "a__string", "a b", "a_b", "a;b", "", " ", "_2", "column_e3b0c442", "_sdc_sequence", "É"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = || prop::collection::vec(0..KEYS.len(), 0..8);
    let step = prop_oneof![
        keys().prop_map(Step::Schema),
        keys().prop_map(Step::Restart),
        (0..KEYS.len()).prop_map(Step::Undeclared),
        (0..KEYS.len()).prop_map(Step::Overflow),
    ];
    prop::collection::vec(step, 1..12)
}

/// The properties of a SCHEMA with these keys, at the top or inside a struct.
fn declare(keys: &[usize], is_nested: bool) -> Value {
    let mixed = json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]});
    let mut properties: serde_json::Map<_, _> = keys.iter().map(|at| (KEYS[*at].to_owned(), mixed.clone())).collect();
    if !is_nested {
        return Value::Object(properties);
    }
    properties.insert("z".to_owned(), json!({"type": "string"}));
    json!({"s": {"type": "object", "properties": properties}})
}

proptest! {
    #[test]
    fn names_stay_distinct_and_stable_whatever_comes(
        steps in steps(),
        is_nested in any::<bool>(),
        style in prop_oneof![Just(ColumnNames::Clean), Just(ColumnNames::Lower), Just(ColumnNames::SnakeCase)],
        add_record_metadata in any::<bool>(),
        is_mine in any::<bool>(),
    ) {
        let options = Options { column_names: style, add_record_metadata, ..Options::default() };
        let path = |at: usize| if is_nested { strings(&["s", KEYS[at]]) } else { strings(&[KEYS[at]]) };
        let others = table(&[("A", DataType::Date), ("a_B", DataType::Date), ("_sdc_extracted_at", DataType::Timestamp)]);
        let mut stream = if is_mine || is_nested {
            fresh(declare(&[0], is_nested), &options)
        } else {
            against(&others, declare(&[5, 8], false), &options).unwrap()
        };
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for step in steps {
            let before = stream.layout();
            match step {
                Step::Schema(keys) => {
                    stream.replace(&json!({"properties": declare(&keys, is_nested)}), &[]).unwrap();
                }
                Step::Restart(keys) => stream = restarted(&stream, declare(&keys, is_nested)),
                Step::Undeclared(at) => {
                    stream.grow(&[Missing::Key { path: path(at), kind: ValueKind::String }]).unwrap();
                }
                // Refused for a key that the layout does not have.
                Step::Overflow(at) => drop(stream.grow(&[Missing::Overflow { path: path(at) }])),
            }
            let layout = stream.layout();
            prop_assert!(layout.table_schema.arrow_schema().is_ok());
            for (old, new) in before.table_schema.fields.iter().zip(&layout.table_schema.fields) {
                prop_assert_eq!(&old.name, &new.name, "columns are appended only");
            }
            let (mut level, mut fields) = (&layout.layout, &layout.table_schema.fields);
            if is_nested {
                let Rule::Struct(inner) = &level.columns[0].rule else { panic!() };
                let DataType::Struct(inner_fields) = &fields[0].data_type else { panic!() };
                (level, fields) = (inner, inner_fields);
            }
            let names: HashSet<_> = fields.iter().map(|field| field.name.to_lowercase()).collect();
            prop_assert_eq!(names.len(), fields.len(), "names are distinct without regard to case");
            let mut fed = HashSet::new();
            for source in &level.sources {
                let at = source.column.unwrap();
                prop_assert!(fed.insert(at), "no two keys feed one column");
                if let Some(at) = source.overflow.as_ref().and_then(|overflow| overflow.column) {
                    prop_assert!(fed.insert(at), "no key feeds another's overflow");
                }
                // A key that was undeclared text and is then declared otherwise goes to its variant column.
                let is_variant = fields[at].metadata.contains_key(super::super::super::declared::VARIANT);
                if fields[at].source_name().is_some() && !is_variant {
                    let name = known.entry(source.key.clone()).or_insert_with(|| fields[at].name.clone());
                    prop_assert_eq!(&*name, &fields[at].name, "{} keeps its column", source.key);
                }
            }
        }
    }
}
