//! Plans the checkpoint that is to be written.

use std::sync::Arc;

use relive_table::Snapshot;
use relive_tensor::Chunk;

use super::compact::{SegmentUse, to_rewrite};
use super::places::{Places, address};
use crate::fast_map::{FastMap, FastSet};
use crate::segment::{Place, SegmentId, record};

/// The distinct chunks of a snapshot, and which of them must be written.
pub(super) struct Plan<'a> {
    places: &'a Places,
    /// The sizes of the existing segments.
    present: &'a FastMap<SegmentId, u64>,
    /// The positions of chunks by address, in order of first appearance.
    positions: FastMap<usize, u32>,
    /// Segments whose chunks are rewritten.
    rewritten: FastSet<SegmentId>,
    pub(super) items: u64,
    /// The number of bytes in the records to write.
    pub(super) new_bytes: u64,
}

impl<'a> Plan<'a> {
    /// Segments of at least `large_bytes` are not joined with others.
    pub(super) fn new(
        snapshot: &Snapshot,
        places: &'a Places,
        present: &'a FastMap<SegmentId, u64>,
        large_bytes: u64,
    ) -> Self {
        let (positions, rewritten) = (FastMap::default(), FastSet::default());
        let mut plan = Self { places, present, positions, rewritten, items: 0, new_bytes: 0 };
        let mut uses: FastMap<SegmentId, SegmentUse> = FastMap::default();
        for item in snapshot.tables.iter().flat_map(|table| &table.items) {
            plan.items += 1;
            for chunk in item.data.trajectory.chunks() {
                if !plan.insert(chunk) {
                    continue;
                }
                match plan.place_of(chunk) {
                    None => plan.new_bytes += record::record_bytes(chunk),
                    Some(place) => uses.entry(place.segment).or_default().live_bytes += place.record_bytes(),
                }
            }
        }
        for (id, segment) in &mut uses {
            segment.size_bytes = present.get(id).copied().unwrap_or_default();
        }
        plan.rewritten = to_rewrite(&uses, large_bytes);
        let again = plan.rewritten.iter().filter_map(|id| uses.get(id));
        plan.new_bytes += again.map(|segment| segment.live_bytes).sum::<u64>();
        plan
    }

    /// Returns the place of a chunk that does not have to be written, or `None` if the chunk has to be written.
    pub(super) fn place_of(&self, chunk: &Arc<Chunk>) -> Option<Place> {
        let is_usable = |place: &Place| {
            let size = self.present.get(&place.segment).copied().unwrap_or_default();
            place.end() <= size && !self.rewritten.contains(&place.segment)
        };
        self.places.find(chunk).filter(is_usable)
    }

    /// Records the place of a written chunk.
    pub(super) fn placed(&self, chunk: &Arc<Chunk>, place: Place) {
        self.places.insert(chunk, place);
    }

    /// Returns the size of a segment that existed before.
    pub(super) fn size_of(&self, id: SegmentId) -> Option<u64> {
        self.present.get(&id).copied()
    }

    /// Returns the position of a chunk of the snapshot.
    pub(super) fn position_of(&self, chunk: &Arc<Chunk>) -> u32 {
        self.positions.get(&address(chunk)).copied().expect("the plan has all chunks of its snapshot")
    }

    /// Returns the addresses of all chunks.
    pub(super) fn into_addresses(self) -> FastMap<usize, u32> {
        self.positions
    }

    /// Returns whether this is the chunk's first occurrence.
    fn insert(&mut self, chunk: &Arc<Chunk>) -> bool {
        let next = u32::try_from(self.positions.len()).expect("2^32 chunks do not fit any memory");
        let before = self.positions.len();
        self.positions.entry(address(chunk)).or_insert(next);
        self.positions.len() > before
    }
}
