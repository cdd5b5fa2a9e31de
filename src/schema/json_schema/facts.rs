//! A JSON Schema unfolded: a list of alternatives, each a conjunction of plain facts.

use std::rc::Rc;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// What one SCHEMA may unfold into, in schemas looked at: far beyond any real tap, and a tenth of a second.
const MOST_PARTS: usize = 200_000;
/// Alternatives of one property; beyond it is JSON text.
const MOST_ALTERNATIVES: usize = 64;
/// `$ref`, `allOf`, `anyOf` within each other, without a property between them; beyond it is JSON text. Keeps the stack small.
const DEEPEST_COMBINATION: usize = 32;

/// A set of JSON types.
pub(super) type Types = u8;
pub(super) const NULL: Types = 1;
pub(super) const BOOLEAN: Types = 2;
pub(super) const INTEGER: Types = 4;
pub(super) const NUMBER: Types = 8;
pub(super) const STRING: Types = 16;
pub(super) const OBJECT: Types = 32;
pub(super) const ARRAY: Types = 64;

/// A schema at some place, with the references that led there.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    schema: &'a Value,
    references: Option<Rc<Reference<'a>>>,
}

#[derive(Debug)]
struct Reference<'a> {
    target: &'a Value,
    before: Option<Rc<Reference<'a>>>,
}

impl<'a> Part<'a> {
    /// Returns the whole document: a reference to it from within is a recursion.
    pub(super) fn root(schema: &'a Value) -> Self {
        Self { schema, references: Some(Rc::new(Reference { target: schema, before: None })) }
    }

    fn with(&self, schema: &'a Value) -> Self {
        Self { schema, references: self.references.clone() }
    }

    fn follows(&self, target: &Value) -> bool {
        let mut next = self.references.as_ref();
        while let Some(reference) = next {
            if std::ptr::eq(reference.target, target) {
                return true;
            }
            next = reference.before.as_ref();
        }
        false
    }
}

/// The same place, not the same text: enough to see that two alternatives say nothing different.
impl PartialEq for Part<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.schema, other.schema)
    }
}

/// A list of schemas that hold at once.
pub(super) type All<'a> = Vec<Part<'a>>;

/// What one alternative says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Facts<'a> {
    /// Nothing can be said: recursion, or too much to say.
    pub is_anything: bool,
    /// The types; `None`: not told.
    pub types: Option<Types>,
    pub format: Option<&'a str>,
    pub encoding: Option<&'a str>,
    /// `singer.decimal`
    pub is_decimal: bool,
    pub precision: Option<u64>,
    pub scale: Option<u64>,
    /// A bound of the value lies beyond 64 bits.
    pub is_beyond_long: bool,
    pub multiple_of: Option<f64>,
    /// It has `const` or `enum`.
    pub has_values: bool,
    /// `None`: no `properties` keyword.
    pub properties: Option<Vec<(&'a str, All<'a>)>>,
    /// The schema of further properties, where there is one.
    pub additional: Option<All<'a>>,
    pub items: Option<Items<'a>>,
}

/// The elements of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Items<'a> {
    /// All follow the same schemas.
    Same(All<'a>),
    /// They differ by position.
    ByPosition,
}

impl<'a> Facts<'a> {
    fn anything() -> Self {
        Self { is_anything: true, ..Self::default() }
    }

    /// Returns what holds when both hold; `None` when no value can follow both.
    fn and(&self, other: &Self) -> Option<Self> {
        let types = match (self.types, other.types) {
            (Some(a), Some(b)) => Some(both_types(a, b)?),
            (a, b) => a.or(b),
        };
        let items = match (&self.items, &other.items) {
            (Some(Items::Same(a)), Some(Items::Same(b))) => Some(Items::Same(both(a, b))),
            (Some(Items::ByPosition), _) | (_, Some(Items::ByPosition)) => Some(Items::ByPosition),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let additional = match (&self.additional, &other.additional) {
            (Some(a), Some(b)) => Some(both(a, b)),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let properties = match (&self.properties, &other.properties) {
            (Some(a), Some(b)) => {
                let mut merged = a.clone();
                for (key, schemas) in b {
                    match merged.iter_mut().find(|(known, _)| known == key) {
                        Some((_, known)) => *known = both(known, schemas),
                        None => merged.push((key, schemas.clone())),
                    }
                }
                Some(merged)
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Some(Self {
            is_anything: self.is_anything || other.is_anything,
            types,
            format: self.format.or(other.format),
            encoding: self.encoding.or(other.encoding),
            is_decimal: self.is_decimal || other.is_decimal,
            precision: self.precision.or(other.precision),
            scale: self.scale.or(other.scale),
            is_beyond_long: self.is_beyond_long || other.is_beyond_long,
            multiple_of: self.multiple_of.or(other.multiple_of),
            has_values: self.has_values || other.has_values,
            properties,
            additional,
            items,
        })
    }
}

fn both<'a>(a: &All<'a>, b: &All<'a>) -> All<'a> {
    let mut all = a.clone();
    all.extend(b.iter().filter(|part| !a.contains(part)).cloned());
    all
}

/// The types of both sets; an integer is a number. `None` when there are none although each set has some.
fn both_types(a: Types, b: Types) -> Option<Types> {
    let with_integers = |types: Types| if types & NUMBER != 0 { types | INTEGER } else { types };
    let types = with_integers(a) & with_integers(b);
    // `number` says more than `integer` only if both sets have it.
    let types = if types & NUMBER != 0 && a & b & NUMBER != 0 && a & b & INTEGER == 0 { types & !INTEGER } else { types };
    if types == 0 && a != 0 && b != 0 { None } else { Some(types) }
}

/// Unfolds the schemas of one document.
pub(super) struct Unfolder<'a> {
    document: &'a Value,
    parts: usize,
}

impl<'a> Unfolder<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, parts: 0 }
    }

    /// Returns the alternatives of a schema; none when no value can follow it.
    ///
    /// **Errors** `Input` when it is not a JSON Schema; the message goes on after the property's name.
    pub(super) fn unfold(&mut self, part: &Part<'a>) -> Result<Vec<Facts<'a>>> {
        self.unfold_at(part, 0)
    }

    /// Returns the alternatives of schemas that hold at once.
    pub(super) fn unfold_all(&mut self, all: &All<'a>) -> Result<Vec<Facts<'a>>> {
        let mut alternatives = vec![Facts::default()];
        for part in all {
            alternatives = product(alternatives, self.unfold_at(part, 0)?);
        }
        Ok(alternatives)
    }

    fn unfold_at(&mut self, part: &Part<'a>, depth: usize) -> Result<Vec<Facts<'a>>> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(Error::input(format!("belongs to a schema that unfolds into more than {MOST_PARTS} parts"))
                .hint("set `nested = \"json\"`, or name the column's type in `columns`"));
        }
        let keywords = match part.schema {
            Value::Object(keywords) => keywords,
            Value::Bool(true) => return Ok(vec![Facts::default()]),
            Value::Bool(false) => return Ok(Vec::new()),
            other => return Err(refuse(format!("has the schema {}, which is not a JSON Schema", excerpt(other)))),
        };
        if depth > DEEPEST_COMBINATION {
            return Ok(vec![Facts::anything()]);
        }
        let mut alternatives = vec![self.own_facts(part, keywords)?];
        if let Some(reference) = keywords.get("$ref") {
            let target = self.target(reference)?;
            let referred = if part.follows(target) {
                vec![Facts::anything()]
            } else {
                let reference = Reference { target, before: part.references.clone() };
                self.unfold_at(&Part { schema: target, references: Some(Rc::new(reference)) }, depth + 1)?
            };
            alternatives = product(alternatives, referred);
        }
        if keywords.contains_key("$dynamicRef") || keywords.contains_key("$recursiveRef") {
            alternatives = product(alternatives, vec![Facts::anything()]);
        }
        for schema in schemas(keywords, "allOf")? {
            alternatives = product(alternatives, self.unfold_at(&part.with(schema), depth + 1)?);
        }
        for keyword in ["anyOf", "oneOf"] {
            let members = schemas(keywords, keyword)?;
            if members.is_empty() {
                continue;
            }
            let mut choices = Vec::new();
            for schema in members {
                for facts in self.unfold_at(&part.with(schema), depth + 1)? {
                    if !choices.contains(&facts) {
                        choices.push(facts);
                    }
                }
            }
            alternatives = product(alternatives, choices);
        }
        Ok(alternatives)
    }

    fn own_facts(&self, part: &Part<'a>, keywords: &'a Map<String, Value>) -> Result<Facts<'a>> {
        let mut facts = Facts {
            format: keywords.get("format").and_then(Value::as_str),
            encoding: keywords.get("contentEncoding").and_then(Value::as_str),
            is_beyond_long: is_beyond_long(keywords),
            multiple_of: keywords.get("multipleOf").and_then(Value::as_f64),
            has_values: keywords.contains_key("const") || keywords.contains_key("enum"),
            ..Facts::default()
        };
        match keywords.get("type") {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) => {
                let mut types = 0;
                for name in names {
                    types |= type_of(name, &mut facts)?;
                }
                facts.types = Some(types);
            }
            Some(name) => facts.types = Some(type_of(name, &mut facts)?),
        }
        facts.is_decimal |= facts.format.is_some_and(is_decimal_name);
        if facts.is_decimal {
            // Older taps nest the two numbers below `additionalProperties`.
            let nested = keywords.get("additionalProperties").and_then(|value| value.get("scale_precision"));
            let number = |name| {
                let own = keywords.get(name).and_then(Value::as_u64);
                own.or_else(|| nested?.get(name)?.as_u64())
            };
            facts.precision = number("precision");
            facts.scale = number("scale");
        }
        match keywords.get("properties") {
            None | Some(Value::Null) => {}
            Some(Value::Object(properties)) => {
                let list = properties.iter().map(|(key, schema)| (key.as_str(), vec![part.with(schema)]));
                facts.properties = Some(list.collect());
            }
            Some(other) => return Err(refuse(format!("has `properties` {}, which is not an object", excerpt(other)))),
        }
        match keywords.get("additionalProperties") {
            Some(schema @ Value::Object(_)) if !facts.is_decimal && !keywords.contains_key("patternProperties") => {
                facts.additional = Some(vec![part.with(schema)]);
            }
            _ => {}
        }
        match keywords.get("items") {
            None | Some(Value::Null) => {}
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => facts.items = Some(Items::Same(vec![part.with(schema)])),
            Some(Value::Array(_)) => facts.items = Some(Items::ByPosition),
            Some(other) => return Err(refuse(format!("has `items` {}, which is not a JSON Schema", excerpt(other)))),
        }
        if keywords.contains_key("prefixItems") {
            facts.items = Some(Items::ByPosition);
        }
        Ok(facts)
    }

    /// Finds what a `$ref` points to: a JSON pointer or an anchor of the same document.
    fn target(&self, reference: &Value) -> Result<&'a Value> {
        let missing = || refuse(format!("refers to {}, which is not in the schema", excerpt(reference)));
        let text = reference.as_str().ok_or_else(missing)?;
        let fragment = text.strip_prefix('#').ok_or_else(missing)?;
        let fragment = percent_decode_str(fragment).decode_utf8().map_err(|_| missing())?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.pointer(&fragment).ok_or_else(missing);
        }
        let definitions = ["$defs", "definitions"].into_iter().filter_map(|name| self.document.get(name)?.as_object());
        let is_named = |schema: &&Value| {
            let is = |key: &str, name: &str| schema.get(key).and_then(Value::as_str) == Some(name);
            is("$anchor", &fragment) || is("$id", text)
        };
        definitions.flat_map(Map::values).find(is_named).ok_or_else(missing)
    }
}

/// Returns every pair that can hold at once.
fn product<'a>(left: Vec<Facts<'a>>, right: Vec<Facts<'a>>) -> Vec<Facts<'a>> {
    if left.len() * right.len() > MOST_ALTERNATIVES {
        return vec![Facts::anything()];
    }
    let mut pairs: Vec<Facts<'a>> = Vec::with_capacity(left.len() * right.len());
    for facts in left.iter().flat_map(|a| right.iter().filter_map(move |b| a.and(b))) {
        if !pairs.contains(&facts) {
            pairs.push(facts);
        }
    }
    pairs
}

fn schemas<'a>(keywords: &'a Map<String, Value>, keyword: &str) -> Result<&'a [Value]> {
    match keywords.get(keyword) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(members)) => Ok(members),
        Some(other) => Err(refuse(format!("has `{keyword}` {}, which is not an array", excerpt(other)))),
    }
}

fn type_of(name: &Value, facts: &mut Facts<'_>) -> Result<Types> {
    Ok(match name.as_str() {
        Some("null") => NULL,
        Some("boolean") => BOOLEAN,
        Some("integer") => INTEGER,
        Some("number") => NUMBER,
        Some("string") => STRING,
        Some("object") => OBJECT,
        Some("array") => ARRAY,
        Some(name) if is_decimal_name(name) => {
            facts.is_decimal = true;
            NUMBER | STRING
        }
        _ => return Err(refuse(format!("has the type {}, which JSON Schema does not know", excerpt(name)))),
    })
}

fn is_decimal_name(name: &str) -> bool {
    matches!(name, "singer.decimal" | "x-singer.decimal")
}

fn is_beyond_long(keywords: &Map<String, Value>) -> bool {
    let is_beyond = |name: &str| match keywords.get(name) {
        Some(Value::Number(number)) if number.is_f64() => {
            // 2^63 is what the largest long becomes as a double, and no bound beyond it.
            number.as_f64().is_some_and(|bound| bound.abs() > 9_223_372_036_854_775_808.0)
        }
        Some(Value::Number(number)) => number.as_i64().is_none(),
        _ => false,
    };
    let exclusive = keywords.get("exclusiveMaximum").and_then(Value::as_u64);
    let is_just_long = exclusive == Some(1 << 63);
    is_beyond("maximum")
        || is_beyond("minimum")
        || is_beyond("exclusiveMinimum")
        || (is_beyond("exclusiveMaximum") && !is_just_long)
}

fn refuse(message: String) -> Error {
    Error::input(message).hint("correct the tap, or name the column's type in `columns`")
}

fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}
