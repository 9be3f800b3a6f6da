//! Runs: a run pulls from an agent's plan until it has completed its steps, with evaluations, reports and checkpoints
//! in between.
//!
//! A run without actors resumes bit for bit: a checkpoint contains the state of every part
//! ([`Saveable`](crate::Saveable)), and an uninterrupted run also continues from each state that it writes
//! (`train.rs`). `docs/agents.md` ("Checkpoints") describes the conditions.

mod advancing;
mod beginning;
mod checkpoints;
mod counters;
mod on_server;
mod opening;
mod options;
mod pace;
mod schedule;
mod session;
mod train;
mod warm_start;
mod warnings;

pub use checkpoints::Checkpoints;
pub use counters::Summary;
pub use options::{Begun, Evaluation, Processes, RunOptions, Watch};
pub use session::Trained;
pub use train::{check, train};

pub use crate::logging::{EpisodeReport, LearnerReport, Report};
pub use crate::plan::{AfterBatch, Evaluated, Hooks, LearnerInput};
pub use crate::stop::Stop;
pub use crate::watching::{Graph, look};
