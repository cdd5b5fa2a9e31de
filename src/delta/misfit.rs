//! Whether a file that is written already may stand in a table whose schema somebody else changed.

use serde_json::Value;

use crate::schema::{DataType, Field, TableSchema};

use super::AddFile;

/// Returns why data written under the schema `file` cannot be read under `table`, if so: columns of the same names have the same types,
/// and what refuses null is there without one.
pub(super) fn misfit(file: &TableSchema, table: &TableSchema) -> Option<String> {
    Check { without_nulls: None }.fields(&file.fields, &table.fields, &mut Vec::new())
}

/// Like [`misfit`], for one file: a column that may hold nulls, and by the statistics of the file holds none, fits one that refuses them.
pub(super) fn misfit_of_file(file: &AddFile, table: &TableSchema) -> Option<String> {
    let statistics: Option<Value> = serde_json::from_str(&file.statistics).ok();
    let null_counts = statistics.as_ref().and_then(|statistics| statistics.get("nullCount"));
    Check { without_nulls: null_counts }.fields(&file.schema.fields, &table.fields, &mut Vec::new())
}

/// One comparison; `without_nulls` are the null counts of the file, where they are known.
struct Check<'a> {
    without_nulls: Option<&'a Value>,
}

impl Check<'_> {
    fn fields(&self, file: &[Field], table: &[Field], path: &mut Vec<String>) -> Option<String> {
        for field in file {
            path.push(field.name.clone());
            let why = self.field(field, table, path);
            path.pop();
            if why.is_some() {
                return why;
            }
        }
        let mut required = table.iter().filter(|other| !other.nullable);
        let lacking = required.find(|other| !file.iter().any(|field| field.name == other.name))?;
        path.push(lacking.name.clone());
        let why = format!("column `{}`, which refuses null, is not in the files, but is required", path.join("."));
        path.pop();
        Some(why)
    }

    fn field(&self, field: &Field, table: &[Field], path: &mut Vec<String>) -> Option<String> {
        let Some(other) = table.iter().find(|other| other.name == field.name) else {
            return Some(format!("column `{}` of the files is missing", path.join(".")));
        };
        if field.nullable && !other.nullable && !self.is_without_null(path) {
            return Some(format!("column `{}` of the files allows null, which is refused", path.join(".")));
        }
        self.data_type(&field.data_type, &other.data_type, path)
    }

    /// Whether the file is known to hold no null at `path`. Inside lists and maps nothing is counted.
    fn is_without_null(&self, path: &[String]) -> bool {
        let mut counts = self.without_nulls;
        for part in path {
            counts = counts.and_then(|counts| counts.get(part));
        }
        counts.and_then(Value::as_u64) == Some(0)
    }

    fn data_type(&self, file: &DataType, table: &DataType, path: &mut Vec<String>) -> Option<String> {
        let refuses_null = |has: bool, may: bool, path: &[String]| {
            (has && !may).then(|| format!("column `{}` of the files allows null inside, which is refused", path.join(".")))
        };
        match (file, table) {
            (DataType::Struct(file), DataType::Struct(table)) => self.fields(file, table, path),
            (DataType::Array { element: file, contains_null: has }, DataType::Array { element: table, contains_null: may }) => {
                self.inside("element", file, table, path).or_else(|| refuses_null(*has, *may, path))
            }
            (
                DataType::Map { key: file_key, value: file, value_contains_null: has },
                DataType::Map { key, value, value_contains_null: may },
            ) => self
                .inside("key", file_key, key, path)
                .or_else(|| self.inside("value", file, value, path))
                .or_else(|| refuses_null(*has, *may, path)),
            (file, table) if file == table => None,
            (file, table) => {
                let path = path.join(".");
                Some(format!("column `{path}` of the files is {}, but is {}", type_name(file), type_name(table)))
            }
        }
    }

    fn inside(&self, part: &str, file: &DataType, table: &DataType, path: &mut Vec<String>) -> Option<String> {
        path.push(part.to_owned());
        let why = self.data_type(file, table, path);
        path.pop();
        why
    }
}

/// The longest schema that a message shows.
const SHORT: usize = 400;

/// Returns the schema for a message, cut if it is long.
pub(super) fn short(schema: &TableSchema) -> String {
    let columns: Vec<String> =
        schema.fields.iter().map(|field| format!("{} {}", field.name, type_name(&field.data_type))).collect();
    let text = columns.join(", ");
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Byte => "byte".to_owned(),
        DataType::Short => "short".to_owned(),
        DataType::Integer => "integer".to_owned(),
        DataType::Long => "long".to_owned(),
        DataType::Float => "float".to_owned(),
        DataType::Double => "double".to_owned(),
        DataType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        DataType::String => "string".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::Date => "date".to_owned(),
        DataType::Timestamp => "timestamp".to_owned(),
        DataType::TimestampNtz => "timestamp_ntz".to_owned(),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name, type_name(&field.data_type))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Array { element, .. } => format!("array<{}>", type_name(element)),
        DataType::Map { key, value, .. } => format!("map<{}, {}>", type_name(key), type_name(value)),
        DataType::Other(name) => name.as_str().map_or_else(|| name.to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;

    use super::*;

    fn field(name: &str, data_type: DataType, nullable: bool) -> Field {
        Field { name: name.to_owned(), data_type, nullable, metadata: Map::new() }
    }

    fn schema(nullable: bool) -> TableSchema {
        let inner = vec![field("b.c", DataType::Long, nullable)];
        TableSchema { fields: vec![field("a", DataType::Long, nullable), field("s", DataType::Struct(inner), true)] }
    }

    fn file(statistics: &str) -> AddFile {
        AddFile {
            path: "f".to_owned(),
            partition_values: Vec::new(),
            size: 1,
            modified_ms: 1,
            statistics: statistics.to_owned(),
            rows: 1,
            schema: Arc::new(schema(true)),
        }
    }

    #[test]
    fn a_column_that_came_to_refuse_null_is_checked_against_the_null_counts() {
        let refusing = schema(false);
        assert!(misfit(&schema(true), &refusing).is_some());
        assert_eq!(misfit_of_file(&file(r#"{"numRecords":1,"nullCount":{"a":0,"s":{"b.c":0}}}"#), &refusing), None);
        for (statistics, column) in [
            (r#"{"nullCount":{"a":1,"s":{"b.c":0}}}"#, "`a`"),
            (r#"{"nullCount":{"a":0,"s":{"b.c":2}}}"#, "`s.b.c`"),
            (r#"{"nullCount":{"a":0}}"#, "`s.b.c`"),
            ("{}", "`a`"),
            ("not JSON", "`a`"),
        ] {
            let why = misfit_of_file(&file(statistics), &refusing).expect("does not fit");
            assert!(why.contains(column) && why.contains("allows null"), "{why}");
        }
    }
}
