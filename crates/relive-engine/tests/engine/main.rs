//! Tests the engine as callers see it.

mod background;
mod checkpoint;
mod cold;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod common;
mod engine;
mod memory;
mod operate;
mod shard_model;
mod shards;
mod waiting;
