//! The atomics of the protocols between processes. `tests/loom.rs` includes the protocols with loom's in their place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
