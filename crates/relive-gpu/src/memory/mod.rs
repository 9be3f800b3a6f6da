//! Shared memory: its layout, its owners, and waits for changes to it.

pub(crate) mod claims;
pub(crate) mod files;
pub(crate) mod futex;
pub(crate) mod header;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod segment;

pub use layout::Tier;
