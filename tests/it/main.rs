//! The command and the pipeline from outside, on real directories, and the rules of the house that no compiler checks. No network.

// All of this crate is tests, helpers included: a panic is how they fail, a printed seed is how they are run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod arguments;
mod command;
mod crash;
mod disk;
mod load;
mod messages;
mod one_kernel;
mod process;
mod readback;
mod rooms;
mod sources;
mod table;
