//! Inspects checkpoints in Relive's format; the types of results serve both formats.

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
