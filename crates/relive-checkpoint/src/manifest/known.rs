//! The chunks that a checkpoint describes.

use std::ops::Range;

use crate::segment::Place;

/// The places by position. Positions that a damaged file lacks are not stored, so that no memory is allocated for them.
#[derive(Debug, Default)]
pub(crate) struct KnownChunks {
    places: Vec<Place>,
    /// Contiguous runs of positions.
    runs: Vec<Run>,
    /// The lost positions, each with the number of its loss.
    lost: Vec<(Range<u64>, usize)>,
    /// The position after all runs.
    end: u64,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    /// The position of the run's first chunk.
    first: u64,
    /// The index of this chunk in the list of places.
    start: usize,
}

impl KnownChunks {
    /// Returns the places of all known chunks, without gaps.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the position after the last one that is known or is known to be lost.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds chunks, starting at the position `first`, which must not be below [`end`](Self::end).
    pub(super) fn add(&mut self, first: u64, places: Vec<Place>) {
        if self.runs.is_empty()
            || first != self.end
            || self.lost.last().is_some_and(|(lost, _)| lost.end == first)
        {
            self.runs.push(Run { first, start: self.places.len() });
        }
        self.end = first + places.len() as u64;
        self.places.extend(places);
    }

    /// Marks chunks as lost, starting at the position `first`, which must not be below [`end`](Self::end).
    pub(super) fn record_loss(&mut self, first: u64, count: u64, loss: usize) {
        self.end = first + count;
        self.lost.push((first..self.end, loss));
    }

    /// Returns the index of a chunk in the list of places.
    pub(crate) fn index_of(&self, position: u32) -> Option<usize> {
        let position = u64::from(position);
        let after = self.runs.partition_point(|run| run.first <= position);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let end = self.runs.get(after).map_or(self.places.len(), |next| next.start);
        let index = run.start.checked_add(usize::try_from(position - run.first).ok()?)?;
        (index < end).then_some(index)
    }

    /// Returns the loss to which a missing chunk belongs. Chunks that no recorded loss covers are attributed to the
    /// first loss.
    pub(crate) fn loss_of(&self, position: u32) -> usize {
        let position = u64::from(position);
        self.lost.iter().find(|(lost, _)| lost.contains(&position)).map_or(0, |(_, loss)| *loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::SegmentId;

    #[test]
    fn known_chunks_are_found_around_gaps() {
        let place = |offset| Place { segment: SegmentId([0; 16]), offset, length: 0, crc: 0 };
        let mut known = KnownChunks::default();
        known.add(0, vec![place(0), place(1)]);
        known.add(2, vec![place(2)]);
        known.record_loss(3, 2, 7);
        known.add(5, vec![place(5)]);
        known.add(1 << 31, vec![place(9), place(10)]);
        assert_eq!(known.end(), (1 << 31) + 2);
        for position in [0, 1, 2, 5] {
            let index = known.index_of(position).unwrap();
            assert_eq!(known.places()[index].offset, position);
        }
        assert_eq!(known.index_of((1 << 31) + 1).map(|index| known.places()[index].offset), Some(10));
        for position in [3, 4, 6, 1 << 30, (1 << 31) + 2, u32::MAX] {
            assert_eq!(known.index_of(position), None, "{position}");
        }
        assert_eq!((known.loss_of(4), known.loss_of(6)), (7, 0));
    }
}
