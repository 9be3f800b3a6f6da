//! Tests of all launchers. Written jobs are run as their cluster manager would run them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod contract;
mod engines;
mod members;
