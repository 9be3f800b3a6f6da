//! Small items, whose columns are copied out of a table in one operation.

use std::sync::Arc;

use relive_table::{Sampled, SampledRow};
use relive_tensor::ColumnLayout;

use super::change::Change;
use super::state::State;

/// The result of an attempt to copy samples.
#[derive(Debug)]
pub enum CopiedSamples {
    /// The columns were copied to their destinations.
    Rows(Vec<SampledRow>),
    /// Nothing was copied, but these samples were taken (often none).
    Items(Vec<Sampled>),
}

impl Change<'_> {
    pub(crate) fn sample_rows(
        &mut self,
        columns: &Arc<[ColumnLayout]>,
        count: usize,
        places: &mut [&mut [u8]],
    ) -> CopiedSamples {
        let mut others = Vec::new();
        if !self.state.samples.is_empty() || self.check_open().is_err() {
            return CopiedSamples::Items(others);
        }
        let State { table, rng, rate_limited, .. } = &mut *self.state;
        let rows = table.sample_rows(columns, count, places, rng, &mut others);
        *rate_limited = false;
        if rows.is_empty() { CopiedSamples::Items(others) } else { CopiedSamples::Rows(rows) }
    }
}
