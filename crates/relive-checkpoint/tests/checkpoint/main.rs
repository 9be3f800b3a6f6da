//! Tests checkpoints of both formats on disk.

mod catalog;
mod corpus;
mod damage;
mod golden;
mod own_golden;
#[cfg(target_os = "linux")]
mod replaced;
mod roundtrip;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod support;
mod tier;
