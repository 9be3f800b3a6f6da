//! Batches of small items that a table of this process copies.

use std::sync::Arc;

use relive_engine::limits::MAX_COPIED_BYTES;
use relive_engine::{CopiedSamples, TableHandle};
use relive_table::{MAX_ROWS_AT_ONCE, Sampled, SampledRow};
use relive_tensor::PlainLayout;

use super::SampleBatch;
use crate::SampleInfo;
use crate::bulk::{Arrived, Pool};

/// What is to be copied: items like those of the batch before.
pub(super) struct Copying {
    table: Arc<str>,
    batch_size: usize,
    pool: Arc<Pool>,
    expected: Option<(PlainLayout, usize)>,
}

impl Copying {
    pub(super) fn new(table: &str, batch_size: usize) -> Copying {
        Copying { table: table.into(), batch_size, pool: Arc::default(), expected: None }
    }

    /// Learns from a batch that came in another way what the next is likely to be.
    pub(super) fn learn(&mut self, samples: &[Sampled]) {
        let layout = samples.first().and_then(|first| Some(first.item.trajectory.plain()?.layout()));
        self.expected = layout.and_then(|layout| {
            let bytes = layout.size_bytes()?.checked_mul(self.batch_size)?;
            let is_small = bytes <= MAX_COPIED_BYTES && self.batch_size <= MAX_ROWS_AT_ONCE;
            is_small.then_some((layout, bytes))
        });
    }

    /// A batch, if the table can copy one at once. Otherwise it may have taken samples, which are given.
    pub(super) fn copy(&mut self, table: &TableHandle) -> Result<SampleBatch, Vec<Sampled>> {
        let Some((layout, bytes)) = &self.expected else { return Err(Vec::new()) };
        let mut memory = Pool::take(&self.pool, *bytes);
        match table.sample_rows(layout, memory.bytes_mut()) {
            CopiedSamples::Rows(rows) => {
                let infos = rows.iter().map(SampleInfo::from).collect();
                let batch = Arrived::copied(Arc::clone(&self.table), layout, infos, memory);
                Ok(SampleBatch::arrived(batch))
            }
            CopiedSamples::Items(items) => Err(items),
        }
    }
}

impl From<&SampledRow> for SampleInfo {
    fn from(row: &SampledRow) -> SampleInfo {
        let SampledRow { key, priority, probability, table_size, times_sampled } = *row;
        SampleInfo { key, probability, table_size, priority, times_sampled, rate_limited: false }
    }
}
