//! Updates priorities in a table, and deletes items.

use smallvec::SmallVec;

use super::request::Mutation;
use super::table_core::TableCore;
use crate::error::EngineError;

/// The maximum number of mutations while the lock is held once. A learner's batch usually has no more.
pub(crate) const MUTATIONS_PER_LOCK: usize = 1_024;

/// The number of mutations that can be prepared without an allocation before the lock is taken.
const FEW_MUTATIONS: usize = 16;

impl TableCore {
    /// See [`TableHandle::mutate`](crate::TableHandle::mutate).
    pub(crate) fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        let mut mutations = mutations.into_iter().peekable();
        let mut stage: SmallVec<[Mutation; FEW_MUTATIONS]> = SmallVec::new();
        loop {
            // The caller's iterator must not run under the lock.
            stage.extend(mutations.by_ref().take(MUTATIONS_PER_LOCK));
            self.mutate_at_once(stage.drain(..))?;
            if mutations.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// Like [`mutate`](Self::mutate), but for a few mutations that are ready, all under one lock.
    pub(crate) fn mutate_at_once(
        &self,
        mutations: impl Iterator<Item = Mutation>,
    ) -> Result<(), EngineError> {
        self.change(|change| {
            change.check_open()?;
            change.mutate(mutations)
        })
    }
}
