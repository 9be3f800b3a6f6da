//! Checkpoints in the background: sharing, results, and the schedule.

mod checkpoints;
mod clock;
mod pending;
mod priority;
mod turns;

pub(crate) use checkpoints::{CheckpointSettings, Checkpoints};
pub(crate) use pending::CheckpointOutcome;
pub use pending::PendingCheckpoint;
pub(crate) use priority::lower as lower_priority;
pub(crate) use turns::Job;
