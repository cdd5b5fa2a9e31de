use proptest::prelude::*;
use serde_json::json;

use super::super::{BinaryColumns, NaiveTimestamps, Nested};
use super::*;
use crate::ErrorKind;

/// The column type of a property, as text: `long`, `list<long>`, `timestamp|string` where text has its place.
fn type_with(schema: Value, options: &Options) -> Result<String> {
    let resolved = resolve(&json!({"type": "object", "properties": {"x": schema}}), options)?;
    let property = &resolved.properties[0];
    Ok(shown(&property.declared) + if property.has_text_overflow { "|string" } else { "" })
}

fn type_of(schema: Value) -> String {
    type_with(schema, &Options::default()).unwrap()
}

fn shown(declared: &Declared) -> String {
    match declared {
        Declared::Struct(properties) => {
            let fields = properties.iter().map(|property| {
                format!(
                    "{}: {}{}",
                    property.key,
                    shown(&property.declared),
                    if property.has_text_overflow { "|string" } else { "" }
                )
            });
            format!("struct<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        Declared::List(inner) => format!("list<{}>", shown(inner)),
        Declared::Map(inner) => format!("map<{}>", shown(inner)),
        other => other.label(),
    }
}

fn refusal(schema: Value) -> String {
    let error = type_with(schema, &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    error.to_string()
}

#[test]
fn integers_are_long_unless_a_bound_is_beyond_64_bits() {
    assert_eq!(type_of(json!({"type": "integer"})), "long");
    assert_eq!(type_of(json!({"type": ["null", "integer"], "minimum": i64::MIN, "maximum": i64::MAX})), "long");
    assert_eq!(type_of(json!({"type": "integer", "maximum": u64::MAX})), "decimal_38_0");
    assert_eq!(type_of(json!({"type": "integer", "minimum": -1e20})), "decimal_38_0");
    assert_eq!(type_of(json!({"type": "integer", "exclusiveMaximum": 9_223_372_036_854_775_808u64})), "long");
    assert_eq!(type_of(json!({"type": "integer", "maximum": 9.223_372_036_854_776e18})), "long");
}

#[test]
fn numbers_are_double_or_the_decimal_of_their_multiple() {
    assert_eq!(type_of(json!({"type": "number"})), "double");
    assert_eq!(type_of(json!({"type": ["number", "null"], "multipleOf": 0.01})), "decimal_38_2");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 1e-18})), "decimal_38_18");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 1e-38})), "decimal_38_18");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 1})), "decimal_38_0");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 100})), "decimal_38_0");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 0.25})), "double");
    assert_eq!(type_of(json!({"type": "number", "multipleOf": 0})), "double");
}

#[test]
fn singer_decimals_have_their_precision_and_scale() {
    for format in ["singer.decimal", "x-singer.decimal"] {
        for kind in ["string", "number", "integer"] {
            let schema = json!({"type": ["null", kind], "format": format, "precision": 12, "scale": 3});
            assert_eq!(type_of(schema), "decimal_12_3");
        }
        assert_eq!(type_of(json!({"type": ["null", format], "precision": 9, "scale": 2})), "decimal_9_2");
    }
    let nested = json!({"type": "string", "format": "singer.decimal", "additionalProperties": {"scale_precision": {"precision": 7, "scale": 1}}});
    assert_eq!(type_of(nested), "decimal_7_1");
    assert_eq!(type_of(json!({"type": "string", "format": "singer.decimal"})), "decimal_38_18");
    let wide = json!({"properties": {"x": {"type": "string", "format": "singer.decimal", "precision": 65, "scale": 30}}});
    let resolved = resolve(&wide, &Options::default()).unwrap();
    assert_eq!(shown(&resolved.properties[0].declared), "decimal_38_6");
    assert_eq!(resolved.notices, ["field `x` is declared as decimal(65,30); its column is decimal(38,6)"]);
}

#[test]
fn booleans_and_strings_and_their_formats() {
    assert_eq!(type_of(json!({"type": "boolean"})), "boolean");
    assert_eq!(type_of(json!({"type": "string"})), "string");
    assert_eq!(type_of(json!({"type": "string", "format": "date-time"})), "timestamp");
    assert_eq!(type_of(json!({"type": "string", "format": "date"})), "date");
    for format in ["time", "uuid", "duration", "email", "anything"] {
        assert_eq!(type_of(json!({"type": "string", "format": format})), "string");
    }
    let ntz = Options { naive_timestamps: NaiveTimestamps::Ntz, ..Options::default() };
    assert_eq!(type_with(json!({"type": "string", "format": "date-time"}), &ntz).unwrap(), "timestamp_ntz");
}

#[test]
fn encoded_text_is_decoded_only_on_demand() {
    let schema = json!({"type": "string", "contentEncoding": "base64"});
    assert_eq!(type_of(schema.clone()), "string");
    let decode = Options { binary_columns: BinaryColumns::Decode, ..Options::default() };
    assert_eq!(type_with(schema, &decode).unwrap(), "binary");
    assert_eq!(type_with(json!({"type": "string", "contentEncoding": "quoted-printable"}), &decode).unwrap(), "string");
    let hex = resolve(&json!({"properties": {"x": {"type": "string", "contentEncoding": "base16"}}}), &decode).unwrap();
    assert_eq!(hex.properties[0].declared, Declared::Binary(BinaryEncoding::Hex));
}

#[test]
fn objects_are_structs_maps_or_json_text() {
    assert_eq!(type_of(json!({"type": "object"})), "json");
    assert_eq!(type_of(json!({"type": "object", "properties": {}})), "json");
    assert_eq!(type_of(json!({"type": ["null", "object"], "additionalProperties": true})), "json");
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}}}});
    assert_eq!(type_of(object.clone()), "struct<a: long, b: struct<c: string>>");
    assert_eq!(type_of(json!({"properties": {"a": {"type": "integer"}}})), "struct<a: long>");
    assert_eq!(type_of(json!({"type": "object", "additionalProperties": {"type": ["null", "number"]}})), "map<double>");
    assert_eq!(type_of(json!({"type": "object", "additionalProperties": {}})), "json");
    assert_eq!(type_of(json!({"type": "object", "additionalProperties": {"type": "object"}})), "json");
    let text = Options { nested: Nested::Json, ..Options::default() };
    assert_eq!(type_with(object, &text).unwrap(), "json");
    assert_eq!(
        type_with(json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}), &text).unwrap(),
        "json"
    );
    assert_eq!(type_with(json!({"type": "array", "items": {"type": "integer"}}), &text).unwrap(), "list<long>");
}

#[test]
fn arrays_are_lists_of_one_type_or_json_text() {
    assert_eq!(type_of(json!({"type": "array", "items": {"type": ["null", "integer"]}})), "list<long>");
    assert_eq!(type_of(json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})), "list<list<string>>");
    let objects = json!({"type": ["null", "array"], "items": {"type": "object", "properties": {"a": {"format": "date", "type": "string"}}}});
    assert_eq!(type_of(objects), "list<struct<a: date>>");
    for schema in [
        json!({"type": "array"}),
        json!({"type": "array", "items": {}}),
        json!({"type": "array", "items": true}),
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"type": "array"}}),
        json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}),
        json!({"type": "array", "items": {"type": ["object", "string"]}}),
    ] {
        assert_eq!(type_of(schema), "json");
    }
    // No second column for an element: text takes both.
    let dates = json!({"type": "array", "items": {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}});
    assert_eq!(type_of(dates), "list<string>");
}

#[test]
fn null_beside_one_type_is_looked_through() {
    for keyword in ["anyOf", "oneOf"] {
        assert_eq!(type_of(json!({keyword: [{"type": "null"}, {"type": "string", "format": "date-time"}]})), "timestamp");
        assert_eq!(
            type_of(json!({keyword: [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]})),
            "struct<a: long>"
        );
        assert_eq!(type_of(json!({keyword: [{"type": ["array", "null"], "items": {"type": "integer"}}]})), "list<long>");
        let outer = json!({"type": ["null", "string"], keyword: [{"format": "date"}, {"type": "null"}]});
        assert_eq!(type_of(outer), "date");
    }
    assert_eq!(type_of(json!({"type": "null"})), "string");
    assert_eq!(type_of(json!({"anyOf": [{"type": "null"}, {"type": ["null"]}]})), "string");
}

#[test]
fn dates_beside_strings_keep_a_place_for_other_text() {
    let salesforce = json!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": ["string", "null"]}]});
    assert_eq!(type_of(salesforce), "timestamp|string");
    assert_eq!(type_of(json!({"oneOf": [{"type": "string"}, {"type": "string", "format": "date"}]})), "date|string");
    let both = json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]});
    assert_eq!(type_of(both), "timestamp");
    let nested = json!({"type": "object", "properties": {"at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}}});
    assert_eq!(type_of(nested), "struct<at: timestamp|string>");
}

#[test]
fn several_scalar_types_become_the_one_that_holds_them() {
    assert_eq!(type_of(json!({"type": ["null", "integer", "string"]})), "string");
    assert_eq!(type_of(json!({"type": ["number", "string", "boolean"]})), "string");
    assert_eq!(type_of(json!({"type": ["boolean", "integer"]})), "string");
    assert_eq!(type_of(json!({"type": ["integer", "string"], "format": "date-time"})), "string");
    assert_eq!(type_of(json!({"type": ["integer", "number"]})), "double");
    assert_eq!(type_of(json!({"type": ["integer", "number"], "multipleOf": 0.01})), "decimal_38_2");
    assert_eq!(
        type_of(
            json!({"anyOf": [{"type": "integer"}, {"type": "number", "format": "singer.decimal", "precision": 10, "scale": 2}]})
        ),
        "decimal_21_2"
    );
    assert_eq!(type_of(json!({"anyOf": [{"type": "integer"}, {"type": "integer", "maximum": 1e30}]})), "decimal_38_0");
    assert_eq!(type_of(json!({"anyOf": [{"type": "number"}, {"type": "number", "multipleOf": 0.1}]})), "double");
}

#[test]
fn what_has_no_one_type_is_json_text() {
    for schema in [
        json!({"type": ["object", "string"], "properties": {"a": {"type": "string"}}}),
        json!({"type": ["null", "array", "integer"], "items": {"type": "integer"}}),
        json!({"type": ["object", "array"]}),
        json!({}),
        json!(true),
        json!(false),
        json!({"type": []}),
        json!({"const": 1}),
        json!({"enum": ["a", 1]}),
        json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"anyOf": [{"type": "string"}, {}]}),
        json!({"description": "x"}),
    ] {
        assert_eq!(type_of(schema.clone()), "json", "{schema}");
    }
    assert_eq!(type_of(json!({"type": "string", "enum": ["a"]})), "string");
}

#[test]
fn objects_of_several_forms_have_the_fields_of_all() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a", "type": "string"}, "x": {"type": "integer"}}},
        {"type": "object", "properties": {"kind": {"type": "string"}, "x": {"type": "string"}, "y": {"type": "number"}}},
    ]});
    assert_eq!(type_of(schema), "struct<kind: string, x: string, y: double>");
}

#[test]
fn references_and_all_of_are_resolved_and_merged() {
    let schema = json!({
        "definitions": {
            "id": {"type": ["null", "integer"]},
            "a/b ~": {"type": "string", "format": "date"},
            "anchored": {"$anchor": "here", "type": "boolean"},
            "base": {"type": "object", "properties": {"id": {"$ref": "#/definitions/id"}, "n": {"type": "number"}}},
        },
        "allOf": [{"properties": {"more": {"type": "string"}}}],
        "properties": {
            "id": {"$ref": "#/definitions/id"},
            "day": {"$ref": "#/definitions/a~1b%20~0"},
            "flag": {"$ref": "#here"},
            "deep": {"allOf": [{"$ref": "#/definitions/base"}, {"properties": {"n": {"multipleOf": 0.1}, "z": {"type": "string"}}}]},
            "sibling": {"$ref": "#/definitions/id", "description": "x"},
            "other": {"$ref": "#/properties/deep"},
        },
    });
    let resolved = resolve(&schema, &Options::default()).unwrap();
    assert_eq!(
        shown(&Declared::Struct(resolved.properties)),
        "struct<id: long, day: date, flag: boolean, deep: struct<id: long, n: decimal_38_1, z: string>, sibling: long, \
         other: struct<id: long, n: decimal_38_1, z: string>, more: string>"
    );
}

#[test]
fn recursion_and_depth_end_in_json_text() {
    let schema = json!({
        "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}},
                  "loop": {"$ref": "#/$defs/pool"}, "pool": {"allOf": [{"$ref": "#/$defs/loop"}]}},
        "properties": {"list": {"$ref": "#/$defs/node"}, "self": {"$ref": "#"}, "loop": {"$ref": "#/$defs/loop"},
                       "nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    });
    let resolved = resolve(&schema, &Options::default()).unwrap();
    assert_eq!(
        shown(&Declared::Struct(resolved.properties)),
        "struct<list: struct<v: long, next: json>, self: json, loop: json, nodes: list<struct<v: long, next: json>>>"
    );
    let mut deep = json!({"type": "integer"});
    for _ in 0..17 {
        deep = json!({"type": "object", "properties": {"d": deep}});
    }
    let shown = type_of(deep);
    assert_eq!(shown.matches("struct<").count(), 16);
    assert!(shown.contains("d: json"));
}

#[test]
fn an_exploding_schema_is_refused_in_bounded_time() {
    let mut defs = serde_json::Map::new();
    for level in 0..16 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        let fields: serde_json::Map<_, _> = (0..10).map(|at| (format!("f{at}"), next.clone())).collect();
        defs.insert(format!("l{level}"), json!({"type": "object", "properties": fields}));
    }
    defs.insert("l16".to_owned(), json!({"type": "string"}));
    let error = resolve(&json!({"$defs": defs, "properties": {"x": {"$ref": "#/$defs/l0"}}}), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("unfolds into more than"), "{error}");
    let any = |inner: Value| json!({"anyOf": [inner.clone(), {"allOf": [inner, {"minimum": 1}]}]});
    let mut wide = json!({"type": "integer"});
    for _ in 0..12 {
        wide = any(wide);
    }
    let _ = type_with(wide, &Options::default());
}

#[test]
fn what_is_no_json_schema_is_refused_by_name() {
    assert_eq!(refusal(json!({"type": "int"})), "field `x` has the type `\"int\"`, which JSON Schema does not know");
    assert_eq!(refusal(json!("string")), "field `x` has the schema `\"string\"`, which is not a JSON Schema");
    assert_eq!(refusal(json!({"$ref": "#/nowhere"})), "field `x` refers to `\"#/nowhere\"`, which is not in the schema");
    assert_eq!(
        refusal(json!({"$ref": "https://example.org/x"})),
        "field `x` refers to `\"https://example.org/x\"`, which is not in the schema"
    );
    assert_eq!(refusal(json!({"anyOf": {}})), "field `x` has `anyOf` `{}`, which is not an array");
    assert_eq!(
        refusal(json!({"type": "array", "items": {"type": "object", "properties": {"y": {"type": "text"}}}})),
        "field `x[].y` has the type `\"text\"`, which JSON Schema does not know"
    );
    for schema in [json!({}), json!({"type": "object"}), json!(true), json!(7), json!({"properties": null})] {
        assert_eq!(resolve(&schema, &Options::default()).unwrap_err().kind(), ErrorKind::Input, "{schema}");
    }
    assert!(resolve(&json!({"properties": {}}), &Options::default()).unwrap().properties.is_empty());
}

#[test]
fn columns_of_the_settings_win() {
    let columns = [("x", "decimal(10,2)"), ("s.at", "timestamp"), ("odd", "json"), ("raw", "binary"), ("l[].n", "int")];
    let columns = columns.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let options = Options { columns, ..Options::default() };
    let schema = json!({"properties": {
        "x": {"type": "number"},
        "s": {"type": "object", "properties": {"at": {"type": "string"}}},
        "odd": {"type": "no such type"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }});
    let resolved = resolve(&schema, &options).unwrap();
    assert_eq!(resolved.properties[3].declared, Declared::Binary(BinaryEncoding::Base64));
    assert_eq!(
        shown(&Declared::Struct(resolved.properties)),
        "struct<x: decimal_10_2, s: struct<at: timestamp>, odd: json, raw: binary, l: list<struct<n: integer>>>"
    );
    let wrong = Options { columns: [("x".to_owned(), "money".to_owned())].into(), ..Options::default() };
    let error = type_with(json!({"type": "number"}), &wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.message(), "`columns` gives `x` the type \"money\", which has `money`, which is not a type");
}

/// Any JSON Schema, and much that is none.
pub(in super::super) fn any_schema() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("number")),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!("null")),
        Just(json!("boolean")),
        Just(json!("singer.decimal")),
        Just(json!("x")),
        Just(json!(1)),
        Just(json!(null)),
    ];
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!(null)),
        Just(json!({})),
        Just(json!(3)),
        word.clone().prop_map(|word| json!({"type": word})),
        prop::collection::vec(word.clone(), 0..4).prop_map(|words| json!({"type": words})),
        ("date|date-time|singer.decimal|uuid", word).prop_map(|(format, word)| json!({"type": word, "format": format})),
        (any::<u8>(), any::<u8>())
            .prop_map(|(p, s)| json!({"type": ["string", "null"], "format": "singer.decimal", "precision": p, "scale": s})),
        any::<f64>().prop_map(|m| json!({"type": "number", "multipleOf": m})),
        "#|#/|#/properties/a|#/\\$defs/d|x|#a|#/properties/a/items".prop_map(|target| json!({"$ref": target})),
        Just(json!({"enum": [1]})),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let keyword = prop_oneof![Just("anyOf"), Just("oneOf"), Just("allOf"), Just("items"), Just("$ref"), Just("type")];
        let part = prop_oneof![
            (keyword, prop::collection::vec(inner.clone(), 0..5)).prop_map(|(keyword, members)| json!({keyword: members})),
            ("items|additionalProperties|properties|not|const", inner.clone())
                .prop_map(|(keyword, schema)| json!({keyword: schema})),
            prop::collection::vec(("[a-c ]{0,2}", inner), 0..4)
                .prop_map(|fields| { json!({"type": ["object", "null"], "properties": serde_json::Map::from_iter(fields)}) }),
        ];
        prop::collection::vec(part, 1..4).prop_map(|parts| {
            let parts = parts.into_iter().filter_map(|part| part.as_object().cloned());
            Value::Object(parts.flatten().collect())
        })
    })
}

proptest! {
    #[test]
    fn every_json_schema_gets_a_type_or_a_named_refusal(schema in any_schema(), defs in any_schema()) {
        let document = json!({"properties": {"x": schema}, "$defs": {"d": defs}});
        match resolve(&document, &Options::default()) {
            Ok(resolved) => prop_assert_eq!(resolved.properties.len(), 1),
            Err(error) => prop_assert!(error.to_string().starts_with("field `x"), "{}", error),
        }
        let _ = resolve(&document["properties"]["x"], &Options::default());
    }
}
