//! The command and the pipeline from outside, on real directories.
// All of this crate is tests, helpers included: a panic is how they fail, a printed seed is how they are run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod crash;
mod load;
mod process;
mod table;
