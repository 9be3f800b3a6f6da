//! Prefetches memory, so that latencies overlap.
//!
//! A prefetch requests memory without waiting for it. A read would have the same effect, but the processor executes only
//! a few dozen reads ahead of the oldest one that still waits for memory.

mod prefetch;

pub use prefetch::{prefetch, prefetch_bytes, prefetch_payloads, prefetch_starts, prefetch_value};
