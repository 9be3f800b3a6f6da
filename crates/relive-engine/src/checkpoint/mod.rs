//! Checkpoints in the background: one at a time, for whoever asks, by the clock, and when the tables are closed.

mod clock;
mod pending;
mod plan;
mod priority;
mod requests;
mod run;
mod turns;

pub use pending::PendingCheckpoint;
pub(crate) use plan::{Checkpoints, Plan};
