//! The cells of a column to which items can still refer.

use std::collections::VecDeque;
use std::ops::Range;

use super::index::IndexError;
use crate::chunks::ChunkRef;

/// The kept cells, by position in the history. Cells that are adjacent both in the history and in a chunk form one
/// stretch, so a long history with long chunks needs little memory.
#[derive(Debug, Default)]
pub(crate) struct KeptCells {
    stretches: VecDeque<Stretch>,
    kept: u64,
    /// The number of cells that have ever been appended to the column.
    appended: u64,
    /// The position of the column's first cell since the history was cleared.
    first: Option<u64>,
}

#[derive(Debug)]
struct Stretch {
    start: u64,
    length: u32,
    chunk: ChunkRef,
    /// The row of the first cell in its chunk.
    offset: u32,
}

/// One cell.
#[derive(Debug)]
pub(crate) struct KeptCell<'a> {
    pub(crate) chunk: &'a ChunkRef,
    pub(crate) offset: u32,
    /// The cell's number among all cells that have ever been appended to the column.
    pub(crate) number: u64,
}

impl Stretch {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    /// Drops cells from the front.
    fn advance(&mut self, cells: u32) {
        self.start += u64::from(cells);
        self.offset += cells;
        self.length -= cells;
    }
}

impl KeptCells {
    /// Returns the position of the newest cell.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.stretches.back().map(|stretch| stretch.end() - 1)
    }

    /// Iterates over the distinct chunks of the kept cells.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &ChunkRef> {
        let before = [None].into_iter().chain(self.stretches.iter().map(|stretch| Some(&stretch.chunk)));
        let pairs = self.stretches.iter().zip(before);
        // The cells of a chunk are consecutive, except for gaps.
        pairs
            .filter(|(stretch, before)| before.is_none_or(|before| !stretch.chunk.is(before)))
            .map(|(s, _)| &s.chunk)
    }

    /// Returns the number of the oldest kept cell.
    pub(crate) fn oldest_number(&self) -> u64 {
        self.appended - self.kept
    }

    /// Adds cells at the end: the rows of `chunk`, starting at `offset`.
    pub(crate) fn push(&mut self, start: u64, length: u32, chunk: &ChunkRef, offset: u32) {
        self.first.get_or_insert(start);
        self.kept += u64::from(length);
        self.appended += u64::from(length);
        match self.stretches.back_mut() {
            Some(last)
                if last.end() == start && last.chunk.is(chunk) && last.offset + last.length == offset =>
            {
                last.length += length;
            }
            Some(_) | None => {
                self.stretches.push_back(Stretch { start, length, chunk: chunk.clone(), offset });
            }
        }
    }

    /// Drops the oldest cells until at most `limit` remain.
    pub(crate) fn trim(&mut self, limit: u64) {
        let too_many = self.kept.saturating_sub(limit);
        self.drop_oldest(too_many);
    }

    /// Drops all cells. Positions restart at 0.
    pub(crate) fn clear(&mut self) {
        self.drop_oldest(self.kept);
        self.first = None;
    }

    fn drop_oldest(&mut self, mut cells: u64) {
        self.kept -= cells;
        while cells > 0 {
            let Some(oldest) = self.stretches.front_mut() else { return };
            match u32::try_from(cells) {
                Ok(some) if some < oldest.length => {
                    oldest.advance(some);
                    return;
                }
                _ => {
                    cells -= u64::from(oldest.length);
                    self.stretches.pop_front();
                }
            }
        }
    }

    /// Returns the cell at the given position of the history.
    pub(crate) fn find(&self, position: u64) -> Result<KeptCell<'_>, IndexError> {
        let index = self.index_of(position)?;
        let before: u64 = self.stretches.range(..index).map(|stretch| u64::from(stretch.length)).sum();
        let stretch = &self.stretches[index];
        let within = position - stretch.start;
        let offset = stretch.offset + u32::try_from(within).unwrap_or(u32::MAX);
        let number = self.oldest_number() + before + within;
        Ok(KeptCell { chunk: &stretch.chunk, offset, number })
    }

    /// Passes the cells at `positions` to `take` as rows of chunks: the chunk, the first row and the number of rows.
    pub(crate) fn visit(
        &self,
        positions: Range<u64>,
        mut take: impl FnMut(&ChunkRef, u32, u32),
    ) -> Result<(), IndexError> {
        let mut at = positions.start;
        if at >= positions.end {
            return Ok(());
        }
        let first = self.index_of(at)?;
        for stretch in self.stretches.range(first..) {
            if stretch.start > at {
                break;
            }
            let narrow = |cells: u64| u32::try_from(cells).unwrap_or(u32::MAX);
            let stop = stretch.end().min(positions.end);
            take(&stretch.chunk, stretch.offset + narrow(at - stretch.start), narrow(stop - at));
            at = stop;
            if at == positions.end {
                return Ok(());
            }
        }
        Err(IndexError::Missing { step: at })
    }

    /// Returns the stretch that contains a position.
    fn index_of(&self, position: u64) -> Result<usize, IndexError> {
        // Checks the last stretch first, because most requests are for recent cells.
        let index = match self.stretches.back() {
            Some(last) if last.start <= position => self.stretches.len() - 1,
            Some(_) | None => self.stretches.partition_point(|stretch| stretch.end() <= position),
        };
        let step = position;
        match self.stretches.get(index) {
            Some(stretch) if (stretch.start..stretch.end()).contains(&position) => Ok(index),
            Some(oldest)
                if index == 0
                    && position < oldest.start
                    && self.first.is_some_and(|first| first <= position) =>
            {
                Err(IndexError::Expired { step, oldest: oldest.start })
            }
            Some(_) | None => Err(IndexError::Missing { step }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::chunks::ChunkSlot;

    /// Returns whether any cell is still in `chunk`.
    fn holds(cells: &KeptCells, chunk: &Arc<ChunkSlot>) -> bool {
        cells.stretches.iter().any(|stretch| Arc::ptr_eq(stretch.chunk.slot(), chunk))
    }

    proptest! {
        /// Compares the cells with a list that has one entry per cell.
        #[test]
        fn cells_match_a_reference_list(
            pushes in prop::collection::vec((0..3_u64, 1..5_u32, any::<bool>()), 1..20),
            limit in 1..12_u64,
        ) {
            let (mut cells, mut model) = (KeptCells::default(), BTreeMap::new());
            let mut chunk = ChunkRef::new(Arc::new(ChunkSlot::unfilled(0)), 0);
            let (mut position, mut offset, mut number) = (0, 0, 0);
            for (gap, length, new_chunk) in pushes {
                position += gap;
                if new_chunk {
                    chunk = ChunkRef::new(Arc::new(ChunkSlot::unfilled(number)), 0);
                    offset = 0;
                }
                cells.push(position, length, &chunk, offset);
                for _ in 0..length {
                    model.insert(position, (chunk.slot().clone(), offset, number));
                    (position, offset, number) = (position + 1, offset + 1, number + 1);
                }
                cells.trim(limit);
                while u64::try_from(model.len()).unwrap() > limit {
                    model.pop_first();
                }
            }
            prop_assert_eq!(cells.newest(), Some(position - 1));
            for at in 0..position + 2 {
                match (cells.find(at), model.get(&at)) {
                    (Ok(cell), Some((slot, offset, number))) => {
                        prop_assert!(Arc::ptr_eq(cell.chunk.slot(), slot) && holds(&cells, slot));
                        prop_assert_eq!((cell.offset, cell.number), (*offset, *number));
                    }
                    (found, expected) => prop_assert!(found.is_err() && expected.is_none(), "{at} {found:?}"),
                }
                let mut visited = Vec::new();
                let range = at..at + 3;
                let complete = cells.visit(range.clone(), |chunk, offset, length| {
                    visited.extend((offset..offset + length).map(|offset| (chunk.key(), offset)));
                });
                let expected: Option<Vec<_>> =
                    range.map(|at| model.get(&at).map(|(slot, offset, _)| (slot.key(), *offset))).collect();
                prop_assert_eq!(complete.ok().map(|()| visited), expected);
            }
            cells.clear();
            prop_assert_eq!((cells.newest(), cells.oldest_number()), (None, number));
        }
    }

    #[test]
    fn missing_cells_are_distinguished_from_expired_ones() {
        let chunk = ChunkRef::new(Arc::new(ChunkSlot::unfilled(1)), 0);
        let mut cells = KeptCells::default();
        assert!(matches!(cells.find(0), Err(IndexError::Missing { step: 0 })));
        cells.push(2, 3, &chunk, 0);
        cells.trim(1);
        assert!(matches!(cells.find(1), Err(IndexError::Missing { step: 1 })));
        assert!(matches!(cells.find(3), Err(IndexError::Expired { step: 3, oldest: 4 })));
        assert!(matches!(cells.find(5), Err(IndexError::Missing { step: 5 })));
    }
}
