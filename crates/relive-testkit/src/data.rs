//! Small valid data.

use std::sync::Arc;

use relive_table::NewItem;
use relive_tensor::{
    Chunk, Codec, SequenceRange, Slice, Tensor, Trajectory, TrajectoryBuilder, encode_chunk,
};

/// Returns a chunk whose only column has `rows` floats, for the steps of an episode beginning with `start`. The floats
/// count up from the key.
///
/// # Panics
/// If `rows` is 0 or the last step is out of range.
pub fn chunk(key: u64, episode_id: u64, start: i32, rows: u16) -> Arc<Chunk> {
    let range = SequenceRange { episode_id, start, end: start + i32::from(rows) - 1, sparse: false };
    let first = f32::from(u16::try_from(key % 1000).expect("below 1000"));
    let values: Vec<f32> = (0..rows).map(|row| first + f32::from(row)).collect();
    let column = Tensor::from_slice(&values, [u32::from(rows)]).expect("one float per row");
    let parts = encode_chunk(key, range, &[column], false, Codec::Raw).expect("floats can be encoded");
    Arc::new(Chunk::new(parts).expect("a chunk that was just encoded is valid"))
}

/// Returns a trajectory with one column that joins all rows of the chunks.
///
/// # Panics
/// If there are no chunks, or they do not match.
pub fn trajectory(chunks: &[Arc<Chunk>]) -> Trajectory {
    let mut builder = TrajectoryBuilder::new();
    builder.begin_column(false);
    for chunk in chunks {
        let length = chunk.rows(0).expect("the chunk has a column");
        let chunk = builder.chunk(Arc::clone(chunk));
        builder.slice(Slice { chunk, offset: 0, length, index: 0 });
    }
    builder.build().expect("whole chunks of one kind make a column")
}

/// Returns an item that has never been sampled. It consists of one step, which is step number `key` of episode 1.
pub fn item(key: u64, priority: f64) -> NewItem {
    let step = i32::try_from(key % 1_000_000).expect("below a million");
    NewItem { key, priority, times_sampled: 0, trajectory: trajectory(&[chunk(key, 1, step, 1)]) }
}
