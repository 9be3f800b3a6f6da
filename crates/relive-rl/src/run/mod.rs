//! Runs: an agent's plan, pulled at until there were steps enough, with evaluations, reports and checkpoints on the way.

mod hooks;
pub(crate) mod identity;
pub(crate) mod kept;
mod on_server;
mod options;
pub(crate) mod patience;
mod report;
pub(crate) mod saved;
pub(crate) mod seeds;
mod session;
pub(crate) mod shown;
mod stop;
mod summary;
mod tally;
mod train;

pub(crate) use hooks::Looking;
pub use hooks::{AfterBatch, Hooks, Seen};
pub(crate) use options::is_due;
pub use options::{Begun, Checkpoints, Evaluation, Processes, RunOptions, Watch};
pub(crate) use report::LABELS;
pub use report::{EpisodeReport, LearnerReport, Report};
pub use session::Trained;
pub use shown::{Graph, look};
pub use stop::Stop;
pub use summary::Summary;
pub use train::{check, train};
