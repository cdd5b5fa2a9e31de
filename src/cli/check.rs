//! `delta-load check [--config FILE…] [URL]`: tries a store.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::config::{self, Environment};
use crate::inspect::{self, Policy};
use crate::seam::Seam;
use crate::{Error, Result};

/// The flags of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Root of tables, or a table; without it the `destination` of the config
    #[arg(value_name = "URL")]
    pub url: Option<String>,

    /// JSON file with settings, or ENV for those of the environment; the later wins
    #[arg(long = "config", value_name = "FILE")]
    pub configs: Vec<String>,

    /// Form of the answer
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub format: Format,

    /// Print the S3 bucket policy that denies commits without put-if-absent, and try nothing
    #[arg(long, conflicts_with = "format")]
    pub print_policy: bool,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Where the region of a bucket may be set, the first wins.
const REGION_OPTIONS: [&str; 5] = ["aws_region", "region", "region_name", "aws_default_region", "default_region"];
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Checks the store, or prints the policy. The exit code is 1 when something has to be mended.
pub(super) fn run(arguments: &CheckArguments, seam: &Seam) -> Result<ExitCode> {
    let environment = Environment::of_process()?;
    let plan = match &arguments.url {
        Some(url) => config::plan_at(url, &arguments.configs, &environment)?,
        None if arguments.configs.is_empty() => {
            return Err(Error::usage("there is nothing to check: neither a URL nor a config was given")
                .hint("name the place, `delta-load check s3://bucket/lake`, or a config with a `destination`, `--config FILE`"));
        }
        None => config::plan(&arguments.configs, &environment)?,
    };
    for notice in &plan.notices {
        tracing::info!("{notice}");
    }
    if arguments.print_policy {
        let of_options = REGION_OPTIONS.iter().find_map(|name| plan.store.storage_options.get(*name).map(String::as_str));
        let region = of_options.or_else(|| REGION_VARIABLES.iter().find_map(|name| environment.variable(name)));
        return match inspect::policy(&plan.destination, region)? {
            Policy::Bucket(policy) => Ok(super::print(&format!("{policy:#}\n"))),
            // Not on stdout: what reads the policy there would take it for one.
            Policy::None(text) => {
                let _ = writeln!(std::io::stderr(), "{text}");
                Ok(ExitCode::SUCCESS)
            }
        };
    }
    let check = inspect::check(&plan.destination, &plan.store, seam)?;
    let is_coloured = std::io::stdout().is_terminal() && environment.variable("NO_COLOR").is_none();
    let text = match arguments.format {
        Format::Text => check.render(is_coloured),
        Format::Json => format!("{:#}\n", check.to_json()),
    };
    let printed = super::print(&text);
    Ok(if check.has_failed() { ExitCode::FAILURE } else { printed })
}
