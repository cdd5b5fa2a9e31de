//! The `source` room.
