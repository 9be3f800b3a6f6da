//! Batches of small items, which a table in this process copies.

use std::sync::Arc;

use relive_batch::{Gathered, GatheredColumn, Pool};
use relive_engine::limits::MAX_COPIED_BYTES;
use relive_engine::{CopiedSamples, TableHandle};
use relive_table::{MAX_ROWS_AT_ONCE, Sampled};
use relive_tensor::ColumnLayout;
use smallvec::SmallVec;

use crate::samples::SampleBatch;

/// The layout of copied items, which is the layout of the newest item when the table was last checked.
pub(crate) struct Rows {
    table: Arc<str>,
    batch_size: usize,
    pool: Arc<Pool>,
    expected: Option<Expected>,
}

struct Expected {
    layouts: Arc<[ColumnLayout]>,
    columns: Arc<[GatheredColumn]>,
    bytes: usize,
}

impl Rows {
    pub(crate) fn new(table: Arc<str>, batch_size: usize) -> Rows {
        Rows { table, batch_size, pool: Arc::default(), expected: None }
    }

    /// Determines the layout of the items.
    pub(crate) fn learn(&mut self, table: &TableHandle) {
        let known = table.row_columns().and_then(|layouts| {
            let (columns, bytes) = Gathered::place(&layouts, self.batch_size)?;
            Some(Expected { layouts, columns, bytes })
        });
        let fits =
            |expected: &Expected| expected.bytes <= MAX_COPIED_BYTES && self.batch_size <= MAX_ROWS_AT_ONCE;
        self.expected = known.filter(fits);
    }

    /// Returns a batch if the table can copy one immediately. Otherwise, returns the samples that the table has taken,
    /// if any.
    pub(crate) fn copy(&mut self, table: &TableHandle) -> Result<SampleBatch, Vec<Sampled>> {
        let Some(Expected { layouts, columns, bytes }) = &self.expected else { return Err(Vec::new()) };
        let Ok(mut memory) = self.pool.take(*bytes) else { return Err(Vec::new()) };
        let mut places: SmallVec<[&mut [u8]; 8]> = SmallVec::with_capacity(columns.len());
        let (mut rest, mut passed) = (memory.bytes_mut(), 0);
        for GatheredColumn { at, .. } in columns.iter() {
            let (_, after) = rest.split_at_mut(at.start - passed);
            let (place, after) = after.split_at_mut(at.len());
            places.push(place);
            (rest, passed) = (after, at.end);
        }
        let copied = table.sample_rows(layouts, self.batch_size, &mut places);
        drop(places);
        match copied {
            CopiedSamples::Rows(rows) => {
                let infos = rows.iter().map(Into::into).collect();
                let inserted_at = rows.iter().map(|row| row.inserted_at).collect();
                let batch =
                    Gathered::new(Arc::clone(&self.table), infos, inserted_at, Arc::clone(columns), memory);
                Ok(SampleBatch::gathered(batch))
            }
            CopiedSamples::Items(items) => Err(items),
        }
    }
}
