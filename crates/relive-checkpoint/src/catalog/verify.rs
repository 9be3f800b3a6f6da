//! Checks every byte of a checkpoint.

use std::collections::HashMap;
use std::sync::Arc;

use relive_table::CheckpointProgress;
use relive_threads::parallel;

use crate::Loss;
use crate::losses::Losses;
use crate::manifest::{Manifest, read_manifest};
use crate::native::{Cause, ChunkLoss, Tables, check_items, segments_of};
use crate::segment::{HEADER_BYTES, Place, RecordRequest, SegmentId, SegmentReader, head_of, record};
use crate::storage::Storage;
use crate::{Error, LoadOptions};

/// The result of verifying a checkpoint: every byte was read and compared with its checksum, and every chunk of every
/// item exists and is valid. In Relive's format, verification does not check that the rows of each item exist in its
/// chunks; loading does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The path or URL.
    pub location: String,
    /// The number of files read.
    pub files: u64,
    /// The total size of these files in bytes.
    pub bytes: u64,
    /// The number of items that the checkpoint declares.
    pub items: u64,
    /// The number of described chunks.
    pub chunks: u64,
    /// All damage that was found. Damage that loses no items may be in chunks that only other checkpoints use.
    pub losses: Vec<Loss>,
}

impl Report {
    /// Returns whether everything is intact.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty()
    }
}

pub(super) fn verify(
    storage: &dyn Storage,
    name: &str,
    progress: &CheckpointProgress,
) -> Result<Report, Error> {
    let mut losses = Losses::new(true);
    let Manifest { file, size_bytes, description, chunks: known, items } =
        read_manifest(storage, name, &mut losses)?;
    let total = description.tables.iter().map(|table| table.items).sum();
    progress.expect(total, size_bytes + description.segment_bytes());
    progress.advance(0, size_bytes);
    let threads = LoadOptions::new().num_threads();
    let mut segments = segments_of(known.places());
    let referred: Vec<SegmentId> = segments.iter().map(|(id, _)| *id).collect();
    // A listed segment without references is unexpected, but it is read as well.
    let others = description.segments.iter().filter(|segment| !referred.contains(&segment.id));
    segments.extend(others.map(|segment| (segment.id, Vec::new())));
    let check = |(id, wanted): &(SegmentId, Vec<RecordRequest>)| {
        let (size, found) = check_segment(storage, *id, wanted, progress);
        if size.is_none() {
            // Its bytes are expected, but are not read.
            let skipped = description.segments.iter().filter(|segment| segment.id == *id);
            progress.advance(0, skipped.map(|segment| segment.size_bytes).sum());
        }
        (size, found)
    };
    let checked =
        parallel(threads, segments.len(), |number| segments.get(number).map(check).unwrap_or_default());
    let mut lost = HashMap::new();
    let (mut files, mut bytes) = (1, size_bytes);
    for (size, found) in checked {
        files += u64::from(size.is_some());
        bytes += size.unwrap_or(0);
        for ChunkLoss { cause, chunks } in found {
            let number = cause.note(&mut losses)?;
            lost.extend(chunks.into_iter().map(|index| (index, number)));
        }
    }
    let is_there = |position: u32| known.index_of(position).is_some_and(|index| !lost.contains_key(&index));
    let blocks = check_items(items, is_there, threads, progress);
    let tables = &description.tables;
    Tables { file: &file, known: &known, lost, losses: &mut losses, tables }.assemble(blocks)?;
    let chunks = known.places().len() as u64;
    Ok(Report { location: file, files, bytes, items: total, chunks, losses: losses.into_found() })
}

/// Reads a whole segment. Returns the segment's damage, and its size if it can be opened.
fn check_segment(
    storage: &dyn Storage,
    id: SegmentId,
    wanted: &[RecordRequest],
    progress: &CheckpointProgress,
) -> (Option<u64>, Vec<ChunkLoss>) {
    let file: Arc<str> = storage.describe(&id.file_name()).into();
    let mut found = Vec::new();
    let source = match storage.open(&id.file_name()) {
        Ok(source) => source,
        Err(error) => {
            let cause = Cause::Unreadable { file: file.to_string(), offset: 0, error };
            return (
                None,
                vec![ChunkLoss { cause, chunks: wanted.iter().map(|(index, _)| *index).collect() }],
            );
        }
    };
    let size = source.size_bytes();
    let damage = |offset: u64, reason: String, chunks: Vec<usize>| ChunkLoss {
        cause: Cause::Damage(Loss::of(&file, offset, reason)),
        chunks,
    };
    let mut reader = SegmentReader::new(source);
    progress.advance(0, HEADER_BYTES as u64);
    match reader.check_header(id) {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => found.push(damage(0, reason, Vec::new())),
        Err(error) => found.push(damage(0, error.to_string(), Vec::new())),
    }
    reader.read(wanted, |(index, place), bytes| {
        let checked = match bytes {
            Ok(bytes) => record::read(bytes, head_of(place)).map(drop).map_err(|fault| fault.to_string()),
            Err(error) => Err(error.to_string()),
        };
        progress.advance(0, place.record_bytes());
        found.extend(checked.err().map(|reason| damage(place.offset.into(), reason, vec![index])));
    });
    for (start, end) in gaps(wanted, size) {
        if let Err((offset, reason)) = reader.check_records(start, end) {
            let reason = format!("{reason} (in a part that this checkpoint does not use)");
            found.push(damage(offset, reason, Vec::new()));
        }
        progress.advance(0, end - start);
    }
    (Some(size), found)
}

/// Returns the parts of a segment that no wanted record covers.
fn gaps(wanted: &[RecordRequest], size: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = HEADER_BYTES as u64;
    for (start, end) in
        wanted.iter().map(|(_, place): &(usize, Place)| (u64::from(place.offset), place.end()))
    {
        if at < start.min(size) {
            gaps.push((at, start.min(size)));
        }
        at = at.max(end);
    }
    if at < size {
        gaps.push((at, size));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u32) -> RecordRequest {
        (0, Place { segment: SegmentId([1; 16]), offset, length: 80, crc: 0 })
    }

    #[test]
    fn gaps_of_a_truncated_segment_end_at_its_end() {
        let (begin, wanted) = (HEADER_BYTES as u64, [record(200), record(400)]);
        let ends = [wanted[0].1.end(), wanted[1].1.end()];
        assert_eq!(gaps(&wanted, 1000), [(begin, 200), (ends[0], 400), (ends[1], 1000)]);
        assert_eq!(gaps(&wanted, 350), [(begin, 200), (ends[0], 350)]);
        assert_eq!(gaps(&wanted, 250), [(begin, 200)]);
        assert_eq!(gaps(&wanted, 100), [(begin, 100)]);
    }
}
