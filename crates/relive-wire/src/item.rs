//! Items and their trajectories.

use std::sync::Arc;

use relive_table::NewItem;
use relive_tensor::{Chunk, Slice, Trajectory, TrajectoryBuilder};

use crate::WireError;
use crate::limits::{MAX_COLUMNS_PER_ITEM, MAX_SLICES_PER_ITEM};
use crate::reverb::flat_trajectory::{ChunkSlice, Column};
use crate::reverb::{FlatTrajectory, PrioritizedItem};

/// Converts a message to an item. `chunk_of` finds its chunks.
///
/// `inserted_at` is ignored: the server itself sets the time.
///
/// # Errors
/// A chunk is unknown; columns are missing or empty; a slice is outside its chunk; a column has mixed types; a squeezed
/// column has more than one row; or there are more columns or slices than a server accepts.
pub fn decode(
    message: &PrioritizedItem,
    chunk_of: impl Fn(u64) -> Option<Arc<Chunk>>,
) -> Result<NewItem, WireError> {
    let flat = message.flat_trajectory.as_ref();
    let columns = flat.map(|flat| flat.columns.as_slice()).unwrap_or_default();
    let trajectory = trajectory(message.key, columns, chunk_of)?;
    Ok(NewItem {
        key: message.key,
        priority: message.priority,
        times_sampled: message.times_sampled,
        trajectory,
    })
}

/// Returns the trajectory of item `key`. `chunk_of` finds its chunks.
///
/// # Errors
/// The errors of [`decode`].
pub fn trajectory(
    key: u64,
    columns: &[Column],
    chunk_of: impl Fn(u64) -> Option<Arc<Chunk>>,
) -> Result<Trajectory, WireError> {
    check_counts(key, columns.len(), columns.iter().map(|column| column.chunk_slices.len()).sum())?;
    let mut builder = TrajectoryBuilder::new();
    for (position, column) in columns.iter().enumerate() {
        builder.begin_column(column.squeeze);
        for slice in &column.chunk_slices {
            let unknown = WireError::UnknownChunk { item: key, chunk: slice.chunk_key };
            let chunk = builder.chunk(chunk_of(slice.chunk_key).ok_or(unknown)?);
            builder.slice(slice_of(key, position, chunk, slice)?);
        }
    }
    builder.build().map_err(|source| WireError::Trajectory { item: key, source })
}

/// Checks the total numbers of columns and slices of an item.
pub(crate) fn check_counts(item: u64, columns: usize, slices: usize) -> Result<(), WireError> {
    if slices == 0 {
        return Err(WireError::NoTrajectory { item });
    }
    for (what, count, limit) in
        [("columns", columns, MAX_COLUMNS_PER_ITEM), ("chunk slices", slices, MAX_SLICES_PER_ITEM)]
    {
        if count > limit {
            return Err(WireError::TooMany { item, what, count, limit });
        }
    }
    Ok(())
}

fn slice_of(item: u64, column: usize, chunk: u32, slice: &ChunkSlice) -> Result<Slice, WireError> {
    let at_least_zero = |what, value: i32| {
        u32::try_from(value).map_err(|_| WireError::NegativeSlice {
            item,
            column,
            chunk: slice.chunk_key,
            what,
            value,
        })
    };
    Ok(Slice {
        chunk,
        offset: at_least_zero("offset", slice.offset)?,
        length: at_least_zero("length", slice.length)?,
        index: at_least_zero("index", slice.index)?,
    })
}

/// Converts `trajectory` to a message.
#[must_use]
pub fn flat_trajectory(trajectory: &Trajectory) -> FlatTrajectory {
    let chunks = trajectory.chunks();
    let key_of = |slice: &Slice| chunks.get(slice.chunk as usize).map_or(0, |chunk| chunk.key());
    let columns = trajectory.columns().map(|column| Column {
        chunk_slices: column
            .slices()
            .map(|slice| ChunkSlice {
                chunk_key: key_of(&slice),
                offset: to_i32(slice.offset),
                length: to_i32(slice.length),
                index: to_i32(slice.index),
            })
            .collect(),
        squeeze: column.squeeze(),
    });
    FlatTrajectory { columns: columns.collect() }
}

fn to_i32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
