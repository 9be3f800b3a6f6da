//! Reads a checkpoint's chunks in parallel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use relive_table::CheckpointProgress;
use relive_tensor::{Chunk, Ledger, SharedHeaders};
use relive_threads::parallel;

use crate::Error;
use crate::fast_map::FastMap;
use crate::losses::Losses;
use crate::segment::{Place, RecordRequest, SegmentId, SegmentReader, head_of, record};
use crate::storage::Storage;
use crate::{LoadOptions, Loss};

/// The damage to a segment, and the chunks lost because of it.
pub(crate) struct ChunkLoss {
    pub(crate) cause: Cause,
    /// The lost chunks, as indices in the list of places.
    pub(crate) chunks: Vec<usize>,
}

/// Damage, or a file that could not be read.
pub(crate) enum Cause {
    Damage(Loss),
    Unreadable { file: String, offset: u64, error: std::io::Error },
}

impl Cause {
    /// Reports this cause to the handler of damage.
    pub(crate) fn note(self, losses: &mut Losses) -> Result<usize, Error> {
        match self {
            Self::Damage(loss) => losses.note(loss),
            Self::Unreadable { file, offset, error } => losses.unreadable(&file, offset, error),
        }
    }
}

/// The chunks by their indices in the list of places, and the missing chunks.
pub(crate) struct ReadChunks {
    pub(crate) chunks: Vec<OnceLock<Arc<Chunk>>>,
    pub(crate) losses: Vec<ChunkLoss>,
}

/// Reads the chunks at the given places. With `salvage`, undamaged chunks are read despite damage.
pub(crate) fn read_chunks(
    storage: &dyn Storage,
    places: &[Place],
    options: &LoadOptions,
    progress: &CheckpointProgress,
    ledger: &Arc<Ledger>,
) -> Result<ReadChunks, Error> {
    let chunks: Vec<OnceLock<Arc<Chunk>>> = places.iter().map(|_| OnceLock::new()).collect();
    let segments = by_segment(places);
    let is_over = AtomicBool::new(false);
    let read = |number: usize| {
        let Some((id, wanted)) = segments.get(number) else { return Ok(Vec::new()) };
        if is_over.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let take = |index: usize, chunk: Chunk| {
            progress.advance(0, record::record_bytes(&chunk));
            let chunk = Arc::new(chunk.with_ledger(Arc::clone(ledger)));
            // Each index is requested only once, so its slot is empty.
            chunks.get(index).map(|slot| slot.set(chunk));
        };
        let losses = read_segment(storage, *id, wanted, take);
        if !losses.is_empty() && !options.salvages() {
            is_over.store(true, Ordering::Relaxed);
        }
        let read: Vec<_> =
            wanted.iter().filter_map(|(index, _)| chunks.get(*index)?.get().cloned()).collect();
        options.spill(&read, ledger)?;
        Ok(losses)
    };
    let losses = parallel(options.num_threads(), segments.len(), read);
    let losses = losses.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
    Ok(ReadChunks { chunks, losses })
}

/// Returns the places in each segment, sorted by offset, with the segments in order of first appearance.
pub(crate) fn by_segment(places: &[Place]) -> Vec<(SegmentId, Vec<RecordRequest>)> {
    let mut numbers: FastMap<SegmentId, usize> = FastMap::default();
    let mut segments: Vec<(SegmentId, Vec<RecordRequest>)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let number = *numbers.entry(place.segment).or_insert_with(|| {
            segments.push((place.segment, Vec::new()));
            segments.len() - 1
        });
        if let Some((_, wanted)) = segments.get_mut(number) {
            wanted.push((index, *place));
        }
    }
    segments.iter_mut().for_each(|(_, wanted)| wanted.sort_by_key(|(_, place)| place.offset));
    segments
}

fn read_segment(
    storage: &dyn Storage,
    id: SegmentId,
    wanted: &[RecordRequest],
    mut take: impl FnMut(usize, Chunk),
) -> Vec<ChunkLoss> {
    let file = storage.describe(&id.file_name());
    let unreadable = |offset: u64, error, chunks| ChunkLoss {
        cause: Cause::Unreadable { file: file.clone(), offset, error },
        chunks,
    };
    let damage = |offset: u64, reason: &dyn std::fmt::Display, chunks| ChunkLoss {
        cause: Cause::Damage(Loss::of(&file, offset, reason)),
        chunks,
    };
    let mut reader = match storage.open(&id.file_name()) {
        Ok(source) => SegmentReader::new(source),
        Err(error) => return vec![unreadable(0, error, wanted.iter().map(|(index, _)| *index).collect())],
    };
    let mut losses = Vec::new();
    match reader.check_header(id) {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => losses.push(damage(0, &reason, Vec::new())),
        Err(error) => losses.push(unreadable(0, error, Vec::new())),
    }
    let mut headers = SharedHeaders::default();
    reader.read(wanted, |(index, place), bytes| match bytes {
        Ok(bytes) => match record::read(bytes, head_of(place)) {
            Ok(chunk) => take(index, headers.share(chunk)),
            Err(fault) => losses.push(damage(place.offset.into(), &fault, vec![index])),
        },
        Err(error) => losses.push(unreadable(place.offset.into(), error, vec![index])),
    });
    losses
}
