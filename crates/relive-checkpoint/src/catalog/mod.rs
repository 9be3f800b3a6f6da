//! Looking at checkpoints of our own format, and what is told of either.

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
