//! The `singer` room.
