//! The store suite: every rule of a store and of the commit loop, against memory, local disk, S3, Azure and Google Cloud Storage (with
//! and without faults of the network) and the failing wrapper.

mod azure;
mod fixture;
mod gcs;
mod gcs_credentials;
mod local;
mod objects;
mod pace;
mod publish;
mod put;
mod races;
mod s3;

/// Makes each function of a suite a test of its own for every kind of store.
macro_rules! for_every_store {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::memory()); })*
        }
        mod local {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::local()); })*
        }
        mod s3 {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::s3()); })*
        }
        mod s3_with_faults {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::s3_with_faults()); })*
        }
        mod azure {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::azure()); })*
        }
        mod azure_with_faults {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::azure_with_faults()); })*
        }
        mod gcs {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::gcs()); })*
        }
        mod gcs_with_faults {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::gcs_with_faults()); })*
        }
        mod faulty {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::faulty()); })*
        }
    };
}
pub(super) use for_every_store;
