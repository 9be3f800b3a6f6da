//! Runs: an agent's plan, pulled at until there were steps enough, with evaluations, reports and checkpoints on the
//! way.

mod advancing;
mod beginning;
mod checkpoints;
mod counters;
mod on_server;
mod opening;
mod options;
mod pace;
mod session;
mod train;

pub use checkpoints::Checkpoints;
pub use counters::Summary;
pub use options::{Begun, Evaluation, Processes, RunOptions, Watch};
pub use session::Trained;
pub use train::{check, train};

pub use crate::logging::{EpisodeReport, LearnerReport, Report};
pub use crate::plan::{AfterBatch, Hooks, Seen};
pub use crate::stop::Stop;
pub use crate::watching::{Graph, look};
