//! The chunks that have already been written, and their places.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relive_tensor::Chunk;

use crate::fast_map::FastMap;
use crate::segment::{Place, SegmentId, record};

/// The places of chunks by the chunks' addresses.
///
/// A written chunk is marked with this table's tag after its entry has been added. A tagged chunk therefore never has
/// the entry of another chunk, although addresses are reused: a chunk at a reused address has no tag until it has been
/// written itself. Entries take effect once their segment is [confirmed](Self::confirm).
pub(crate) struct Places {
    /// The tag, or 0 if all tags are in use. With 0, no places are recorded, and every chunk counts as new.
    tag: u8,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: FastMap<usize, Entry>,
    segments: Vec<Segment>,
    numbers: FastMap<SegmentId, u32>,
}

/// A compact [`Place`], because there are millions of them.
#[derive(Clone, Copy)]
struct Entry {
    /// The position in the list of segments.
    segment: u32,
    offset: u32,
    length: u32,
    crc: u32,
}

struct Segment {
    id: SegmentId,
    is_confirmed: bool,
}

/// The tags in use, one bit for each. Tag 0 is never assigned. Each table of places has its own tag for as long as it
/// exists.
static TAKEN: [AtomicU64; 4] = [AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];

impl Places {
    pub(crate) fn new() -> Self {
        Self { tag: take_tag().unwrap_or(0), inner: Mutex::default() }
    }

    /// Returns the place of the chunk, if it has been written.
    pub(crate) fn find(&self, chunk: &Arc<Chunk>) -> Option<Place> {
        if self.tag == 0 || chunk.store_tag() != self.tag {
            return None;
        }
        let inner = self.lock();
        let Entry { segment, offset, length, crc } = *inner.entries.get(&address(chunk))?;
        let segment = inner.segments.get(usize::try_from(segment).ok()?)?;
        let is_same = segment.is_confirmed && u64::from(length) == record::content_bytes(chunk);
        is_same.then_some(Place { segment: segment.id, offset, length, crc })
    }

    /// Records the place of a written chunk. The place takes effect once the segment is [confirmed](Self::confirm).
    pub(crate) fn insert(&self, chunk: &Arc<Chunk>, place: Place) {
        if self.tag == 0 {
            return;
        }
        let Place { segment, offset, length, crc } = place;
        let mut inner = self.lock();
        let segment = inner.number_of(segment);
        inner.entries.insert(address(chunk), Entry { segment, offset, length, crc });
        drop(inner);
        chunk.set_store_tag(self.tag);
    }

    /// Marks these segments as durable.
    pub(crate) fn confirm(&self, segments: impl IntoIterator<Item = SegmentId>) {
        let mut inner = self.lock();
        for id in segments {
            let number = inner.number_of(id);
            let segment = usize::try_from(number).ok().and_then(|number| inner.segments.get_mut(number));
            if let Some(segment) = segment {
                segment.is_confirmed = true;
            }
        }
    }

    /// Forgets that segments are durable unless they exist: the files of a failed save were removed.
    pub(crate) fn keep_confirmed(&self, exists: impl Fn(&SegmentId) -> bool) {
        for segment in &mut self.lock().segments {
            segment.is_confirmed &= exists(&segment.id);
        }
    }

    /// Forgets chunks for which `lives` returns false when called with their address, and segments without remaining
    /// chunks.
    pub(crate) fn retain(&self, lives: impl Fn(usize) -> bool) {
        let mut inner = self.lock();
        let Inner { entries, segments, .. } = std::mem::take(&mut *inner);
        for (address, entry) in entries {
            let segment = usize::try_from(entry.segment).ok().and_then(|number| segments.get(number));
            let Some(segment) = segment.filter(|segment| segment.is_confirmed && lives(address)) else {
                continue;
            };
            let number = inner.number_of(segment.id);
            inner.entries.insert(address, Entry { segment: number, ..entry });
        }
        inner.segments.iter_mut().for_each(|segment| segment.is_confirmed = true);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // At worst, a panic leaves a segment without entries.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address of a chunk, which identifies it: no two live chunks have the same address.
pub(crate) fn address(chunk: &Arc<Chunk>) -> usize {
    Arc::as_ptr(chunk).addr()
}

impl Inner {
    fn number_of(&mut self, id: SegmentId) -> u32 {
        let segments = &mut self.segments;
        *self.numbers.entry(id).or_insert_with(|| {
            segments.push(Segment { id, is_confirmed: false });
            u32::try_from(segments.len() - 1).expect("no disk has room for 2^32 segments of several MiB")
        })
    }
}

fn take_tag() -> Option<u8> {
    (1..=255_u8).find(|tag| {
        let (word, bit) = word_of(*tag);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::AcqRel) & bit == 0)
    })
}

fn word_of(tag: u8) -> (Option<&'static AtomicU64>, u64) {
    (TAKEN.get(usize::from(tag / 64)), 1 << (tag % 64))
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.tag != 0
            && let (Some(word), bit) = word_of(self.tag)
        {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_tensor::{Codec, SequenceRange, Tensor, encode_chunk};

    fn chunk(size: u32) -> Arc<Chunk> {
        let column = Tensor::from_slice(&vec![7_u8; size as usize], [1, size]).unwrap();
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        Arc::new(Chunk::new(encode_chunk(1, range, &[column], false, Codec::Raw).unwrap()).unwrap())
    }

    fn place(chunk: &Arc<Chunk>, id: u8) -> Place {
        let length = u32::try_from(record::content_bytes(chunk)).unwrap();
        Place { segment: SegmentId([id; 16]), offset: 32, length, crc: 5 }
    }

    #[test]
    fn a_chunk_is_found_once_its_segment_is_durable() {
        let (places, chunk) = (Places::new(), chunk(10));
        assert_eq!(places.find(&chunk), None);
        places.insert(&chunk, place(&chunk, 1));
        assert_eq!(places.find(&chunk), None);
        places.confirm([SegmentId([1; 16])]);
        assert_eq!(places.find(&chunk), Some(place(&chunk, 1)));
        assert_eq!(Places::new().find(&chunk), None, "another store has another tag");
        places.insert(&chunk, place(&chunk, 2));
        assert_eq!(places.find(&chunk), None, "a chunk that is written again must be confirmed again");
    }

    #[test]
    fn removed_chunks_are_forgotten() {
        let (places, one, other) = (Places::new(), chunk(10), chunk(10));
        places.insert(&one, place(&one, 1));
        places.insert(&other, place(&other, 2));
        places.confirm([SegmentId([1; 16]), SegmentId([2; 16])]);
        places.retain(|lives| lives == address(&other));
        assert_eq!((places.find(&one), places.find(&other)), (None, Some(place(&other, 2))));
        assert_eq!(places.lock().segments.len(), 1);
    }

    #[test]
    fn a_chunk_with_a_different_size_is_not_reused() {
        let (places, chunk) = (Places::new(), chunk(10));
        places.insert(&chunk, Place { length: 3, ..place(&chunk, 1) });
        places.confirm([SegmentId([1; 16])]);
        assert_eq!(places.find(&chunk), None);
    }
}
