//! Inspection of checkpoints in Relive's format, and the results for both formats.

mod handle;
mod info;
mod inspect;
mod prune;
mod verify;

pub use handle::Catalog;
pub use info::{CheckpointInfo, CheckpointSummary, TableSummary};
pub use inspect::{Inspection, TableInspection};
pub use prune::Pruned;
pub use verify::Report;
