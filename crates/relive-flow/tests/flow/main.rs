//! Flows against what `ray.util.iter` 2.60 gives for the same programs, against plain iterators, and when things go
//! wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod checkpoint;
mod faults;
mod golden;
mod inside;
mod metrics;
mod plain;
mod repartition;
mod skew;
mod standstill;
mod threads;
