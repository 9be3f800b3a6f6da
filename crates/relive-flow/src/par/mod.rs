//! Streams that are made side by side.

mod create;
mod failure;
mod gather;
mod parflow;
mod runner;
mod worker;

pub use failure::OnFailure;
pub use gather::{Async, Resubmit};
pub use parflow::{ParFlow, Shard};
pub use runner::Executor;
pub(crate) use runner::ShardFlow;
pub(crate) use worker::Worker;
