//! The types of `columns`: Spark's DDL (`decimal(10,2)`, `array<struct<a: long>>`) and `json`.

use super::declared::{Declared, Property, Text};
use super::layout::BinaryEncoding;

/// Spark has no limit, our layouts nest this deep at most.
const DEEPEST: usize = 16;

/// Checks a type of `columns`; the message goes on after the type (`… is not a type`).
pub fn check_column_type(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

/// Returns what a type of `columns` declares.
///
/// A list or map of JSON text is one JSON text; binary is the text's own bytes until a `contentEncoding` says more.
pub(super) fn parse(text: &str) -> Result<Declared, String> {
    parse_with(Parser { rest: text, is_catalog: false })
}

/// Returns what Spark's catalog string of a column with a `varchar(n)` or `char(n)` somewhere in it declares.
pub(super) fn parse_catalog(text: &str) -> Result<Declared, String> {
    parse_with(Parser { rest: text, is_catalog: true })
}

fn parse_with(mut parser: Parser<'_>) -> Result<Declared, String> {
    let declared = parser.data_type(0)?;
    match parser.token() {
        None => Ok(declared),
        Some(token) => Err(format!("has `{token}` after its end")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    /// A type of an existing table, of which only the lengths are of interest.
    is_catalog: bool,
}

impl<'a> Parser<'a> {
    fn data_type(&mut self, depth: usize) -> Result<Declared, String> {
        if depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} deep"));
        }
        let Some(name) = self.token() else { return Err("ends where a type is expected".to_owned()) };
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "boolean" | "bool" => Declared::Boolean,
            "tinyint" | "byte" => Declared::Byte,
            "smallint" | "short" => Declared::Short,
            "int" | "integer" => Declared::Integer,
            "bigint" | "long" => Declared::Long,
            "float" | "real" => Declared::Float,
            "double" => Declared::Double,
            "string" => Declared::TEXT,
            "json" => Declared::Json,
            "binary" => Declared::Binary(BinaryEncoding::Utf8),
            "date" => Declared::Date,
            "timestamp" | "timestamp_ltz" => Declared::Timestamp,
            "timestamp_ntz" => Declared::TimestampNtz,
            "decimal" | "dec" | "numeric" => self.decimal()?,
            "varchar" | "char" | "character" => self.limited(&lower, depth)?,
            "array" => {
                self.expect("<")?;
                let element = self.data_type(depth + 1)?;
                self.expect(">")?;
                if element == Declared::Json { Declared::Json } else { Declared::List(Box::new(element)) }
            }
            "map" => {
                self.expect("<")?;
                if self.data_type(depth + 1)? != Declared::TEXT && !self.is_catalog {
                    return Err("has map keys that are not `string`, as the keys of JSON objects are".to_owned());
                }
                self.expect(",")?;
                let value = self.data_type(depth + 1)?;
                self.expect(">")?;
                if value == Declared::Json { Declared::Json } else { Declared::Map(Box::new(value)) }
            }
            "struct" => self.structure(depth)?,
            _ => return Err(format!("has `{name}`, which is not a type")),
        })
    }

    fn decimal(&mut self) -> Result<Declared, String> {
        let (mut precision, mut scale) = (10, 0);
        if self.accept("(") {
            precision = self.number()?;
            scale = if self.accept(",") { self.number()? } else { 0 };
            self.expect(")")?;
        }
        match (u8::try_from(precision), u8::try_from(scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(Declared::Decimal { precision, scale }),
            _ => Err(format!("has decimal({precision},{scale}); the precision is 1 to 38 and the scale at most the precision")),
        }
    }

    fn limited(&mut self, name: &str, depth: usize) -> Result<Declared, String> {
        self.expect("(")?;
        let limit = self.number()?;
        self.expect(")")?;
        if limit == 0 {
            return Err(format!("has {name}(0)"));
        }
        // Spark keeps the lengths of nested text in the metadata of the whole column.
        if depth > 0 && !self.is_catalog {
            return Err(format!("has {name}({limit}) inside another type; only a whole column can have a length"));
        }
        let name = if name == "varchar" { "varchar" } else { "char" };
        Ok(Declared::Text(Text { limit: Some((format!("{name}({limit})"), limit)), encoding: None }))
    }

    fn structure(&mut self, depth: usize) -> Result<Declared, String> {
        self.expect("<")?;
        let mut properties: Vec<Property> = Vec::new();
        while !self.accept(">") {
            if !properties.is_empty() {
                self.expect(",")?;
            }
            let key = self.name()?;
            self.accept(":");
            if properties.iter().any(|property| property.key == key) {
                return Err(format!("has the field `{key}` twice"));
            }
            properties.push(Property::new(key, self.data_type(depth + 1)?));
        }
        if properties.is_empty() { Err("has a struct without fields".to_owned()) } else { Ok(Declared::Struct(properties)) }
    }

    fn name(&mut self) -> Result<String, String> {
        let trimmed = self.rest.trim_start();
        let Some(mut quoted) = trimmed.strip_prefix('`') else {
            return match self.token() {
                Some(token) if token.starts_with(|c: char| c.is_alphanumeric() || c == '_') => Ok(token.to_owned()),
                Some(token) => Err(format!("has `{token}` where a field name is expected")),
                None => Err("ends where a field name is expected".to_owned()),
            };
        };
        let mut name = String::new();
        loop {
            let Some((part, rest)) = quoted.split_once('`') else { return Err("has a ` without its end".to_owned()) };
            name.push_str(part);
            match rest.strip_prefix('`') {
                Some(rest) => {
                    name.push('`');
                    quoted = rest;
                }
                None => {
                    self.rest = rest;
                    return Ok(name);
                }
            }
        }
    }

    fn number(&mut self) -> Result<u32, String> {
        match self.token() {
            Some(token) => token.parse().map_err(|_| format!("has `{token}` where a number is expected")),
            None => Err("ends where a number is expected".to_owned()),
        }
    }

    fn accept(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) {
            return Ok(());
        }
        match self.token() {
            Some(found) => Err(format!("has `{found}` where `{token}` is expected")),
            None => Err(format!("ends where `{token}` is expected")),
        }
    }

    /// Takes a word, or else one character.
    fn token(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, rest) = rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_scalar_types_have_their_names() {
        for (text, label) in [
            ("boolean", "boolean"),
            ("TINYINT", "byte"),
            ("byte", "byte"),
            ("smallint", "short"),
            ("short", "short"),
            ("int", "integer"),
            ("Integer", "integer"),
            ("bigint", "long"),
            ("long", "long"),
            ("float", "float"),
            ("real", "float"),
            ("double", "double"),
            ("string", "string"),
            ("varchar(3)", "string"),
            ("char(3)", "string"),
            ("binary", "binary"),
            ("date", "date"),
            ("timestamp", "timestamp"),
            ("timestamp_ltz", "timestamp"),
            ("timestamp_ntz", "timestamp_ntz"),
            ("json", "json"),
            ("decimal", "decimal_10_0"),
            ("decimal(5)", "decimal_5_0"),
            (" numeric ( 38 , 38 ) ", "decimal_38_38"),
            ("dec(4,2)", "decimal_4_2"),
        ] {
            assert_eq!(parse(text).unwrap().label(), label, "{text}");
        }
    }

    #[test]
    fn nested_types() {
        let long = || Box::new(Declared::Long);
        assert_eq!(parse("array<bigint>").unwrap(), Declared::List(long()));
        assert_eq!(parse("map<string, array<long>>").unwrap(), Declared::Map(Box::new(Declared::List(long()))));
        assert_eq!(
            parse("struct<a: int, `b ``c` decimal(3,1)>").unwrap(),
            Declared::Struct(vec![
                Property::new("a", Declared::Integer),
                Property::new("b `c", Declared::Decimal { precision: 3, scale: 1 })
            ])
        );
        assert_eq!(parse("array<json>").unwrap(), Declared::Json);
        assert_eq!(parse("map<string,json>").unwrap(), Declared::Json);
    }

    #[test]
    fn wrong_types_are_named() {
        for (text, problem) in [
            ("text", "has `text`, which is not a type"),
            ("variant", "has `variant`, which is not a type"),
            ("", "ends where a type is expected"),
            ("decimal(39,0)", "has decimal(39,0); the precision is 1 to 38 and the scale at most the precision"),
            ("decimal(3,4)", "has decimal(3,4); the precision is 1 to 38 and the scale at most the precision"),
            ("decimal(a)", "has `a` where a number is expected"),
            ("array<long", "ends where `>` is expected"),
            ("array<long> x", "has `x` after its end"),
            ("map<long,long>", "has map keys that are not `string`, as the keys of JSON objects are"),
            ("struct<>", "has a struct without fields"),
            ("struct<a: long, a: int>", "has the field `a` twice"),
            ("struct<a: long not null>", "has `not` where `,` is expected"),
            ("array<varchar(3)>", "has varchar(3) inside another type; only a whole column can have a length"),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem, "{text}");
        }
        assert!(parse(&"array<".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in ".{0,20}|(array<|map<string,|struct<a:|decimal\\(|long|>|,|\\)|1){0,12}") {
            let _ = parse(&text);
        }
    }
}
