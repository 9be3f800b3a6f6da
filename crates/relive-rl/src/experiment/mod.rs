//! Runs of an agent in an environment.

mod evaluator;
pub(crate) mod identity;
mod leaving;
pub(crate) mod local;
mod options;
mod pacing;
pub(crate) mod parts;
mod progress;
mod report;
mod run;
pub(crate) mod saved;
mod stop;
mod summary;
pub(crate) mod tally;
pub(crate) mod threads;

pub(crate) use options::is_due;
pub use options::{Checkpoints, Evaluation, MakeEnvironment, RunOptions, Watch};
pub use report::{EpisodeReport, LearnerReport, Report};
pub use run::{Trained, train};
pub use stop::Stop;
pub use summary::Summary;
