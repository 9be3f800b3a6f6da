//! Feeds the tuner of chunk lengths with the items that were made.

use std::collections::VecDeque;
use std::sync::Arc;

use relive_tensor::ChunkStatistic;

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
struct ColumnUse {
    column: usize,
    cells: u32,
    chunks: Vec<Arc<ChunkSlot>>,
}

impl Tuning {
    /// Takes note of an item with `columns`.
    pub(crate) fn record(&mut self, columns: &[Column], recorder: &mut Recorder) {
        if !recorder.is_tuned() {
            return;
        }
        for column in columns {
            if self.waiting.len() == MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(ColumnUse::new(column));
        }
        while let Some(statistics) = self.waiting.front().and_then(ColumnUse::statistics) {
            if let Some(used) = self.waiting.pop_front() {
                recorder.record_item(used.column, used.cells, &statistics);
            }
        }
    }
}

impl ColumnUse {
    fn new(column: &Column) -> ColumnUse {
        let mut chunks: Vec<Arc<ChunkSlot>> = Vec::new();
        for cell in column.cells() {
            let slot = cell.chunk.slot();
            // Cells of a chunk follow each other but for exotic columns, where a chunk counted twice does no harm.
            if !chunks.last().is_some_and(|last| Arc::ptr_eq(last, slot)) {
                chunks.push(Arc::clone(slot));
            }
        }
        let cells = u32::try_from(column.len()).unwrap_or(u32::MAX);
        ColumnUse { column: column.index(), cells, chunks }
    }

    /// Sizes of the chunks, once all are cut.
    fn statistics(&self) -> Option<Vec<ChunkStatistic>> {
        self.chunks.iter().map(|chunk| chunk.statistic()).collect()
    }
}
