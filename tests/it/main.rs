//! The command and the pipeline from outside, on real directories, and the rules of the house that no compiler checks. No network.

// All of this crate is tests, helpers included: a panic is how they fail, a printed seed is how they are run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod arguments;
mod bucket;
mod chains;
mod check;
mod command;
mod crash;
mod disk;
mod load;
mod loopback;
mod messages;
mod one_kernel;
mod overwrite;
mod process;
mod readback;
mod rooms;
mod secrets;
mod sources;
mod store;
mod table;
mod unknown;

// Where the S3 endpoint of the unit tests looks for it.
use delta_load::seam;
