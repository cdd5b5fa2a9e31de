//! The command and the pipeline from outside, on real directories.

mod crash;
mod load;
mod process;
mod table;
