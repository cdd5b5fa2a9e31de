//! The pipeline: from input to committed tables and the STATE that may leave.

mod plan;

pub use plan::*;
