//! Copying small items out of a table; see [`CopiedSamples`].

use std::sync::Arc;

use relive_tensor::ColumnLayout;

use super::handle::TableHandle;
use crate::limits::MAX_COPIED_BYTES;
use crate::table::{Change, CopiedSamples};

impl TableHandle {
    /// What the columns of items look like that [`sample_rows`](Self::sample_rows) may copy; none where there are no
    /// such.
    #[must_use]
    pub fn row_columns(&self) -> Option<Arc<[ColumnLayout]>> {
        self.only().filter(|_| self.disk_tier().is_none())?.read(|state| state.table.row_columns().cloned())
    }

    /// Samples `count` items of these columns and copies each column to its place, one sample behind the other, if that
    /// can be done at once: nobody waits before, the rate limiter allows them all, and the table knows all of them to
    /// be of those columns.
    ///
    /// Whoever gets items, or none, asks for the rest by [`sample`](Self::sample). Tables in shards, with a disk tier,
    /// with extensions, or whose items are deleted by being sampled, copy nothing; nor is more than
    /// [`MAX_COPIED_BYTES`](crate::limits::MAX_COPIED_BYTES) copied at once.
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
