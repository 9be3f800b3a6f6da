//! Streams that are made side by side.

mod create;
mod gather;
mod parflow;
mod runner;
mod worker;

pub use gather::{Async, Resubmit};
pub use parflow::{ParFlow, Shard};
pub(crate) use runner::ShardFlow;
pub use runner::{Executor, OnFailure};
pub(crate) use worker::Worker;
