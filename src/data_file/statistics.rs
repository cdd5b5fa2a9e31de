//! `add.stats`: row count, null counts and bounds of a data file, exact, from its batches.
//!
//! What is counted follows Spark: the leaves of structs are columns of their own, a list or map is one column, which has a null count
//! and no bounds; so have booleans and binaries. A null struct makes its leaves null.
//! Source: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics>

mod bounds;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields, Schema};
use arrow::record_batch::RecordBatch;

use self::bounds::Bounds;
use crate::delta::StatisticsColumns;

/// Collects the statistics of one file.
#[derive(Debug)]
pub(super) struct Collector {
    rows: u64,
    columns: Vec<Node>,
}

/// A column, or a field of a struct, that has statistics.
#[derive(Debug)]
struct Node {
    /// Among the columns or fields of its level.
    index: usize,
    /// As JSON text, quoted.
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Struct(Vec<Node>),
    Leaf { nulls: u64, bounds: Bounds },
}

impl Collector {
    /// Returns an empty collector for the columns that `columns` choose.
    pub fn new(schema: &Schema, columns: &StatisticsColumns) -> Self {
        let mut selection = match (&columns.named, columns.first_leaves) {
            (Some(names), _) => Selection::Named(names.iter().map(|name| path_parts(name)).collect()),
            (None, Some(leaves)) => Selection::First(leaves),
            (None, None) => Selection::First(usize::MAX),
        };
        Self { rows: 0, columns: nodes_of(schema.fields(), &mut Vec::new(), &mut selection) }
    }

    /// Counts the rows of a batch of the schema.
    pub fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        for node in &mut self.columns {
            if let Some(array) = batch.columns().get(node.index) {
                node.add(array, None);
            }
        }
    }

    /// Returns the JSON text of `add.stats`. A bound that is not there is left out, and so is an object without entries.
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"numRecords\":{}", self.rows);
        let sections: [(&str, Render); 3] = [
            ("minValues", |leaf, out| leaf.1.write_min(out)),
            ("maxValues", |leaf, out| leaf.1.write_max(out)),
            ("nullCount", |leaf, out| {
                *out += &leaf.0.to_string();
                true
            }),
        ];
        for (section, render) in sections {
            let mut object = String::new();
            if write_object(&self.columns, render, &mut object) {
                text += &format!(",\"{section}\":{object}");
            }
        }
        text + ",\"tightBounds\":true}"
    }
}

/// Writes one value of a leaf (its nulls and bounds); false when it has none.
type Render = fn((u64, &Bounds), &mut String) -> bool;

fn write_object(nodes: &[Node], render: Render, out: &mut String) -> bool {
    let start = out.len();
    out.push('{');
    for node in nodes {
        let before = out.len();
        if before > start + 1 {
            out.push(',');
        }
        *out += &node.name;
        out.push(':');
        let is_written = match &node.kind {
            Kind::Struct(children) => write_object(children, render, out),
            Kind::Leaf { nulls, bounds } => render((*nulls, bounds), out),
        };
        if !is_written {
            out.truncate(before);
        }
    }
    out.push('}');
    let has_entries = out.len() > start + 2;
    if !has_entries {
        out.truncate(start);
    }
    has_entries
}

impl Node {
    /// `parents`: which rows have no null struct above.
    fn add(&mut self, array: &ArrayRef, parents: Option<&NullBuffer>) {
        let valid = NullBuffer::union(parents, array.nulls());
        match &mut self.kind {
            Kind::Leaf { nulls, bounds } => {
                *nulls += valid.as_ref().map_or(0, NullBuffer::null_count) as u64;
                bounds.add(array, valid);
            }
            Kind::Struct(children) => {
                let structs = array.as_struct();
                for child in children {
                    if let Some(array) = structs.columns().get(child.index) {
                        child.add(array, valid.as_ref());
                    }
                }
            }
        }
    }
}

enum Selection {
    /// So many leaves are left.
    First(usize),
    /// The leaves at or below one of these paths; names without regard to case, as Spark resolves them.
    Named(Vec<Vec<String>>),
}

impl Selection {
    fn takes(&mut self, path: &[String]) -> bool {
        match self {
            Self::First(0) => false,
            Self::First(left) => {
                *left -= 1;
                true
            }
            Self::Named(named) => {
                named.iter().any(|named| named.len() <= path.len() && named.iter().zip(path).all(|(a, b)| a == b))
            }
        }
    }
}

fn nodes_of(fields: &Fields, path: &mut Vec<String>, selection: &mut Selection) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        path.push(field.name().to_lowercase());
        let kind = match field.data_type() {
            DataType::Struct(children) => {
                let children = nodes_of(children, path, selection);
                (!children.is_empty()).then_some(Kind::Struct(children))
            }
            data_type => selection.takes(path).then(|| Kind::Leaf { nulls: 0, bounds: Bounds::new(data_type) }),
        };
        path.pop();
        if let Some(kind) = kind {
            nodes.push(Node { index, name: serde_json::Value::from(field.name().as_str()).to_string(), kind });
        }
    }
    nodes
}

/// Splits a column path at its dots; back ticks quote a name (`` `a.b`.c ``). Lower case.
fn path_parts(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = path.trim().to_lowercase().chars().collect::<Vec<_>>().into_iter().peekable();
    let mut is_quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '`' if is_quoted && characters.peek() == Some(&'`') => {
                characters.next();
                push(&mut parts, '`');
            }
            '`' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            other => push(&mut parts, other),
        }
    }
    parts
}

fn push(parts: &mut [String], character: char) {
    if let Some(part) = parts.last_mut() {
        part.push(character);
    }
}

#[cfg(test)]
mod tests;
