//! Removes old checkpoints.

use crate::Error;
use crate::names;
use crate::native::{Collected, Listing};
use crate::storage::Storage;

/// The result of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The paths or URLs of the removed checkpoints.
    pub checkpoints: Vec<String>,
    /// The number of removed segments.
    pub segments: usize,
    /// Removed bytes.
    pub bytes: u64,
}

pub(super) fn prune(storage: &dyn Storage, keep: usize) -> Result<Pruned, Error> {
    let _lock = storage.lock()?;
    let Collected { checkpoints, segments, bytes } = Listing::read(storage)?.collect(storage, keep)?;
    let checkpoints = checkpoints.into_iter().map(|number| storage.describe(&names::checkpoint_name(number)));
    Ok(Pruned { checkpoints: checkpoints.collect(), segments, bytes })
}
