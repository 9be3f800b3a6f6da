//! Streams that are made side by side.

mod create;
mod crew;
mod gather;
mod parflow;
mod repartition;
mod runner;
mod worker;

pub(crate) use crew::Taken;
pub use gather::{Async, Resubmit};
pub use parflow::{Around, ParFlow, Shard};
pub(crate) use runner::ShardFlow;
pub use runner::{Executor, OnFailure};
pub(crate) use worker::Worker;
