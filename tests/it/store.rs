//! The S3 endpoint of the unit tests, for the command as a whole.

// The names under which the endpoint knows what it needs of the crate.
pub use delta_load::store::{Options, faulty, normalise_destination};

/// An open root in the bucket of the endpoint.
pub type Remote = std::sync::Arc<dyn delta_load::store::Store>;

pub mod s3 {
    pub use delta_load::store::open;
}

// The unit tests use the rest of both.
#[allow(dead_code, unused_imports)]
#[path = "../../src/store/test_server.rs"]
pub mod test_server;

#[allow(dead_code, unused_imports)]
#[path = "../../src/store/s3_server.rs"]
pub mod s3_server;
