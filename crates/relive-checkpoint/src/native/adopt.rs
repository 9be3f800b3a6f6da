//! Takes over files that a disk tier has written.

use std::collections::HashMap;
use std::sync::Arc;

use relive_table::Snapshot;
use relive_tensor::Chunk;

use super::places::{Places, address};
use crate::Error;
use crate::fast_map::FastSet;
use crate::segment::{Place, SegmentId};
use crate::storage::Storage;
use crate::tier::{Tier, TierSegment};

/// Chunks of a snapshot in one segment of a tier.
struct SegmentChunks<'a> {
    segment: Arc<TierSegment>,
    chunks: Vec<(&'a Arc<Chunk>, Place)>,
}

/// Turns segments of the tier that hold chunks of the snapshot into segments of the storage, without writing them
/// again, and adds the chunks to `places`. Skips segments that cannot be taken over, or that consist mostly of waste;
/// their chunks are written like any other chunks.
pub(super) fn adopt(
    storage: &dyn Storage,
    tier: &Tier,
    places: &Places,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    for (id, SegmentChunks { segment, chunks }) in find(tier, places, snapshot) {
        if segment.is_sparse() || !take_over(storage, &segment, id)? {
            continue;
        }
        chunks.into_iter().for_each(|(chunk, place)| places.insert(chunk, place));
        places.confirm([id]);
    }
    Ok(())
}

fn find<'a>(tier: &Tier, places: &Places, snapshot: &'a Snapshot) -> HashMap<SegmentId, SegmentChunks<'a>> {
    let mut found: HashMap<SegmentId, SegmentChunks<'a>> = HashMap::new();
    let chunks =
        snapshot.tables.iter().flat_map(|table| &table.items).flat_map(|item| item.data.trajectory.chunks());
    // Many items may share a chunk.
    let mut met = FastSet::default();
    for chunk in chunks.filter(|chunk| chunk.is_stored()) {
        if !met.insert(address(chunk)) || places.find(chunk).is_some() {
            continue;
        }
        let Some((segment, place)) = tier.place_of(chunk) else { continue };
        let found =
            found.entry(place.segment).or_insert_with(|| SegmentChunks { segment, chunks: Vec::new() });
        found.chunks.push((chunk, place));
    }
    found
}

fn take_over(storage: &dyn Storage, segment: &TierSegment, id: SegmentId) -> Result<bool, Error> {
    let name = id.file_name();
    let taken = storage.take_over(segment.path(), &name);
    taken.map_err(|source| Error::storage("take over", &storage.describe(&name), source))
}
