//! `check`: tries on a store everything that a load needs, one thing after another, and tells what came back.
//!
//! Each thing is a row of its own, so that a right that is missing is told from a store that is not there. What fails for a reason that
//! holds for every request (no such bucket, an unknown key) is told once, and the rest is left out by name.

mod report;
mod steps;
#[cfg(test)]
mod tests;

pub use report::{Check, Row, Verdict};

use std::time::Duration;

use url::Url;

use crate::seam::Seam;
use crate::store::{self, Options};
use crate::{Error, Result};
use report::Finding;
use steps::Trial;

/// How long one row may take: longer than any healthy store needs for its few requests, shorter than a person's patience.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The same for the one row that sends megabytes.
const PARTS_LIMIT: Duration = Duration::from_secs(180);

/// Clocks this far apart are worth a word: it only gets worse.
const SKEW_WARNING: Duration = Duration::from_secs(5 * 60);

/// From here on S3 refuses signed requests (`RequestTimeTooSkewed`).
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>
const SKEW_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Tries everything that a load into `destination` needs.
///
/// **Errors:** `Config` when the options are wrong, so that there is nothing to try. What the store does not do is in the answer.
pub fn check(destination: &Url, options: &Options, seam: &Seam) -> Result<Check> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("check")
        .build()
        .map_err(|error| Error::internal("the runtime cannot be started").source(error))?;
    // A store that is told that there is one writer goes without the condition: what is to be shown is whether it has it.
    let strict = Options { single_writer: false, ..options.impatient() };
    let started = seam.elapsed();
    let store = store::open(destination, &strict)?;
    let mut trial = Trial::new(store, Options { single_writer: true, ..strict }, options.single_writer, seam.clone());
    runtime.block_on(run(&mut trial, started));
    // A row that was given up may still wait for its answer.
    runtime.shutdown_background();
    Ok(trial.into_check(destination))
}

/// All rows, in their order.
async fn run(trial: &mut Trial, started: Duration) {
    let description = trial.store().describe().await;
    let place: Vec<String> = description.place.iter().map(|(name, value)| format!("{name} `{value}`")).collect();
    trial.row("configuration", started, Ok(Finding::good(place.join(", "))));

    let started = trial.now();
    trial.row("credentials", started, steps::credentials(description.credentials));

    let started = trial.now();
    let greeting = match trial.is_stopped("endpoint") {
        true => None,
        false => {
            let greeted = trial.limit(STEP_LIMIT, trial.store().greet()).await;
            let clock = greeted.as_ref().ok().map(|greeting| greeting.clock);
            // Without an answer to the simplest request there is nothing to be had from any other.
            let finding = greeted.map(|greeting| Finding::good(greeting.text)).map_err(Error::for_every_request);
            trial.row("endpoint", started, finding);
            clock
        }
    };
    if !trial.is_stopped("clock") {
        let started = trial.now();
        trial.row("clock", started, Ok(steps::clock(greeting.flatten())));
    }
    if !trial.is_stopped("list") {
        let started = trial.now();
        let found = trial.limit(STEP_LIMIT, trial.list()).await;
        trial.row("list", started, found);
    }
    if !trial.is_stopped("put") {
        let started = trial.now();
        let found = trial.limit(STEP_LIMIT, trial.put()).await;
        trial.note_put(found.is_ok());
        trial.row("put", started, found);
    }
    if !trial.is_stopped("get") {
        let started = trial.now();
        let found = trial.limit(STEP_LIMIT, trial.get()).await;
        trial.row("get", started, found);
    }
    let mut has_condition = false;
    if !trial.is_stopped("put-if-absent") {
        let started = trial.now();
        let found = trial.limit(STEP_LIMIT, trial.create_twice()).await;
        has_condition = matches!(&found, Ok(finding) if finding.is_good());
        trial.row("put-if-absent", started, found);
    }
    if !trial.is_stopped("atomic") {
        let started = trial.now();
        let found = match has_condition {
            true => trial.limit(STEP_LIMIT, trial.race()).await,
            false => Ok(Finding::not_tried("put-if-absent was not shown to work")),
        };
        trial.row("atomic", started, found);
    }
    if !trial.is_stopped("multipart") {
        let started = trial.now();
        let found = match description.part_bytes {
            Some(part_bytes) => trial.limit(PARTS_LIMIT, trial.write_parts(part_bytes)).await,
            None => Ok(Finding::good("not needed: objects of any size are written in one piece")),
        };
        trial.row("multipart", started, found);
    }
    // What was written before the check was stopped is not left there untried.
    if trial.has_written() || !trial.is_stopped("delete") {
        let started = trial.now();
        let found = trial.tidy_up().await;
        trial.row("delete", started, found);
    }
    if !trial.is_stopped("table") {
        let started = trial.now();
        let found = match trial.has_failed("list") || trial.has_failed("get") {
            true => Ok(Finding::not_tried("a log cannot be read without the rights to list and get")),
            false => trial.limit(STEP_LIMIT, trial.table()).await,
        };
        trial.row("table", started, found);
    }
}
