//! The command line: arguments in, exit code out.
//!
//! Guarantee: an error is shown once, on stderr, in its three parts, and the exit code follows from its kind; stdout holds STATE and
//! nothing else while a load runs. Were that lost, an orchestrator would go on from a STATE that is none.

mod check;
mod target;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind as ClapErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::config;
use crate::report::{self, LogSettings};
use crate::seam;
use crate::{Error, Result};
use check::CheckArguments;
use target::TargetArguments;

/// Loads a stream of Singer messages into Delta Lake tables.
#[derive(Debug, Parser)]
#[command(name = "delta-load", version, about = config::DESCRIPTION)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, after_help = WITHOUT_COMMAND)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    target: TargetArguments,
}

/// What the bare command does, as the end of its help.
const WITHOUT_COMMAND: &str =
    "Without a command it is a Singer target: messages on standard input, tables in the lake, STATE on standard output.";

/// Everything but the target.
#[derive(Debug, Subcommand)]
enum Command {
    /// Try on a store everything that a load needs, and tell what came back
    Check(CheckArguments),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    run(std::env::args_os().collect())
}

fn run(arguments: Vec<std::ffi::OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return clap_answer(&error),
    };
    let seam = seam::real();
    report::init(&LogSettings::from_environment(&|name| std::env::var(name).ok()), seam.clone());
    match arguments.command {
        None => run_target(&arguments.target, &seam),
        Some(Command::Check(arguments)) => ended(check::run(&arguments, &seam)),
    }
}

fn run_target(arguments: &TargetArguments, seam: &seam::Seam) -> ExitCode {
    if let Some(format) = arguments.about_format() {
        return print(&config::about(format));
    }
    if arguments.input.is_none() && std::io::stdin().is_terminal() {
        // Nobody sends anything: more likely a first try than a load.
        let help = Arguments::command().render_help();
        let _ = writeln!(std::io::stderr(), "{help}");
        return ExitCode::from(2);
    }
    ended(target::load(arguments, seam).map(|()| ExitCode::SUCCESS))
}

/// Shows the error that a command ended with, if it did.
fn ended(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        report::show_error(&error);
        ExitCode::from(error.exit_code())
    })
}

/// Shows what clap answers: help and version on stdout with 0, a wrong use on stderr with 2.
fn clap_answer(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    match error.kind() {
        ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

/// Writes an answer to stdout; a reader that has gone away is its own business.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            report::show_error(&Error::denied("stdout cannot be written").source(error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
