//! Converts columns back to items.

use std::sync::Arc;

use relive_table::{ItemData, StoredItem, Timestamp};
use relive_tensor::{Chunk, Slice, TrajectoryBuilder, TrajectoryError};
use thiserror::Error;

use super::ItemColumns;

/// The reason why an item cannot be built.
#[derive(Debug, PartialEq, Error)]
pub(crate) enum ItemFault {
    /// The chunk at this position is missing.
    #[error("the chunk {position} is missing")]
    LostChunk { position: u32 },
    #[error("the item {key} refers to two chunks with the key {chunk_key}")]
    SameKey { key: u64, chunk_key: u64 },
    #[error("the item {key} does not match its chunks: {source}")]
    Trajectory { key: u64, source: TrajectoryError },
}

/// Returns the items of a block, in order. `chunk_at` returns the chunk at a position.
pub(crate) fn rebuild<'a>(
    columns: &'a ItemColumns,
    chunk_at: impl Fn(u32) -> Option<Arc<Chunk>> + 'a,
) -> impl Iterator<Item = Result<StoredItem, ItemFault>> + 'a {
    rebuild_some(columns, |_| true, chunk_at)
}

/// Like [`rebuild`], but only for the items whose numbers are in `wanted`.
pub(crate) fn rebuild_some<'a>(
    columns: &'a ItemColumns,
    wanted: impl Fn(usize) -> bool + 'a,
    chunk_at: impl Fn(u32) -> Option<Arc<Chunk>> + 'a,
) -> impl Iterator<Item = Result<StoredItem, ItemFault>> + 'a {
    let (mut lists, mut builder) = (Lists::new(columns), TrajectoryBuilder::new());
    (0..columns.len()).filter_map(move |index| {
        let parts = lists.next(index);
        wanted(index).then(|| item(columns, index, parts, &chunk_at, &mut builder))
    })
}

fn item(
    columns: &ItemColumns,
    index: usize,
    parts: Parts<'_>,
    chunk_at: &impl Fn(u32) -> Option<Arc<Chunk>>,
    builder: &mut TrajectoryBuilder,
) -> Result<StoredItem, ItemFault> {
    let at = |numbers: &[u64]| numbers.get(index).copied().unwrap_or_default();
    let key = at(&columns.keys);
    builder.clear();
    for (number, position) in (0..).zip(parts.chunks) {
        let lost = ItemFault::LostChunk { position: *position };
        let chunk = chunk_at(*position).ok_or(lost)?;
        let chunk_key = chunk.key();
        if builder.chunk(chunk) != number {
            return Err(ItemFault::SameKey { key, chunk_key });
        }
    }
    let mut slices = parts.slices;
    for (squeeze, count) in parts.squeezed.iter().zip(parts.slice_counts) {
        builder.begin_column(*squeeze == 1);
        slices
            .by_ref()
            .take(usize::try_from(*count).unwrap_or(usize::MAX))
            .for_each(|slice| builder.slice(slice));
    }
    let trajectory = builder.build().map_err(|source| ItemFault::Trajectory { key, source })?;
    let inserted_at = Timestamp::from_nanos(at(&columns.times).cast_signed());
    let data = ItemData { key, sequence: at(&columns.sequences), inserted_at, trajectory };
    let times_sampled = columns.times_sampled.get(index).copied().unwrap_or_default().cast_signed();
    Ok(StoredItem { data: Arc::new(data), priority: f64::from_bits(at(&columns.priorities)), times_sampled })
}

/// The parts of the lists that belong to one item.
struct Parts<'a> {
    chunks: &'a [u32],
    slice_counts: &'a [u32],
    squeezed: &'a [u8],
    slices: Slices<'a>,
}

/// The positions at which the next item's part of each list starts.
struct Lists<'a> {
    columns: &'a ItemColumns,
    chunks: usize,
    spans: usize,
    slices: usize,
}

/// Iterates over slices, starting at a position.
#[derive(Clone)]
struct Slices<'a> {
    columns: &'a ItemColumns,
    next: usize,
}

impl<'a> Lists<'a> {
    fn new(columns: &'a ItemColumns) -> Self {
        Self { columns, chunks: 0, spans: 0, slices: 0 }
    }

    fn next(&mut self, index: usize) -> Parts<'a> {
        let columns = self.columns;
        let count = |counts: &[u32]| {
            counts.get(index).and_then(|count| usize::try_from(*count).ok()).unwrap_or_default()
        };
        let chunks = self.chunks..self.chunks + count(&columns.chunk_counts);
        let spans = self.spans..self.spans + count(&columns.column_counts);
        let slice_counts = columns.slice_counts.get(spans.clone()).unwrap_or_default();
        let slices = Slices { columns, next: self.slices };
        (self.chunks, self.spans) = (chunks.end, spans.end);
        self.slices += slice_counts.iter().filter_map(|count| usize::try_from(*count).ok()).sum::<usize>();
        Parts {
            chunks: columns.chunks.get(chunks).unwrap_or_default(),
            slice_counts,
            squeezed: columns.squeezed.get(spans).unwrap_or_default(),
            slices,
        }
    }
}

impl Iterator for Slices<'_> {
    type Item = Slice;

    fn next(&mut self) -> Option<Slice> {
        let (columns, at) = (self.columns, self.next);
        self.next += 1;
        Some(Slice {
            chunk: *columns.slice_chunks.get(at)?,
            offset: *columns.slice_offsets.get(at)?,
            length: *columns.slice_lengths.get(at)?,
            index: *columns.slice_indices.get(at)?,
        })
    }
}
