//! Which tables may be written, and the protocol of a new one.
//!
//! The kernel never checks the writer side of the protocol. Were a check lost here, a table that asks for more than we do (a check
//! constraint, a change feed, row ids) would be damaged silently; so it runs when a table is opened and for every commit of somebody
//! else that changes the protocol or the metaData, before any file of the log is written.

use crate::schema::{DataType, Field, TableSchema};
use crate::{Error, Result};

use super::action::{Metadata, Protocol};

/// Features that we follow in full, by name.
const WRITTEN: [&str; 7] =
    [APPEND_ONLY, TIMESTAMP_NTZ, DELETION_VECTORS, "vacuumProtocolCheck", DOMAIN_METADATA, ROW_TRACKING, IN_COMMIT_TIMESTAMP];
/// Features that ask nothing of a writer unless a column or a property uses them; [`used_features`] finds the use.
const WRITTEN_WHILE_UNUSED: [&str; 6] =
    [INVARIANTS, "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "identityColumns"];

pub(super) const APPEND_ONLY: &str = "appendOnly";
pub(super) const INVARIANTS: &str = "invariants";
pub(super) const TIMESTAMP_NTZ: &str = "timestampNtz";
pub(super) const DELETION_VECTORS: &str = "deletionVectors";
pub(super) const DOMAIN_METADATA: &str = "domainMetadata";
pub(super) const ROW_TRACKING: &str = "rowTracking";
pub(super) const IN_COMMIT_TIMESTAMP: &str = "inCommitTimestamp";
pub(super) const TYPE_WIDENING: &str = "typeWidening";

/// Features that a reader has to know as well; all others are the writer's alone.
const READER_FEATURES: [&str; 3] = [TIMESTAMP_NTZ, DELETION_VECTORS, "vacuumProtocolCheck"];

/// Returns the feature `name`, if it may stand in the protocol of a table that we create.
pub(super) fn written(name: &str) -> Option<&'static str> {
    WRITTEN.iter().chain(&[INVARIANTS]).copied().find(|feature| *feature == name)
}

/// Checks that we follow all that the table asks of a writer.
///
/// # Errors
/// `Table`, naming every feature, column type or version that stands in the way.
pub(super) fn check_writable(protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    if protocol.min_reader_version > 3 || protocol.min_writer_version > 7 {
        return Err(Error::table(format!(
            "the table needs reader version {} and writer version {} of the Delta protocol; versions up to 3 and 7 are supported",
            protocol.min_reader_version, protocol.min_writer_version
        )));
    }
    let listed = protocol.reader_features.iter().chain(&protocol.writer_features).flatten().map(String::as_str);
    let mut refused: Vec<String> = Vec::new();
    for feature in listed.filter(|name| !WRITTEN.contains(name) && !WRITTEN_WHILE_UNUSED.contains(name)) {
        push_new(&mut refused, format!("`{feature}`"));
    }
    for feature in used_features(metadata) {
        push_new(&mut refused, feature);
    }
    if !refused.is_empty() {
        let (word, verb) = if refused.len() == 1 { ("feature", "is") } else { ("features", "are") };
        return Err(Error::table(format!("the table has the {word} {}, which {verb} not written yet", refused.join(", "))));
    }
    if protocol.lists(ROW_TRACKING) && !protocol.lists(DOMAIN_METADATA) {
        return Err(Error::table(format!(
            "the table has the feature `{ROW_TRACKING}` without `{DOMAIN_METADATA}`, which it needs: its row ids have no place"
        )));
    }
    let mut columns = Vec::new();
    unknown_types(&metadata.schema.fields, "", &mut columns);
    if let Some((column, data_type)) = columns.first() {
        return Err(Error::table(format!("column `{column}` of the table has the type {data_type}, which is not written yet")));
    }
    check_types(protocol, &metadata.schema)
}

/// Checks that the protocol allows the column types of `schema`: a protocol is never raised silently.
fn check_types(protocol: &Protocol, schema: &TableSchema) -> Result<()> {
    if protocol.lists(TIMESTAMP_NTZ) {
        return Ok(());
    }
    match find_timestamp_ntz(&schema.fields, "") {
        None => Ok(()),
        Some(column) => Err(Error::table(format!(
            "column `{column}` is a timestamp_ntz, but the table does not have the feature `{TIMESTAMP_NTZ}`"
        ))
        .hint("set `naive_timestamps = \"utc\"`, or add the feature to the table")),
    }
}

/// Returns what the table's columns and properties use of the features that a legacy protocol only implies.
fn used_features(metadata: &Metadata) -> Vec<String> {
    let mut used = Vec::new();
    for (key, value) in &metadata.properties {
        let is_true = value.eq_ignore_ascii_case("true");
        match key.as_str() {
            "delta.columnMapping.mode" if !value.eq_ignore_ascii_case("none") => {
                push_new(&mut used, format!("`columnMapping` (mode {value})"));
            }
            "delta.enableChangeDataFeed" if is_true => push_new(&mut used, "`changeDataFeed`".to_owned()),
            _ => {
                if let Some(name) = key.strip_prefix("delta.constraints.") {
                    push_new(&mut used, format!("`checkConstraints` ({name})"));
                }
            }
        }
    }
    visit(&metadata.schema.fields, "", &mut |path, field| {
        for key in field.metadata.keys() {
            match key.as_str() {
                "delta.invariants" => push_new(&mut used, format!("`{INVARIANTS}` with an expression (column {path})")),
                "delta.generationExpression" => push_new(&mut used, format!("`generatedColumns` (column {path})")),
                _ if key.starts_with("delta.identity.") => push_new(&mut used, format!("`identityColumns` (column {path})")),
                _ => {}
            }
        }
    });
    used
}

fn push_new(names: &mut Vec<String>, name: String) {
    // A listed feature that is also used is named once, with its use.
    let short = name.split(' ').next().unwrap_or_default().to_owned();
    match names.iter_mut().find(|other| other.split(' ').next() == Some(&short)) {
        Some(other) if other.len() < name.len() && !other.contains(' ') => *other = name,
        Some(_) => {}
        None => names.push(name),
    }
}

/// Calls `each` for every field at any depth, with its path.
fn visit(fields: &[Field], above: &str, each: &mut impl FnMut(&str, &Field)) {
    fn inside(data_type: &DataType, path: &str, each: &mut impl FnMut(&str, &Field)) {
        match data_type {
            DataType::Struct(fields) => visit(fields, path, each),
            DataType::Array { element, .. } => inside(element, &format!("{path}.element"), each),
            DataType::Map { key, value, .. } => {
                inside(key, &format!("{path}.key"), each);
                inside(value, &format!("{path}.value"), each);
            }
            _ => {}
        }
    }
    for field in fields {
        let path = if above.is_empty() { field.name.clone() } else { format!("{above}.{}", field.name) };
        each(&path, field);
        inside(&field.data_type, &path, each);
    }
}

/// Returns the first type inside `data_type`, itself included but not through struct fields, that `is` accepts.
fn find_type<'a>(data_type: &'a DataType, is: &impl Fn(&DataType) -> bool) -> Option<&'a DataType> {
    match data_type {
        found if is(found) => Some(found),
        DataType::Array { element, .. } => find_type(element, is),
        DataType::Map { key, value, .. } => find_type(key, is).or_else(|| find_type(value, is)),
        _ => None,
    }
}

fn unknown_types(fields: &[Field], above: &str, found: &mut Vec<(String, String)>) {
    visit(fields, above, &mut |path, field| {
        if let Some(DataType::Other(name)) = find_type(&field.data_type, &|data_type| matches!(data_type, DataType::Other(_))) {
            found.push((path.to_owned(), name.as_str().map_or_else(|| name.to_string(), str::to_owned)));
        }
    });
}

fn find_timestamp_ntz(fields: &[Field], above: &str) -> Option<String> {
    let mut found = None;
    visit(fields, above, &mut |path, field| {
        if find_type(&field.data_type, &|data_type| matches!(data_type, DataType::TimestampNtz)).is_some() {
            found.get_or_insert_with(|| path.to_owned());
        }
    });
    found
}

/// Returns the lowest protocol that fits a new table of `schema` with the features `asked` by its properties.
pub(super) fn protocol_of_new_table(schema: &TableSchema, asked: &[&'static str]) -> Protocol {
    let mut features = asked.to_vec();
    if find_timestamp_ntz(&schema.fields, "").is_some() {
        features.push(TIMESTAMP_NTZ);
    }
    if features.contains(&ROW_TRACKING) {
        features.push(DOMAIN_METADATA);
    }
    features.sort_unstable();
    features.dedup();
    // Writer version 2 implies these two: they alone lift nothing, and are listed as soon as something else lifts.
    features.retain(|name| *name != APPEND_ONLY && *name != INVARIANTS);
    if features.is_empty() {
        return Protocol { min_reader_version: 1, min_writer_version: 2, reader_features: None, writer_features: None };
    }
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let reader: Vec<&str> = features.iter().copied().filter(|name| READER_FEATURES.contains(name)).collect();
    features.extend([APPEND_ONLY, INVARIANTS]);
    Protocol {
        min_reader_version: if reader.is_empty() { 1 } else { 3 },
        min_writer_version: 7,
        reader_features: (!reader.is_empty()).then(|| owned(&reader)),
        writer_features: Some(owned(&features)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn protocol(reader: u32, writer: u32, reader_features: &[&str], writer_features: &[&str]) -> Protocol {
        let list = |is: bool, names: &[&str]| is.then(|| names.iter().map(|name| (*name).to_owned()).collect());
        Protocol {
            min_reader_version: reader,
            min_writer_version: writer,
            reader_features: list(reader == 3, reader_features),
            writer_features: list(writer == 7, writer_features),
        }
    }

    fn metadata(fields: Value, properties: Value) -> Metadata {
        let schema = json!({"type": "struct", "fields": fields}).to_string();
        let raw = json!({"id": "i", "schemaString": schema, "partitionColumns": [], "configuration": properties});
        Metadata::parse(raw.as_object().cloned().unwrap_or_default()).expect("parses")
    }

    fn field(name: &str, data_type: Value, metadata: Value) -> Value {
        json!({"name": name, "type": data_type, "nullable": true, "metadata": metadata})
    }

    fn refusal(protocol: &Protocol, metadata: &Metadata) -> String {
        check_writable(protocol, metadata).expect_err("is refused").message().to_owned()
    }

    #[test]
    fn the_allowed_features_are_written() {
        let plain = metadata(json!([field("a", json!("long"), json!({}))]), json!({"delta.appendOnly": "true"}));
        for legacy in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)] {
            check_writable(&protocol(legacy.0, legacy.1, &[], &[]), &plain).expect("is written");
        }
        let both = ["timestampNtz", "deletionVectors", "vacuumProtocolCheck"];
        let writer: Vec<&str> = both.iter().copied().chain(["appendOnly", "invariants"]).collect();
        check_writable(&protocol(3, 7, &both, &writer), &plain).expect("is written");
        let alone = ["domainMetadata", "rowTracking", "inCommitTimestamp"];
        check_writable(&protocol(1, 7, &[], &alone), &plain).expect("is written");
        let message = refusal(&protocol(1, 7, &[], &["rowTracking"]), &plain);
        assert!(message.contains("`rowTracking`") && message.contains("`domainMetadata`"), "{message}");
        // A protocol that was raised from a legacy one lists all that the legacy version implied.
        let raised = ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"];
        check_writable(&protocol(1, 7, &[], &raised), &plain).expect("is written");
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        let plain = metadata(json!([field("a", json!("long"), json!({}))]), json!({}));
        for feature in [
            "typeWidening",
            "clustering",
            "v2Checkpoint",
            "checkpointProtection",
            "allowColumnDefaults",
            "variantType",
            "icebergCompatV2",
            "catalogManaged",
            "collations-preview",
            "telepathy",
        ] {
            let message = refusal(&protocol(1, 7, &[], &[feature]), &plain);
            assert!(message.contains(&format!("`{feature}`")), "{message}");
            let message = refusal(&protocol(3, 7, &[feature], &[feature]), &plain);
            assert!(message.contains(&format!("feature `{feature}`,")), "{message}");
        }
        assert!(refusal(&protocol(4, 7, &[], &[]), &plain).contains("reader version 4"));
        assert!(refusal(&protocol(1, 9, &[], &[]), &plain).contains("writer version 9"));
    }

    #[test]
    fn implied_features_are_refused_where_they_are_used() {
        let legacy = protocol(2, 6, &[], &[]);
        for (properties, name) in [
            (json!({"delta.enableChangeDataFeed": "true"}), "changeDataFeed"),
            (json!({"delta.constraints.positive": "a > 0"}), "checkConstraints"),
            (json!({"delta.columnMapping.mode": "name"}), "columnMapping"),
        ] {
            let message = refusal(&legacy, &metadata(json!([field("a", json!("long"), json!({}))]), properties));
            assert!(message.contains(name), "{message}");
        }
        let unused = json!({"delta.enableChangeDataFeed": "false", "delta.columnMapping.mode": "none"});
        check_writable(&legacy, &metadata(json!([field("a", json!("long"), json!({}))]), unused)).expect("is written");
        for (key, name) in [
            ("delta.invariants", "invariants"),
            ("delta.generationExpression", "generatedColumns"),
            ("delta.identity.start", "identityColumns"),
        ] {
            let inner = field("b", json!("long"), json!({key: "x"}));
            let nested = json!({"type": "array", "elementType": {"type": "struct", "fields": [inner]}, "containsNull": true});
            let message = refusal(&legacy, &metadata(json!([field("a", nested, json!({}))]), json!({})));
            assert!(message.contains(name) && message.contains("a.element.b"), "{message}");
        }
        let used = metadata(json!([]), json!({"delta.columnMapping.mode": "id"}));
        let message = refusal(&protocol(2, 7, &[], &["columnMapping"]), &used);
        assert_eq!(message.matches("columnMapping").count(), 1, "{message}");
    }

    #[test]
    fn types_that_are_not_written_are_refused_with_their_column() {
        let message = refusal(&protocol(1, 2, &[], &[]), &metadata(json!([field("v", json!("variant"), json!({}))]), json!({})));
        assert!(message.contains("`v`") && message.contains("variant"), "{message}");
        let ntz = metadata(json!([field("t", json!("timestamp_ntz"), json!({}))]), json!({}));
        assert!(refusal(&protocol(1, 2, &[], &[]), &ntz).contains("timestampNtz"));
        check_writable(&protocol(3, 7, &["timestampNtz"], &["timestampNtz"]), &ntz).expect("is written");
    }

    #[test]
    fn a_new_table_gets_the_lowest_protocol_that_fits() {
        let plain = metadata(json!([field("a", json!("timestamp"), json!({}))]), json!({}));
        assert_eq!(protocol_of_new_table(&plain.schema, &[]), protocol(1, 2, &[], &[]));
        assert_eq!(protocol_of_new_table(&plain.schema, &[APPEND_ONLY]), protocol(1, 2, &[], &[]));
        let list = json!({"type": "array", "elementType": "timestamp_ntz", "containsNull": true});
        let ntz = metadata(json!([field("a", list, json!({}))]), json!({}));
        let expected = protocol(3, 7, &["timestampNtz"], &["timestampNtz", "appendOnly", "invariants"]);
        assert_eq!(protocol_of_new_table(&ntz.schema, &[]), expected);
        assert_eq!(protocol_of_new_table(&ntz.schema, &[TIMESTAMP_NTZ]), expected);
        let vectors = protocol_of_new_table(&plain.schema, &[DELETION_VECTORS]);
        assert_eq!(vectors, protocol(3, 7, &["deletionVectors"], &["deletionVectors", "appendOnly", "invariants"]));
        check_writable(&vectors, &plain).expect("we write what we create");
        // What a reader need not know does not raise what it has to.
        let tracking = protocol_of_new_table(&plain.schema, &[ROW_TRACKING, IN_COMMIT_TIMESTAMP]);
        let listed = ["domainMetadata", "inCommitTimestamp", "rowTracking", "appendOnly", "invariants"];
        assert_eq!(tracking, protocol(1, 7, &[], &listed));
        check_writable(&tracking, &plain).expect("we write what we create");
    }
}
