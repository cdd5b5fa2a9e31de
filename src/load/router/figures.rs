//! What the router tells the report.

use super::Router;
use crate::batch;
use crate::report::Coercion;
use crate::schema::{Layout, Rule};

impl Router {
    /// Tells the counted coercions; once, at the end.
    pub(in crate::load) fn report_coercions(&self) {
        for stream in &self.streams {
            for (field, kind, count) in stream.tally.iter() {
                let target = match kind {
                    batch::Coercion::OtherColumn => overflow_column(&stream.schema.layout().layout, field),
                    _ => None,
                };
                let kind = match (target, kind.hint()) {
                    (Some(column), _) => format!("value of another type stored in `{column}`"),
                    (None, Some(hint)) => format!("{kind} ({hint})"),
                    (None, None) => kind.to_string(),
                };
                let field = field.to_owned();
                let coercion = Coercion { field, kind, count: count.count, example: count.example.clone(), line: count.line };
                self.stages.report.coerced(&stream.name, coercion);
            }
        }
    }

    pub(super) fn report_rows(&mut self) {
        for stream in &mut self.streams {
            let (rows, bytes) = std::mem::take(&mut stream.unreported);
            if rows > 0 {
                self.stages.report.rows(&stream.name, rows, bytes);
            }
        }
        self.stages.report.lines(self.line.0);
    }
}

/// The column that takes what the field at `path` cannot hold, within the same struct.
fn overflow_column(layout: &Layout, path: &str) -> Option<String> {
    let (key, rest) = match path.split_once('.') {
        Some((key, rest)) if !layout.by_key.contains_key(path) => (key, Some(rest)),
        _ => (path, None),
    };
    let source = layout.sources.get(*layout.by_key.get(key)?)?;
    match rest {
        None => Some(layout.columns.get(source.overflow.as_ref()?.column?)?.name.clone()),
        Some(rest) => match &layout.columns.get(source.column?)?.rule {
            Rule::Struct(inner) => overflow_column(inner, rest),
            _ => None,
        },
    }
}
