//! Native environments: their conformance, their exact numbers and their wrappers.

mod bsuite;
mod bsuite_scores;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod common;
mod conformance;
mod conformance_of_faults;
mod gymnasium;
mod numpy;
mod vector;
mod wrappers;
