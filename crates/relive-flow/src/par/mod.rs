//! Parallel streams.

mod create;
mod executor;
mod gather;
mod parflow;
mod repartition;
mod runner;
mod shard;
mod shards;
mod worker;

pub use executor::{Around, Executor, OnFailure};
pub use gather::{Async, Resubmit};
pub use parflow::ParFlow;
pub use shard::Shard;
pub(crate) use shard::ShardFlow;
pub(crate) use worker::Worker;
