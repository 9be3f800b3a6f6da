//! Looking at checkpoints of our own format: listing, verifying, inspecting, removing old ones.

mod detect;
mod handle;
mod info;
mod inspect;
mod prune;
mod verify;

pub use detect::{Format, detect};
pub use handle::Catalog;
pub use info::{CheckpointInfo, CheckpointSummary, TableSummary};
pub use inspect::{Inspection, TableInspection};
pub use prune::Pruned;
pub use verify::Report;
