//! What `check` tells about a store and the tables in it. Nothing here changes a table.
//!
//! Guarantee: what is told was tried, on the store itself, and everything that was written for it is deleted again or named. Were that
//! lost, a store that loses commits would be taken for a good one, or a check would litter the lake that it looks at.

mod check;
mod policy;

pub use check::{Check, Row, Verdict, check};
pub use policy::{Policy, policy};
