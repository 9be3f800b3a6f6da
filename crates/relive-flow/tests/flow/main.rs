//! Tests of flows: compared with `ray.util.iter` 2.60 and with plain iterators, and in failures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod checkpoint;
mod faults;
mod golden;
mod in_threads;
mod inside;
mod metrics;
mod plain;
mod repartition;
mod skew;
mod sources;
mod standstill;
mod threads;
mod windows;
