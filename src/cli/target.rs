//! `delta-load --config FILE… < messages`: the Singer target.

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::{self, AboutFormat, Environment};
use crate::load;
use crate::report::Reporter;
use crate::seam::Seam;
use crate::{Error, Result};

/// The flags of the target.
#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// JSON file with settings, or ENV for those of the environment; the later wins
    #[arg(long = "config", value_name = "FILE")]
    pub configs: Vec<String>,

    /// Read messages from FILE instead of standard input
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Show name, version, capabilities and settings
    #[arg(long)]
    pub about: bool,

    /// Form of --about
    #[arg(long, value_enum, requires = "about", value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
    Markdown,
}

impl TargetArguments {
    /// Returns the form in which `--about` is asked for, if it is.
    pub fn about_format(&self) -> Option<AboutFormat> {
        self.about.then_some(match self.format {
            None | Some(Format::Text) => AboutFormat::Text,
            Some(Format::Json) => AboutFormat::Json,
            Some(Format::Markdown) => AboutFormat::Markdown,
        })
    }
}

/// Loads the messages.
pub(super) fn load(arguments: &TargetArguments, seam: &Seam) -> Result<()> {
    let plan = config::plan(&arguments.configs, &Environment::of_process()?)?;
    let input: Box<dyn Read + Send> = match &arguments.input {
        None => Box::new(std::io::stdin()),
        Some(path) => Box::new(
            std::fs::File::open(path)
                .map_err(|error| Error::usage(format!("the input file `{}` cannot be opened", path.display())).source(error))?,
        ),
    };
    let reporter = Reporter::new(seam.clone());
    for notice in &plan.notices {
        reporter.notice(None, notice);
    }
    let result = load::run(plan, input, Box::new(std::io::stdout()), &reporter, seam);
    let summary = reporter.finish();
    reporter.show(&summary);
    result
}
