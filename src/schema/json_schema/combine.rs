//! Alternatives → one type.

use super::super::declared::{Declared, Property, Text};
use super::super::{BinaryColumns, NaiveTimestamps, Nested};
use super::facts::{ARRAY, All, BOOLEAN, Facts, INTEGER, Items, NULL, NUMBER, OBJECT, STRING, Types};
use super::{Resolver, encoding, override_of};
use crate::Result;

/// Levels of nesting; what is deeper is JSON text.
const DEEPEST: usize = 16;
/// Digits of a 64-bit integer.
const LONG_DIGITS: u8 = 19;
/// Digits after the point beside which a decimal that is cut to 38 digits keeps its integer digits, as in Spark's `DecimalType.adjustPrecisionScale`.
const KEPT_SCALE: u8 = 6;

/// A type, and whether text that does not fit has a column of its own.
type Typed = (Declared, bool);

impl<'a> Resolver<'a> {
    /// Returns the properties of objects of which each record follows one.
    pub(super) fn properties(&mut self, objects: &[&Facts<'a>], depth: usize, path: &str) -> Result<Vec<Property>> {
        let mut choices: Vec<(&str, Vec<All<'a>>)> = Vec::new();
        let mut at = std::collections::HashMap::new();
        for (key, all) in objects.iter().filter_map(|facts| facts.properties.as_ref()).flatten() {
            let index = *at.entry(*key).or_insert(choices.len());
            if index == choices.len() {
                choices.push((key, Vec::new()));
            }
            if !choices[index].1.contains(all) {
                choices[index].1.push(all.clone());
            }
        }
        let mut properties = Vec::with_capacity(choices.len());
        for (key, choices) in choices {
            let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            let typed = match override_of(self.options, &path)? {
                Some(declared) => Ok((self.with_encoding(declared, &choices), false)),
                None => self.choice(&choices, depth, &path),
            };
            let (declared, has_text_overflow) = typed.map_err(|error| error.in_field(key))?;
            properties.push(Property { has_text_overflow, ..Property::new(key, declared) });
        }
        Ok(properties)
    }

    /// A `binary` of `columns` is decoded as the property's `contentEncoding` says.
    fn with_encoding(&mut self, declared: Declared, choices: &[All<'a>]) -> Declared {
        if !matches!(declared, Declared::Binary(_)) {
            return declared;
        }
        let unfolded = choices.iter().filter_map(|all| self.unfolder.unfold_all(all).ok()).flatten();
        let known = unfolded.filter_map(|facts| encoding(facts.encoding?)).next();
        known.map_or(declared, Declared::Binary)
    }

    fn choice(&mut self, choices: &[All<'a>], depth: usize, path: &str) -> Result<Typed> {
        let mut alternatives: Vec<Facts<'a>> = Vec::new();
        for all in choices {
            for facts in self.unfolder.unfold_all(all)? {
                if !alternatives.contains(&facts) {
                    alternatives.push(facts);
                }
            }
        }
        self.combine(&alternatives, depth, path)
    }

    fn combine(&mut self, alternatives: &[Facts<'a>], depth: usize, path: &str) -> Result<Typed> {
        const JSON: Typed = (Declared::Json, false);
        let (mut scalars, mut objects, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_nullable = false;
        for facts in alternatives {
            let Some(types) = told_types(facts) else { return Ok(JSON) };
            is_nullable |= types & NULL != 0;
            for one in [BOOLEAN, INTEGER, NUMBER, STRING].into_iter().filter(|one| types & one != 0) {
                let scalar = self.scalar(facts, one, path);
                if !scalars.contains(&scalar) {
                    scalars.push(scalar);
                }
            }
            if types & OBJECT != 0 {
                objects.push(facts);
            }
            if types & ARRAY != 0 {
                arrays.push(facts);
            }
        }
        match (scalars.is_empty(), objects.is_empty(), arrays.is_empty()) {
            (true, true, true) if is_nullable => Ok((Declared::TEXT, false)),
            (false, true, true) => Ok(one_scalar(&scalars)),
            (true, false, true) if depth <= DEEPEST => self.object(&objects, depth, path),
            (true, true, false) if depth <= DEEPEST => self.array(&arrays, depth, path),
            _ => Ok(JSON),
        }
    }

    fn object(&mut self, objects: &[&Facts<'a>], depth: usize, path: &str) -> Result<Typed> {
        let has_properties = |facts: &&Facts<'a>| facts.properties.as_ref().is_some_and(|list| !list.is_empty());
        let declared = if self.options.nested == Nested::Json {
            Declared::Json
        } else if objects.iter().all(has_properties) {
            Declared::Struct(self.properties(objects, depth + 1, path)?)
        } else if !objects.iter().any(has_properties) && objects.iter().all(|facts| facts.additional.is_some()) {
            let values: Vec<All<'a>> = objects.iter().filter_map(|facts| facts.additional.clone()).collect();
            self.inner(&values, depth, path, Declared::Map)?
        } else {
            Declared::Json
        };
        Ok((declared, false))
    }

    fn array(&mut self, arrays: &[&Facts<'a>], depth: usize, path: &str) -> Result<Typed> {
        let mut elements = Vec::new();
        for facts in arrays {
            match &facts.items {
                Some(Items::Same(all)) => elements.push(all.clone()),
                Some(Items::ByPosition) | None => return Ok((Declared::Json, false)),
            }
        }
        Ok((self.inner(&elements, depth, path, Declared::List)?, false))
    }

    /// Returns a list or map of what the choices declare; one JSON text where an element would be JSON text.
    fn inner(
        &mut self,
        choices: &[All<'a>],
        depth: usize,
        path: &str,
        container: impl FnOnce(Box<Declared>) -> Declared,
    ) -> Result<Declared> {
        let inner = self.choice(choices, depth + 1, &format!("{path}[]")).map_err(|error| error.in_field("[]"))?;
        Ok(match inner {
            (Declared::Json, _) => Declared::Json,
            // An element has no second column to go to.
            (_, true) => container(Box::new(Declared::TEXT)),
            (inner, false) => container(Box::new(inner)),
        })
    }

    fn scalar(&mut self, facts: &Facts<'a>, one: Types, path: &str) -> Declared {
        if facts.is_decimal && one != BOOLEAN {
            return self.singer_decimal(facts, path);
        }
        match one {
            BOOLEAN => Declared::Boolean,
            INTEGER if facts.is_beyond_long => Declared::Decimal { precision: 38, scale: 0 },
            INTEGER => Declared::Long,
            NUMBER => facts.multiple_of.and_then(decimal_scale).map_or(Declared::Double, |scale| {
                // Postgres' unbounded numeric sends 1e-38, which would leave no integer digits.
                Declared::Decimal { precision: 38, scale: scale.min(18) }
            }),
            _ => self.text(facts),
        }
    }

    fn text(&self, facts: &Facts<'a>) -> Declared {
        if let Some(name) = facts.encoding {
            return match (encoding(name), self.options.binary_columns) {
                (Some(encoding), BinaryColumns::Decode) => Declared::Binary(encoding),
                (encoding, _) => Declared::Text(Text { limit: None, encoding }),
            };
        }
        match facts.format {
            Some("date-time") if self.options.naive_timestamps == NaiveTimestamps::Ntz => Declared::TimestampNtz,
            Some("date-time") => Declared::Timestamp,
            Some("date") => Declared::Date,
            _ => Declared::TEXT,
        }
    }

    fn singer_decimal(&mut self, facts: &Facts<'_>, path: &str) -> Declared {
        let (precision, scale) = match (facts.precision, facts.scale) {
            (Some(precision), scale) => (precision.max(1), scale.unwrap_or(0)),
            (None, Some(scale)) => (38, scale),
            (None, None) => (38, 18),
        };
        let narrow = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
        let (precision, scale) = (narrow(precision).max(narrow(scale)), narrow(scale));
        let declared = decimal(precision - scale, scale);
        if precision > 38 {
            let notice = format!("field `{path}` is declared as decimal({precision},{scale}); its column is {}", name(&declared));
            if !self.notices.contains(&notice) {
                self.notices.push(notice);
            }
        }
        declared
    }
}

fn name(declared: &Declared) -> String {
    declared.scalar().map(|(data_type, _)| data_type.to_string()).unwrap_or_default()
}

/// The types of an alternative, told or to be seen from its keywords; `None`: nothing to go by.
fn told_types(facts: &Facts<'_>) -> Option<Types> {
    if facts.is_anything {
        return None;
    }
    match facts.types {
        Some(0) => None,
        Some(types) => Some(types),
        None if facts.has_values => None,
        None if facts.properties.is_some() || facts.additional.is_some() => Some(OBJECT),
        None if facts.items.is_some() => Some(ARRAY),
        None if facts.is_decimal => Some(NUMBER),
        None if matches!(facts.format, Some("date-time" | "date")) || facts.encoding.is_some() => Some(STRING),
        None => None,
    }
}

/// Returns the one type that holds the values of several.
fn one_scalar(scalars: &[Declared]) -> Typed {
    if let [only] = scalars {
        return (only.clone(), false);
    }
    let is_text = |declared: &Declared| matches!(declared, Declared::Text(_));
    let is_date = |declared: &Declared| matches!(declared, Declared::Date | Declared::Timestamp | Declared::TimestampNtz);
    if scalars.iter().all(|scalar| is_text(scalar) || is_date(scalar)) {
        let has_text = scalars.iter().any(is_text);
        let time = scalars.iter().find(|scalar| is_date(scalar) && **scalar != Declared::Date);
        return match time.or_else(|| scalars.iter().find(|scalar| is_date(scalar))) {
            Some(date) => (date.clone(), has_text),
            None => (Declared::TEXT, false),
        };
    }
    let digits = scalars.iter().map(|scalar| match scalar {
        Declared::Long => Some((LONG_DIGITS, 0)),
        Declared::Decimal { precision, scale } => Some((precision - scale, *scale)),
        _ => None,
    });
    let exact = digits.reduce(|a, b| Some((a?.0.max(b?.0), a?.1.max(b?.1)))).flatten();
    let is_number = |declared: &Declared| matches!(declared, Declared::Long | Declared::Double | Declared::Decimal { .. });
    let declared = match exact {
        Some((integer_digits, scale)) => decimal(integer_digits, scale),
        None if scalars.iter().all(is_number) => Declared::Double,
        None => Declared::TEXT,
    };
    (declared, false)
}

/// Returns the decimal of so many digits before and after the point; beyond 38 digits, integer digits count for more.
fn decimal(integer_digits: u8, scale: u8) -> Declared {
    let precision = integer_digits.saturating_add(scale).max(1);
    if precision <= 38 {
        return Declared::Decimal { precision, scale };
    }
    let left = 38u8.saturating_sub(integer_digits);
    Declared::Decimal { precision: 38, scale: left.max(scale.min(KEPT_SCALE)) }
}

/// Returns s for 10^-s; powers above 1 need no digits after the point.
fn decimal_scale(multiple_of: f64) -> Option<u8> {
    let text = format!("{multiple_of:e}");
    let exponent: i32 = text.strip_prefix("1e")?.parse().ok()?;
    u8::try_from((-exponent).max(0)).ok().or(Some(u8::MAX))
}
