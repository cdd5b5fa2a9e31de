//! JSON Schema → declared types.
//!
//! A schema is first unfolded into alternatives (`$ref` and `allOf` merged, `anyOf` and `oneOf` multiplied out), each a set of plain
//! facts, and the alternatives are then combined into one type. Every schema gets a type or an error that names the property, in
//! bounded time and depth: recursion and what is too deep become JSON text.

mod combine;
mod facts;
#[cfg(test)]
pub(super) mod tests;

use serde_json::Value;

use self::facts::{Part, Unfolder};
use super::Options;
use super::declared::{Declared, Property};
use super::{ddl, layout::BinaryEncoding};
use crate::{Error, Result};

/// What a SCHEMA declares.
#[derive(Debug)]
pub(super) struct Resolved {
    pub properties: Vec<Property>,
    pub notices: Vec<String>,
}

/// Returns the properties that a SCHEMA message's `schema` declares, in its order.
///
/// **Errors** `Input` when it has no `properties` or one of them is not a JSON Schema; `Config` for a wrong type in `columns`.
pub(super) fn resolve(singer_schema: &Value, options: &Options) -> Result<Resolved> {
    let mut resolver = Resolver { unfolder: Unfolder::new(singer_schema), options, notices: Vec::new() };
    let alternatives = resolver.unfolder.unfold(&Part::root(singer_schema))?;
    if !alternatives.iter().any(|facts| facts.properties.is_some()) {
        return Err(Error::input("the SCHEMA message's schema has no `properties`").hint("correct the tap"));
    }
    let objects: Vec<_> = alternatives.iter().collect();
    let properties = resolver.properties(&objects, 1, "")?;
    Ok(Resolved { properties, notices: resolver.notices })
}

/// Returns the type that `columns` gives the property at `path`, if it names it.
pub(super) fn override_of(options: &Options, path: &str) -> Result<Option<Declared>> {
    let Some(text) = options.columns.get(path) else { return Ok(None) };
    ddl::parse(text).map(Some).map_err(|problem| {
        Error::config(format!("`columns` gives `{path}` the type \"{text}\", which {problem}")).hint(
            "types are boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, varchar(n), char(n), binary, \
             date, timestamp, timestamp_ntz, json, array<…>, map<string,…> and struct<name: …>",
        )
    })
}

struct Resolver<'a> {
    unfolder: Unfolder<'a>,
    options: &'a Options,
    notices: Vec<String>,
}

/// How a `contentEncoding` is decoded; `None`: not at all.
fn encoding(name: &str) -> Option<BinaryEncoding> {
    match name.to_ascii_lowercase().as_str() {
        "base64" | "base64url" => Some(BinaryEncoding::Base64),
        "base16" | "hex" => Some(BinaryEncoding::Hex),
        _ => None,
    }
}
