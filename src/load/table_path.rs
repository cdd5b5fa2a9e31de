//! Stream names → table paths.

use super::plan::TablePath;
use crate::error::{Error, Result};
use crate::schema::stream_directory;

/// Returns the path below the root of the table of `stream`: parts joined by `/`, none empty.
///
/// `{schema}` and `{table}` are made as the Meltano SDK does: the name is split at `-`, the last part is the table, the one before it the
/// schema, unless `default_target_schema` is set, which wins.
///
/// **Errors**: `Config` when the template needs a schema that the stream does not have.
pub(super) fn table_path(naming: &TablePath, stream: &str) -> Result<String> {
    let parts: Vec<&str> = stream.split('-').collect();
    let table = parts.last().copied().unwrap_or(stream);
    let schema = match (&naming.default_target_schema, parts.as_slice()) {
        (Some(schema), _) => Some(schema.as_str()),
        (None, [.., schema, _]) => Some(*schema),
        (None, _) => None,
    };
    let mut path = naming.template.replace("{stream}", &stream_directory(stream)).replace("{table}", &stream_directory(table));
    if path.contains("{schema}") {
        let schema = schema.ok_or_else(|| {
            Error::config(format!("`table_path` is \"{}\", and the name of the stream holds no schema", naming.template))
                .in_stream(stream)
                .hint("set `default_target_schema`")
        })?;
        path = path.replace("{schema}", &stream_directory(schema));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() || parts.contains(&"..") {
        return Err(
            Error::config(format!("`table_path` \"{}\" names no place below the destination", naming.template)).in_stream(stream)
        );
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(template: &str, schema: Option<&str>, stream: &str) -> Option<String> {
        table_path(&TablePath { template: template.into(), default_target_schema: schema.map(str::to_owned) }, stream).ok()
    }

    #[test]
    fn names_are_split_as_the_sdk_does() {
        assert_eq!(path("{stream}", None, "public-orders").as_deref(), Some("public-orders"));
        assert_eq!(path("{schema}/{table}", None, "public-orders").as_deref(), Some("public/orders"));
        assert_eq!(path("{schema}/{table}", None, "db-public-orders").as_deref(), Some("public/orders"));
        assert_eq!(path("{schema}/{table}", Some("raw"), "public-orders").as_deref(), Some("raw/orders"));
        assert_eq!(path("bronze/{schema}/{table}/", Some("raw"), "orders").as_deref(), Some("bronze/raw/orders"));
        assert_eq!(path("{schema}/{table}", None, "orders"), None);
    }

    #[test]
    fn no_stream_leaves_its_place() {
        assert_eq!(path("../{stream}", None, "a"), None);
        assert_eq!(path("/", None, "a"), None);
        assert!(!path("{stream}", None, "../x").expect("escaped").contains('/'));
    }
}
