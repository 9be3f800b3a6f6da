//! What every launcher does with a job. What is only written is run as its engine would run it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod contract;
mod engines;
mod members;
