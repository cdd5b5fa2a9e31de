//! What is known about a setting. The table of all settings is in [`super::table`]; parsing, `--about` and the docs follow it.

use serde_json::Value;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name in a config.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The value where none is given, as JSON text; `null`: none.
    pub default: &'static str,
    /// A few words for a form.
    pub title: &'static str,
    /// What it does, in a sentence or two.
    pub description: &'static str,
    /// Whether a load needs it.
    pub is_required: bool,
    /// Whether its value must not be shown.
    pub is_secret: bool,
    /// Where it may stand.
    pub scope: Scope,
    /// Whether its work is there.
    pub support: Support,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// true or false
    Boolean,
    /// A whole number of at least so much.
    Integer {
        /// The least value.
        at_least: u64,
    },
    /// Seconds, fractions allowed.
    Seconds {
        /// Whether zero means something.
        is_zero_allowed: bool,
    },
    /// Text.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// A list of names.
    Names,
    /// A JSON object.
    Object,
}

/// Where a setting may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// At the top only: it is about the whole load.
    Load,
    /// At the top for all streams, and in an entry of `streams`.
    Stream,
    /// In an entry of `streams` only.
    OnlyStream,
}

/// Whether the work of a setting is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Support {
    /// All of it.
    Full,
    /// None of it: every value but the default is refused.
    Refused,
    /// Of its choices these.
    Choices(&'static [&'static str]),
}

impl Setting {
    const fn new(name: &'static str, kind: Kind, default: &'static str, title: &'static str, description: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            title,
            description,
            is_required: false,
            is_secret: false,
            scope: Scope::Load,
            support: Support::Full,
        }
    }
    pub(super) const fn boolean(
        name: &'static str,
        default: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, Kind::Boolean, default, title, description)
    }
    pub(super) const fn integer(
        name: &'static str,
        at_least: u64,
        default: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, Kind::Integer { at_least }, default, title, description)
    }
    pub(super) const fn seconds(
        name: &'static str,
        is_zero_allowed: bool,
        default: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, Kind::Seconds { is_zero_allowed }, default, title, description)
    }
    pub(super) const fn text(name: &'static str, default: &'static str, title: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Text, default, title, description)
    }
    pub(super) const fn choice(
        name: &'static str,
        choices: &'static [&'static str],
        default: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, Kind::Choice(choices), default, title, description)
    }
    pub(super) const fn names(name: &'static str, title: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Names, "null", title, description)
    }
    pub(super) const fn object(name: &'static str, title: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Object, "null", title, description)
    }
    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }
    pub(super) const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }
    pub(super) const fn per_stream(mut self) -> Self {
        self.scope = Scope::Stream;
        self
    }
    pub(super) const fn only_stream(mut self) -> Self {
        self.scope = Scope::OnlyStream;
        self
    }
    pub(super) const fn refused(mut self) -> Self {
        self.support = Support::Refused;
        self
    }
    pub(super) const fn supports(mut self, choices: &'static [&'static str]) -> Self {
        self.support = Support::Choices(choices);
        self
    }

    /// Returns the default; null where there is none.
    pub fn default_value(&self) -> Value {
        // A test parses every default of the table.
        serde_json::from_str(self.default).unwrap_or(Value::Null)
    }

    /// Returns the choices whose work is there; none for a setting of another kind.
    pub fn choices(&self) -> &'static [&'static str] {
        match (self.support, self.kind) {
            (Support::Choices(choices), _) | (Support::Full, Kind::Choice(choices)) => choices,
            _ => &[],
        }
    }

    /// Whether something else than the default may be set.
    pub fn is_supported(&self) -> bool {
        self.support != Support::Refused
    }

    /// Returns why `value`, which has the setting's type, cannot be had from this version; `None` if it can.
    pub(super) fn refusal(&self, value: &Value) -> Option<String> {
        let is_empty = match value {
            Value::Object(object) => object.is_empty(),
            Value::Array(array) => array.is_empty(),
            _ => *value == self.default_value(),
        };
        match self.support {
            Support::Full => None,
            Support::Refused if is_empty => None,
            Support::Refused => Some(format!("`{}` is not supported by this version", self.name)),
            Support::Choices(choices) => {
                let text = value.as_str().unwrap_or_default();
                (!choices.contains(&text)).then(|| {
                    format!("`{}: {text}` is not supported by this version, which has `{}`", self.name, choices.join("`, `"))
                })
            }
        }
    }
}
