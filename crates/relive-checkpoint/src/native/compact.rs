//! Chooses the segments to rewrite.

use std::collections::BTreeMap;

use crate::fast_map::{FastMap, FastSet};
use crate::segment::SegmentId;

/// The number of small segments of similar size that are joined.
const CLASS_SEGMENTS: usize = 16;

/// A segment to which a checkpoint would refer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentUse {
    /// The size of the segment's file.
    pub(super) size_bytes: u64,
    /// The number of bytes in the chunks that the checkpoint needs.
    pub(super) live_bytes: u64,
}

/// Returns the segments whose chunks should be rewritten: sparse segments, and small segments if there are many of
/// them. Joining segments of at least `large_bytes` has no benefit.
pub(super) fn to_rewrite(uses: &FastMap<SegmentId, SegmentUse>, large_bytes: u64) -> FastSet<SegmentId> {
    let mut found = FastSet::default();
    let mut classes: BTreeMap<u32, Vec<SegmentId>> = BTreeMap::new();
    for (id, SegmentUse { size_bytes, live_bytes }) in uses {
        if live_bytes.saturating_mul(2) < *size_bytes {
            found.insert(*id);
        } else if *size_bytes < large_bytes {
            // Segments are classified by the logarithm of their size to base 4.
            classes.entry(size_bytes.max(&1).ilog2() / 2).or_default().push(*id);
        }
    }
    found.extend(classes.into_values().filter(|class| class.len() >= CLASS_SEGMENTS).flatten());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(uses: &[(u64, u64)]) -> Vec<u8> {
        let uses = (0..).zip(uses).map(|(number, (size_bytes, live_bytes))| {
            (SegmentId([number; 16]), SegmentUse { size_bytes: *size_bytes, live_bytes: *live_bytes })
        });
        let mut found: Vec<u8> =
            to_rewrite(&uses.collect(), 32 << 20).into_iter().map(|id| id.0[0]).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn sparse_segments_are_rewritten() {
        assert_eq!(rewritten(&[(64 << 20, 33 << 20), (64 << 20, 31 << 20), (100, 49), (100, 50)]), [1, 2]);
    }

    #[test]
    fn many_small_segments_are_merged_with_similar_sizes() {
        let small = [(5000, 5000); 15];
        assert_eq!(rewritten(&small), [0; 0]);
        let mut more = small.to_vec();
        more.extend([(20_000, 20_000), (64 << 20, 64 << 20)]);
        assert_eq!(rewritten(&more), [0; 0], "others are much larger");
        more.push((4096, 4000));
        assert_eq!(rewritten(&more).len(), 16);
        assert_eq!(rewritten(&[(64 << 20, 64 << 20); 40]), [0; 0]);
    }
}
