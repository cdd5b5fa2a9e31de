//! Reads a table back by its log and its files alone, with nothing of the code under test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

/// A table on local disk, replayed from version 0.
pub struct Table {
    path: PathBuf,
    /// The actions of each version.
    pub versions: Vec<Vec<Value>>,
}

impl Table {
    /// Reads the table at `path`; one that is not there has no version.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let mut versions = Vec::new();
        while let Ok(text) = fs::read_to_string(path.join(format!("_delta_log/{:020}.json", versions.len()))) {
            versions.push(text.lines().map(|line| serde_json::from_str(line).expect("an action is JSON")).collect());
        }
        Self { path, versions }
    }

    /// Returns the newest action `name` of each version that has one.
    pub fn actions(&self, name: &str) -> Vec<&Value> {
        self.versions.iter().flatten().filter_map(|action| action.get(name)).collect()
    }

    /// Returns the table's schema, as Delta writes it.
    pub fn schema(&self) -> Value {
        let metadata = self.actions("metaData").pop().expect("a table has metaData");
        serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap()
    }

    /// Returns the names of the table's columns.
    pub fn columns(&self) -> Vec<String> {
        let schema = self.schema();
        let fields = schema["fields"].as_array().unwrap();
        fields.iter().map(|field| field["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the add actions of the files that are in the table.
    fn files(&self) -> BTreeMap<String, &Value> {
        let mut files = BTreeMap::new();
        for action in self.versions.iter().flatten() {
            if let Some(add) = action.get("add") {
                files.insert(add["path"].as_str().unwrap().to_owned(), add);
            }
            if let Some(remove) = action.get("remove") {
                files.remove(remove["path"].as_str().unwrap());
            }
        }
        files
    }

    /// Returns every row as text, sorted: `{id: 1, name: "a"}`, partition values after it.
    pub fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for (path, add) in self.files() {
            let path = percent_encoding::percent_decode_str(&path).decode_utf8().unwrap().into_owned();
            let file = File::open(self.path.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            let reader = SerializedFileReader::new(file).unwrap();
            let before = rows.len();
            for row in reader.get_row_iter(None).unwrap() {
                let mut text = row.unwrap().to_string();
                for (name, value) in add["partitionValues"].as_object().unwrap() {
                    text += &format!(" {name}={value}");
                }
                rows.push(text);
            }
            let statistics: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
            assert_eq!(statistics["numRecords"], rows.len() - before, "{path}");
            assert_eq!(add["size"], fs::metadata(self.path.join(&path)).unwrap().len(), "{path}");
        }
        rows.sort();
        rows
    }

    /// Returns the values of the long column `name`, sorted.
    pub fn numbers(&self, name: &str) -> Vec<i64> {
        let marker = format!("{name}: ");
        let number = |row: &String| {
            let (_, rest) = row.split_once(&marker).unwrap_or_else(|| panic!("no {name} in {row}"));
            rest.split([',', '}']).next().unwrap().parse().unwrap_or_else(|error| panic!("{name} in {row}: {error}"))
        };
        let mut numbers: Vec<i64> = self.rows().iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Returns every file below `folder`, hidden ones too, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in fs::read_dir(folder).into_iter().flatten() {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
