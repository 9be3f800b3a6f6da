//! Copies small items out of a table; see [`CopiedSamples`].

use std::sync::Arc;

use relive_tensor::ColumnLayout;

use super::handle::TableHandle;
use crate::limits::MAX_COPIED_BYTES;
use crate::table::{Change, CopiedSamples};

impl TableHandle {
    /// Returns the layouts of the columns that [`sample_rows`](Self::sample_rows) may copy, or `None` if it cannot copy
    /// items of this table.
    #[must_use]
    pub fn row_columns(&self) -> Option<Arc<[ColumnLayout]>> {
        self.only().filter(|_| self.disk_tier().is_none())?.read(|state| state.table.row_columns().cloned())
    }

    /// Samples `count` items with the given columns and copies each column to its destination, sample by sample. Does
    /// so only if it can finish immediately: no request is waiting, the rate limiter allows all samples, and all
    /// sampled items are known to have those columns.
    ///
    /// If the result contains fewer items, or none, call [`sample`](Self::sample) for the rest. Nothing is copied from
    /// a table that is in shards, has a disk tier or extensions, or removes items when they are sampled. A call copies
    /// at most [`MAX_COPIED_BYTES`](crate::limits::MAX_COPIED_BYTES).
    pub fn sample_rows(
        &self,
        columns: &Arc<[ColumnLayout]>,
        count: usize,
        places: &mut [&mut [u8]],
    ) -> CopiedSamples {
        let nothing = CopiedSamples::Items(Vec::new());
        let bytes: usize = places.iter().map(|place| place.len()).sum();
        if bytes > MAX_COPIED_BYTES || self.disk_tier().is_some() {
            return nothing;
        }
        let copied = |change: &mut Change<'_>| change.sample_rows(columns, count, places);
        self.only().map_or(nothing, |core| core.change(copied))
    }
}
