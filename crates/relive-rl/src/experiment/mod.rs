//! Runs of an agent in an environment.

mod local;
mod options;
mod pacing;
mod run;
mod summary;
mod threads;

pub use options::{MakeEnvironment, RunOptions};
pub use run::train;
pub use summary::{EpisodeReport, Summary};
