//! Reports created items to the tuner of chunk lengths.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use relive_tensor::ChunkStatistic;
use smallvec::SmallVec;

use crate::chunks::ChunkSlot;
use crate::columns::Column;
use crate::columns::Recorder;

/// The largest number of items that may wait for their chunks to be cut. Older items are dropped, which only costs the
/// tuner a measurement.
const MAX_WAITING: usize = 256;

/// The uses by items whose chunks have not all been cut yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    waiting: VecDeque<GroupUse>,
}

/// The data of one group's columns that an item uses.
#[derive(Debug)]
pub(crate) struct GroupUse {
    group: usize,
    cells: u32,
    chunks: SmallVec<[Arc<ChunkSlot>; 2]>,
}

/// The data of each group that one item uses. Among columns that share chunks, the one with the most cells counts.
#[derive(Debug, Default)]
pub(crate) struct Uses(SmallVec<[GroupUse; 4]>);

impl Uses {
    pub(crate) fn add(&mut self, used: GroupUse) {
        self.0.push(used);
    }

    fn largest(mut self) -> SmallVec<[GroupUse; 4]> {
        self.0.sort_by_key(|used| (used.group, Reverse(used.cells)));
        self.0.dedup_by_key(|used| used.group);
        self.0
    }
}

impl Tuning {
    /// Records an item with `columns`.
    pub(crate) fn record(&mut self, columns: &[Column], recorder: &mut Recorder) {
        if !recorder.is_tuned() {
            return;
        }
        let mut uses = Uses::default();
        for column in columns {
            let Some(group) = recorder.group_of(column.index()) else { continue };
            let mut used = GroupUse::of(group, column.len());
            column.runs().iter().for_each(|run| used.add_chunk(run.chunk.slot()));
            uses.add(used);
        }
        self.add(uses);
        self.settle(recorder);
    }

    /// Records which data one item uses. Call [`settle`](Self::settle) after the last item.
    pub(crate) fn add(&mut self, uses: Uses) {
        for used in uses.largest() {
            if self.waiting.len() == MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(used);
        }
    }

    /// Reports the items whose chunks have been cut to the tuner.
    pub(crate) fn settle(&mut self, recorder: &mut Recorder) {
        while let Some(statistics) = self.waiting.front().and_then(GroupUse::statistics) {
            if let Some(used) = self.waiting.pop_front() {
                recorder.record_item(used.group, used.cells, &statistics);
            }
        }
    }
}

impl GroupUse {
    pub(crate) fn of(group: usize, cells: usize) -> GroupUse {
        GroupUse { group, cells: u32::try_from(cells).unwrap_or(u32::MAX), chunks: SmallVec::new() }
    }

    pub(crate) fn add_chunk(&mut self, slot: &Arc<ChunkSlot>) {
        // Cells of a chunk are consecutive, except in unusual columns, for which counting a chunk twice is harmless.
        if !self.chunks.last().is_some_and(|last| Arc::ptr_eq(last, slot)) {
            self.chunks.push(Arc::clone(slot));
        }
    }

    /// Returns the statistics of the chunks, once all of them have been cut.
    fn statistics(&self) -> Option<SmallVec<[ChunkStatistic; 8]>> {
        self.chunks.iter().map(|chunk| chunk.statistic()).collect()
    }
}
