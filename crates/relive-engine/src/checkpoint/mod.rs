//! Checkpoints in the background: who shares which, what one has come to, and when the next is due.

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
