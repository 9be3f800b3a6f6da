//! The usual batch: items of one slice per column, all alike. It needs no plan: what is where can be read off
//! the items again, as they are gathered.
//!
//! Items lie all over the memory, and so do the chunks that they refer to, and the chunks' bytes. Each of these ways is gone
//! for some items at once, in loops that do little else, so that as many loads as possible are under way.

use std::hint::black_box;

use relive_table::Sampled;
use relive_tensor::{ChunkFault, ColumnHeader, ColumnLayout, DType, OnlySlice};
use smallvec::SmallVec;

use super::Batch;
use super::part::{Part, STAGE, Stage, decode};
use super::target::Target;
use super::threads::{on_threads, threads_for};

/// What all samples of a batch are like, but for their elements: all have as many rows.
pub(crate) struct Uniform(SmallVec<[ColumnLayout; 4]>);

/// Samples that are looked at side by side. Each pause between two runs costs a wait for memory; what is looked at of so many
/// still fits the processor's own second cache.
const LOOKED_AT: usize = 256;

impl Uniform {
    /// What `samples` are like; none if there are none, if they are not all alike, or if it pays to decode what they share.
    pub(crate) fn of(samples: &[Sampled]) -> Option<Self> {
        let first = Self::of_first(samples.first()?)?;
        let fits = samples.chunks(LOOKED_AT).all(|samples| {
            touch_chunks(samples);
            samples.iter().all(|sample| first.fits(sample))
        });
        fits.then_some(first)
    }

    fn of_first(sample: &Sampled) -> Option<Self> {
        let trajectory = &sample.item.trajectory;
        let column = |column| {
            let slice = trajectory.only_slice(column)?;
            let header = header_of(&slice)?;
            let layout = ColumnLayout::new(header.dtype, slice.squeeze, slice.length, header.cell_dims());
            (header.dtype != DType::String).then_some(layout)
        };
        (0..trajectory.num_columns()).map(column).collect::<Option<_>>().map(Self)
    }

    fn fits(&self, sample: &Sampled) -> bool {
        let trajectory = &sample.item.trajectory;
        let fits = |(number, column): (usize, &ColumnLayout)| {
            trajectory.only_slice(number).is_some_and(|slice| is_like(&slice, column))
        };
        trajectory.num_columns() == self.0.len() && self.0.iter().enumerate().all(fits)
    }

    /// Its columns.
    pub(crate) fn into_columns(self) -> impl Iterator<Item = ColumnLayout> {
        self.0.into_iter()
    }
}

impl Batch {
    /// Decodes columns of samples that are all alike into their places.
    pub(crate) fn gather_uniform(&self, mut targets: Vec<Target<'_>>) -> Result<(), ChunkFault> {
        let threads = threads_for(targets.iter().map(|target| target.out.len()).sum());
        let (mut rest, mut shares) = (self.samples.as_slice(), Vec::with_capacity(threads));
        for left in (2..=threads).rev() {
            let (mine, others) = rest.split_at(rest.len() / left);
            let split = targets.iter_mut().map(|target| {
                let rows = self.rows_of(target.column);
                target.split_off(mine.len(), rows)
            });
            shares.push((mine, split.collect::<Vec<_>>()));
            rest = others;
        }
        shares.push((rest, targets));
        let fill = |(samples, targets): (&[Sampled], Vec<Target<'_>>)| {
            targets.into_iter().try_for_each(|target| {
                let rows = self.rows_of(target.column);
                fill(samples, rows, target)
            })
        };
        on_threads(shares, fill)
    }

    pub(crate) fn rows_of(&self, column: usize) -> usize {
        self.columns().get(column).and_then(|column| column.layout.rows).unwrap_or(1) as usize
    }
}

/// Whether a column of a sample is like those before. Parts of compressed chunks are left to the plan: it decodes a chunk once, however many
/// samples have a part of it.
fn is_like(slice: &OnlySlice<'_>, column: &ColumnLayout) -> bool {
    header_of(slice).is_some_and(|header| {
        column.is(header.dtype, slice.squeeze, slice.length, header.cell_dims())
            && (header.rows() == slice.length || seems_plain(header, slice))
    })
}

/// Whether rows seem to be stored as they are: that can be told without going to the payload.
fn seems_plain(header: &ColumnHeader, slice: &OnlySlice<'_>) -> bool {
    header.seems_plain() && !slice.chunk.is_delta_encoded()
}

fn header_of<'a>(slice: &OnlySlice<'a>) -> Option<&'a ColumnHeader> {
    slice.chunk.column(slice.index)
}

/// Brings the chunks of samples near.
fn touch_chunks(samples: &[Sampled]) {
    for chunk in samples.iter().flat_map(|sample| sample.item.trajectory.chunks()) {
        // The first and the last of what is looked at, which takes two lines of memory.
        black_box((chunk.num_columns(), chunk.is_delta_encoded()));
    }
}

/// Decodes one column of `samples`.
fn fill(samples: &[Sampled], rows: usize, target: Target<'_>) -> Result<(), ChunkFault> {
    let Target { column, row_bytes, out, .. } = target;
    let sample_bytes = row_bytes * rows;
    if sample_bytes == 0 {
        return Ok(());
    }
    for (samples, out) in samples.chunks(STAGE).zip(out.chunks_mut(STAGE * sample_bytes)) {
        // All have one, or there would be no `Uniform`.
        let parts: Stage<Part<'_>> = samples.iter().filter_map(|sample| Part::of(sample, column)).collect();
        decode(&parts, out.chunks_exact_mut(sample_bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_table::{ItemData, Timestamp};
    use relive_tensor::{AtHand, Chunk, ChunkParts, Codec, SequenceRange, Shape, Slice, TrajectoryBuilder};

    use super::*;

    /// Rows of a chunk whose payload is as long as a single literal would be, and is none: three literals, and a copy of what they hold.
    fn seemingly_plain(first: u32, rows: u32) -> Sampled {
        let payload: [u8; 10] = [8, 1 << 2, 1, 2, 0, 3, 0, 4, 0b001, 4];
        let (dtype, codec, shape) = (DType::UInt8, Codec::Snappy, Shape::from([8]));
        let parts = ChunkParts {
            key: 1,
            range: SequenceRange { episode_id: 1, start: 0, end: 7, sparse: false },
            columns: SmallVec::from_iter([ColumnHeader { dtype, codec, shape, span: 0..10 }]),
            delta_encoded: false,
            frame: Arc::new(payload),
            verbatim: false,
        };
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(Arc::new(Chunk::new(parts).unwrap()));
        builder.begin_column(false);
        builder.slice(Slice { chunk, offset: first, length: rows, index: 0 });
        let trajectory = builder.build().unwrap();
        Sampled {
            item: Arc::new(ItemData { trajectory, key: 1, sequence: 0, inserted_at: Timestamp::EPOCH }),
            priority: 1.0,
            probability: 1.0,
            table_size: 1,
            times_sampled: 1,
            rate_limited: false,
            at_hand: AtHand::default(),
        }
    }

    #[test]
    fn rows_that_only_seemed_to_be_stored_as_they_are_come_right() {
        let samples: Vec<Sampled> = (0..6).map(|first| seemingly_plain(first, 3)).collect();
        let slice = samples[0].item.trajectory.only_slice(0).unwrap();
        assert!(
            seems_plain(header_of(&slice).unwrap(), &slice)
                && slice.chunk.encoded(0).unwrap().plain_rows(0, 8).is_none()
        );
        let mut out = vec![0; 18];
        let batch = Batch::new(samples).unwrap();
        assert!(batch.is_uniform);
        batch.gather_into([(0, out.as_mut_slice())]).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 1, 2, 3, 4].windows(3).collect::<Vec<_>>().concat());
    }
}
