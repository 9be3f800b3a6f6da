//! Small items, copied out of a table at once.

use relive_table::{Sampled, SampledRow};
use relive_tensor::PlainLayout;

use crate::TableHandle;
use crate::change::Change;
use crate::limits::MAX_COPIED_BYTES;
use crate::state::State;

/// What came of an attempt to copy samples.
#[derive(Debug)]
pub enum CopiedSamples {
    /// Their bytes lie where they were wanted.
    Rows(Vec<SampledRow>),
    /// Nothing was copied, but these samples were taken; often none.
    Items(Vec<Sampled>),
}

impl TableHandle {
    /// Samples as many items of `layout` as `bytes` has room for, and copies them there one behind the other, if that can be done at once: nobody
    /// waits before, the rate limiter allows them all, and the table knows all of them to be of that layout.
    ///
    /// Whoever gets items, or none, asks for the rest by [`sample`](Self::sample). Tables in shards, with a disk tier, with extensions, or
    /// whose items are deleted by being sampled, copy nothing; nor is more than [`MAX_COPIED_BYTES`](crate::limits::MAX_COPIED_BYTES) copied at once.
    pub fn sample_rows(&self, layout: &PlainLayout, bytes: &mut [u8]) -> CopiedSamples {
        let nothing = CopiedSamples::Items(Vec::new());
        if bytes.len() > MAX_COPIED_BYTES || self.cold().is_some() {
            return nothing;
        }
        self.only().map_or(nothing, |core| core.change(|change| change.sample_rows(layout, bytes)))
    }
}

impl Change<'_> {
    fn sample_rows(&mut self, layout: &PlainLayout, bytes: &mut [u8]) -> CopiedSamples {
        let mut others = Vec::new();
        if !self.state.samples.is_empty() || self.check_open().is_err() {
            return CopiedSamples::Items(others);
        }
        let State { table, rng, rate_limited, .. } = &mut *self.state;
        let rows = table.sample_rows(layout, bytes, rng, &mut others);
        *rate_limited = false;
        if rows.is_empty() { CopiedSamples::Items(others) } else { CopiedSamples::Rows(rows) }
    }
}
