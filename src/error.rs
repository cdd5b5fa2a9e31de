//! The one public error: what went wrong and where, how things stand, what to do.
//!
//! Kinds are by remedy, so that an exit code and a hint follow from the kind alone. A message is lower case, without a full stop,
//! and says only what was observed; a cause goes into `source`. A field path is added while the error travels up.

use std::fmt;

/// What a user has to do about an error; the exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line is wrong.
    Usage,
    /// A setting is wrong.
    Config,
    /// The input is wrong: the tap has to change.
    Input,
    /// A schema change needs a decision.
    Schema,
    /// The table cannot be read, or needs something that is not supported.
    Table,
    /// Rights, space or capabilities of the store are missing.
    Denied,
    /// Somebody else got in between; the same command may be run again.
    Conflict,
    /// The store did not answer; the same command may be run again.
    Unavailable,
    /// The process was told to stop by the signal of this number.
    Signal(i32),
    /// A defect of this program.
    Internal,
}

/// A line of the input, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputLine(pub u64);

impl fmt::Display for InputLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its context. Cheap to move; built by [`Error::new`] and the methods that add to it.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    stream: Option<String>,
    field: Option<String>,
    line: Option<InputLine>,
    place: Option<String>,
    table: Option<String>,
    version: Option<u64>,
    standing: Option<String>,
    hint: Option<String>,
    repeat_may_double: bool,
    is_for_every_request: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Returns an error of `kind`; `message` is lower case and without a full stop. For an error about a field the message goes
    /// on after the field's name (`is "12,5", which is not a decimal(10,2)`).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            stream: None,
            field: None,
            line: None,
            place: None,
            table: None,
            version: None,
            standing: None,
            hint: None,
            repeat_may_double: false,
            is_for_every_request: false,
            source: None,
        }))
    }

    /// Returns an error about the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }
    /// Returns an error about a setting.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }
    /// Returns an error about the input.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }
    /// Returns an error about a schema change.
    pub fn schema(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Schema, message)
    }
    /// Returns an error about a table.
    pub fn table(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Table, message)
    }
    /// Returns an error about missing rights, space or capabilities.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }
    /// Returns an error about somebody else's change.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }
    /// Returns an error about a store that does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }
    /// Returns an error that is a defect of this program.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint.get_or_insert(hint.into());
        self
    }
    /// Adds the cause, printed as "caused by".
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
    /// Adds the stream, unless one is named already.
    pub fn in_stream(mut self, stream: impl Into<String>) -> Self {
        self.0.stream.get_or_insert(stream.into());
        self
    }
    /// Puts `name` before the field path: called by each level that the error passes on its way up.
    pub fn in_field(mut self, name: &str) -> Self {
        self.0.field = Some(match self.0.field.take() {
            None => name.to_owned(),
            Some(rest) if rest.starts_with('[') => format!("{name}{rest}"),
            Some(rest) => format!("{name}.{rest}"),
        });
        self
    }
    /// Adds the input line, unless one is named already.
    pub fn at_line(mut self, line: InputLine) -> Self {
        self.0.line.get_or_insert(line);
        self
    }
    /// Adds the place within what the input line names: a record of a file.
    pub fn in_place(mut self, place: impl Into<String>) -> Self {
        self.0.place.get_or_insert(place.into());
        self
    }
    /// Adds the table (its URL or path), unless one is named already.
    pub fn at_table(mut self, table: impl Into<String>) -> Self {
        self.0.table.get_or_insert(table.into());
        self
    }
    /// Adds the table version, unless one is named already.
    pub fn at_version(mut self, version: u64) -> Self {
        self.0.version.get_or_insert(version);
        self
    }
    /// Adds how things stand: what is committed and what is left out.
    pub fn standing(mut self, standing: impl Into<String>) -> Self {
        self.0.standing = Some(standing.into());
        self
    }

    /// Adds how things stand, unless that is said already by who knew it better.
    pub fn standing_unless_set(mut self, standing: impl Into<String>) -> Self {
        self.0.standing.get_or_insert(standing.into());
        self
    }

    /// Says that running the same command again may store rows twice: the exit code is 1 then, never 75.
    pub fn repeat_may_double(mut self) -> Self {
        self.0.repeat_may_double = true;
        self
    }

    /// Says that any other request to the store would fail alike: the cause is not the right or the object that was asked for.
    pub fn for_every_request(mut self) -> Self {
        self.0.is_for_every_request = true;
        self
    }

    /// Whether any other request to the store would fail alike.
    pub fn is_for_every_request(&self) -> bool {
        self.0.is_for_every_request
    }

    /// Returns what has to be done about the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// Returns the message alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// Returns the hint, if there is one.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    /// Returns the stream, if one is named.
    pub fn stream(&self) -> Option<&str> {
        self.0.stream.as_deref()
    }
    /// Returns the field path, if one is named.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }
    /// Returns the input line, if one is named.
    pub fn line(&self) -> Option<InputLine> {
        self.0.line
    }
    /// Returns the table version, if one is named.
    pub fn version(&self) -> Option<u64> {
        self.0.version
    }
    /// Returns the causes, the nearest first, each one line.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut cause = self.0.source.as_deref().map(|source| source as &dyn std::error::Error);
        while let Some(source) = cause {
            // An engine's error text may carry a backtrace after its first line.
            causes.push(source.to_string().lines().next().unwrap_or_default().to_owned());
            cause = source.source();
        }
        causes
    }

    /// Returns the exit code of a process that ends with this error: 2 usage or config, 75 run again, 128 + signal, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.kind {
            ErrorKind::Usage | ErrorKind::Config => 2,
            ErrorKind::Conflict | ErrorKind::Unavailable if !self.0.repeat_may_double => 75,
            ErrorKind::Signal(number) => u8::try_from(128 + number).unwrap_or(1),
            _ => 1,
        }
    }

    /// Returns the lines that a user sees: what and where, how things stand, what to do.
    pub fn render(&self) -> String {
        let inner = &*self.0;
        let mut text = format!("error: {}", self.headline());
        match (inner.line, &inner.place) {
            (Some(line), Some(place)) => text += &format!("   (input line {line}, {place})"),
            (Some(line), None) => text += &format!("   (input line {line})"),
            (None, Some(place)) => text += &format!("   ({place})"),
            (None, None) => {}
        }
        for cause in self.causes() {
            text += &format!("\n  caused by: {cause}");
        }
        match (&inner.table, &inner.standing) {
            (Some(table), Some(standing)) => text += &format!("\n  table: {table}; {standing}"),
            (Some(table), None) => match inner.version {
                Some(version) => text += &format!("\n  table: {table}, version {version}"),
                None => text += &format!("\n  table: {table}"),
            },
            (None, Some(standing)) => text += &format!("\n  state: {standing}"),
            (None, None) => {}
        }
        if let Some(hint) = &inner.hint {
            text += &format!("\n  hint:  {hint}");
        }
        if inner.kind == ErrorKind::Internal && inner.hint.is_none() {
            text += "\n  hint:  this is a defect of delta-load; please report it with the lines above";
        }
        text
    }

    fn headline(&self) -> String {
        let inner = &*self.0;
        match (&inner.field, &inner.stream) {
            (Some(field), Some(stream)) => format!("field `{field}` of stream `{stream}` {}", inner.message),
            (Some(field), None) => format!("field `{field}` {}", inner.message),
            (None, Some(stream)) => format!("stream `{stream}`: {}", inner.message),
            (None, None) => inner.message.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_how_things_stand_and_what_to_do() {
        let error = Error::input("is \"12,5\", which is not a decimal(10,2)")
            .in_field("amount")
            .in_stream("orders")
            .at_line(InputLine(1042))
            .at_table("s3://lake/orders")
            .standing("last committed version 17, up to the STATE of line 1000; later rows were left out")
            .hint("correct the tap");
        assert_eq!(
            error.render(),
            "error: field `amount` of stream `orders` is \"12,5\", which is not a decimal(10,2)   (input line 1042)\n  \
             table: s3://lake/orders; last committed version 17, up to the STATE of line 1000; later rows were left out\n  \
             hint:  correct the tap"
        );
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn a_field_path_is_built_from_the_inside_out() {
        let error = Error::input("is bad").in_field("[3]").in_field("tags").in_field("user");
        assert_eq!(error.field(), Some("user.tags[3]"));
    }
}
