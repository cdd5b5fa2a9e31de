//! The store suite: every rule of a store and of the commit loop, against memory, local disk and the failing wrapper.

mod fixture;
mod local;
mod objects;
mod publish;
mod put;
mod races;

/// Makes each function of a suite a test of its own for every kind of store.
macro_rules! for_every_store {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::memory()); })*
        }
        mod local {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::local()); })*
        }
        mod faulty {
            $(#[test] fn $name() { super::$name(&crate::store::tests::fixture::Fixture::faulty()); })*
        }
    };
}
pub(super) use for_every_store;
