//! The atomics of the protocols between processes. `tests/loom.rs` includes the protocols with loom's atomics instead.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
