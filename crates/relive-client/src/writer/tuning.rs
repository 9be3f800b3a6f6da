//! Feeds the tuner of chunk lengths with the items that were made.

use std::collections::VecDeque;
use std::sync::Arc;

use relive_tensor::ChunkStatistic;
use smallvec::SmallVec;

use super::recorder::Recorder;
use super::slot::ChunkSlot;
use crate::history::Column;

/// At most this many columns of items wait for their chunks to be cut; older ones are forgotten, which costs the tuner
/// a measurement and nothing else.
const MAX_WAITING: usize = 256;

/// Columns of items whose chunks are not all cut yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    waiting: VecDeque<ColumnUse>,
}

/// What one item takes from one column.
#[derive(Debug)]
pub(crate) struct ColumnUse {
    pub(crate) column: usize,
    pub(crate) cells: u32,
    pub(crate) chunks: SmallVec<[Arc<ChunkSlot>; 2]>,
}

impl Tuning {
    /// Takes note of an item with `columns`.
    pub(crate) fn record(&mut self, columns: &[Column], recorder: &mut Recorder) {
        if recorder.is_tuned() {
            columns.iter().for_each(|column| self.add(ColumnUse::new(column)));
            self.settle(recorder);
        }
    }

    /// Takes note of one column of an item; [`settle`](Self::settle) is to be called after the last.
    pub(crate) fn add(&mut self, used: ColumnUse) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(used);
    }

    /// Tells the tuner of those items whose chunks are cut.
    pub(crate) fn settle(&mut self, recorder: &mut Recorder) {
        while let Some(statistics) = self.waiting.front().and_then(ColumnUse::statistics) {
            if let Some(used) = self.waiting.pop_front() {
                recorder.record_item(used.column, used.cells, &statistics);
            }
        }
    }
}

impl ColumnUse {
    fn new(column: &Column) -> ColumnUse {
        let cells = u32::try_from(column.len()).unwrap_or(u32::MAX);
        let mut used = ColumnUse { column: column.index(), cells, chunks: SmallVec::new() };
        column.runs().iter().for_each(|run| used.add_chunk(run.chunk.slot()));
        used
    }

    pub(crate) fn add_chunk(&mut self, slot: &Arc<ChunkSlot>) {
        // Cells of a chunk follow each other but for exotic columns, where a chunk counted twice does no harm.
        if !self.chunks.last().is_some_and(|last| Arc::ptr_eq(last, slot)) {
            self.chunks.push(Arc::clone(slot));
        }
    }

    /// Sizes of the chunks, once all are cut.
    fn statistics(&self) -> Option<SmallVec<[ChunkStatistic; 8]>> {
        self.chunks.iter().map(|chunk| chunk.statistic()).collect()
    }
}
