//! What the user wrote → what a load is to do.
//!
//! Guarantee: every setting is known, of its type and supported, or the load does not start; all errors of a config come at once,
//! each with what was meant, and no value of a secret is shown. Were that lost, a mistyped setting would be ignored in silence and
//! the tables would differ from what their owner asked for.

mod about;
mod nearest;
mod plan;
mod settings;
mod sources;
mod storage_options;
mod streams;
mod table;
mod value;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use about::{AboutFormat, CAPABILITIES, DESCRIPTION, about};
pub use settings::{Kind, Scope, Setting, Support};
pub use table::SETTINGS;

use crate::load::Plan;
use crate::{Error, Result};

/// What a process is started in, as far as settings depend on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Environment {
    /// The environment variables. Those that are not UTF-8 are left out: no setting can come from them.
    pub variables: BTreeMap<String, String>,
    /// Where relative paths begin, and where `.env` is.
    pub working_directory: PathBuf,
}

impl Environment {
    /// Returns the environment of this process.
    ///
    /// **Errors**: `Usage` when the working directory is gone.
    pub fn of_process() -> Result<Self> {
        let working_directory =
            std::env::current_dir().map_err(|error| Error::usage("the working directory cannot be read").source(error))?;
        let text =
            |(name, value): (std::ffi::OsString, std::ffi::OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Ok(Self { variables: std::env::vars_os().filter_map(text).collect(), working_directory })
    }

    /// Returns a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Returns the plan that `sources` describe: paths of JSON files, or the literal `ENV`. Later files win, key by key; the environment
/// wins over all files.
///
/// **Errors**: `Config`, one for all that is wrong.
pub fn plan(sources: &[String], environment: &Environment) -> Result<Plan> {
    let mut problems = Problems::default();
    let settings = sources::read(sources, environment, &mut problems)?;
    finish(settings, environment, problems)
}

/// Like [`plan`], for `destination` in the place of the one that the sources name.
///
/// **Errors**: `Config`, one for all that is wrong.
pub fn plan_at(destination: &str, sources: &[String], environment: &Environment) -> Result<Plan> {
    let mut problems = Problems::default();
    let mut settings = sources::read(sources, environment, &mut problems)?;
    settings.insert("destination".to_owned(), destination.into());
    finish(settings, environment, problems)
}

fn finish(
    settings: serde_json::Map<String, serde_json::Value>,
    environment: &Environment,
    mut problems: Problems,
) -> Result<Plan> {
    let plan = plan::build(settings, environment, &mut problems);
    problems.into_result()?;
    plan.ok_or_else(|| Error::internal("a config without an error gave no plan"))
}

/// What is wrong with a config, collected so that all of it is told at once; and what is worth a notice.
#[derive(Debug, Default)]
struct Problems {
    errors: Vec<String>,
    hints: Vec<String>,
    notices: Vec<String>,
}

impl Problems {
    fn add(&mut self, error: impl Into<String>) {
        let error = error.into();
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn notice(&mut self, notice: impl Into<String>) {
        let notice = notice.into();
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    fn into_result(self) -> Result<()> {
        let error = match self.errors.as_slice() {
            [] => return Ok(()),
            [only] => Error::config(only),
            several => Error::config(format!("the config has {} errors\n  - {}", several.len(), several.join("\n  - "))),
        };
        Err(match self.hints.first() {
            Some(hint) => error.hint(hint),
            None => error.hint("`delta-load --about` lists all settings"),
        })
    }
}

#[cfg(test)]
mod tests;
