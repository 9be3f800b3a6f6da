//! The usual batch: items of one slice per column, all alike. It needs no plan: what is where can be read off
//! the items again, as they are gathered.
//!
//! Items lie all over the memory, and so do the chunks that they refer to, and the chunks' bytes. Each of these ways is gone
//! for some items at once, in loops that do little else, so that as many loads as possible are under way.

use std::hint::black_box;

use relive_table::Sampled;
use relive_tensor::{ChunkFault, ColumnHeader, DType, EncodedTensor, OnlySlice, Shape, touch, touch_starts};
use smallvec::SmallVec;

use super::share::{on_threads, threads_for};
use super::target::Target;

/// What all samples of a batch are like.
#[derive(Debug)]
pub struct Uniform(SmallVec<[UniformColumn; 4]>);

/// A column that is the same in all samples but for the elements.
#[derive(Debug)]
pub struct UniformColumn {
    /// Type of the elements.
    pub dtype: DType,
    /// Whether each sample is one cell, without a dimension of rows.
    pub squeeze: bool,
    /// Shape of one row.
    pub cell_shape: Shape,
    /// Rows of each sample, 1 if the column is squeezed.
    pub rows: u32,
}

/// Samples that are looked at side by side. Each pause between two runs costs a wait for memory; what is looked at of so many
/// still fits the processor's own second cache.
const LOOKED_AT: usize = 256;

/// Samples that are decoded side by side: enough to keep a processor's memory requests busy, and small ones fit its first cache.
const STAGE: usize = 64;

/// Something of each sample of a stage.
type Stage<T> = SmallVec<[T; STAGE]>;

impl Uniform {
    /// What `samples` are like; none if there are none, if they are not all alike, or if it pays to decode what they share.
    #[must_use]
    pub fn of(samples: &[Sampled]) -> Option<Self> {
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
            let (dtype, cell_shape) = (header.dtype, Shape::from(header.cell_dims()));
            let column = UniformColumn { dtype, squeeze: slice.squeeze, cell_shape, rows: slice.length };
            (dtype != DType::String).then_some(column)
        };
        (0..trajectory.num_columns()).map(column).collect::<Option<_>>().map(Self)
    }

    fn fits(&self, sample: &Sampled) -> bool {
        let trajectory = &sample.item.trajectory;
        let fits = |(number, column): (usize, &UniformColumn)| {
            trajectory.only_slice(number).is_some_and(|slice| column.fits(&slice))
        };
        trajectory.num_columns() == self.0.len() && self.0.iter().enumerate().all(fits)
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &[UniformColumn] {
        &self.0
    }

    /// Decodes columns of the samples that this was made of into their places. Room beyond the rows of a sample is left as it is.
    ///
    /// # Errors
    /// Data that cannot be decoded; what the places then hold is unspecified.
    pub fn gather(&self, samples: &[Sampled], mut targets: Vec<Target<'_>>) -> Result<(), ChunkFault> {
        let threads = threads_for(targets.iter().map(|target| target.out.len()).sum());
        let (mut rest, mut shares) = (samples, Vec::with_capacity(threads));
        for left in (2..=threads).rev() {
            let (mine, others) = rest.split_at(rest.len() / left);
            shares.push((
                mine,
                targets.iter_mut().map(|target| target.split_off(mine.len())).collect::<Vec<_>>(),
            ));
            rest = others;
        }
        shares.push((rest, targets));
        let fill = |(samples, targets): (&[Sampled], Vec<Target<'_>>)| {
            targets.into_iter().try_for_each(|target| fill(samples, target))
        };
        on_threads(shares, fill)
    }
}

impl UniformColumn {
    /// Parts of compressed chunks are left to the plan: it decodes a chunk once, however many samples have a part of it.
    fn fits(&self, slice: &OnlySlice<'_>) -> bool {
        header_of(slice).is_some_and(|header| {
            slice.length == self.rows
                && slice.squeeze == self.squeeze
                && header.dtype == self.dtype
                && header.cell_dims() == self.cell_shape.dims()
                && (header.rows() == self.rows || seems_plain(header, slice))
        })
    }
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
fn fill(samples: &[Sampled], target: Target<'_>) -> Result<(), ChunkFault> {
    let Target { column, row_bytes, rows, out } = target;
    let sample_bytes = row_bytes * rows;
    if sample_bytes == 0 {
        return Ok(());
    }
    for (samples, out) in samples.chunks(STAGE).zip(out.chunks_mut(STAGE * sample_bytes)) {
        // All have one, or there would be no `Uniform`.
        let parts: Stage<Part<'_>> = samples.iter().filter_map(|sample| Part::of(sample, column)).collect();
        touch_starts(parts.iter().map(|part| part.tensor.payload.as_ref()));
        let stored: Stage<Stored<'_>> = parts.iter().map(Part::stored).collect();
        touch(stored.iter().map(|stored| stored.bytes()));
        for ((part, stored), out) in parts.iter().zip(stored).zip(out.chunks_exact_mut(sample_bytes)) {
            let out = out.get_mut(..part.rows as usize * row_bytes).unwrap_or_default();
            match stored {
                Stored::Plain(rows) if rows.len() == out.len() => out.copy_from_slice(rows),
                Stored::Plain(_) | Stored::Coded(_) => part.decode_into(out)?,
            }
        }
    }
    Ok(())
}

/// A column of a sample that is one slice: a whole tensor, or rows of one that are stored as they are.
pub(super) struct Part<'a> {
    pub(super) tensor: EncodedTensor<'a>,
    pub(super) first: u32,
    pub(super) rows: u32,
}

impl<'a> Part<'a> {
    pub(super) fn of(sample: &'a Sampled, column: usize) -> Option<Self> {
        let slice = sample.item.trajectory.only_slice(column)?;
        let tensor = slice.chunk.encoded(slice.index)?;
        Some(Self { tensor, first: slice.offset, rows: slice.length })
    }

    fn stored(&self) -> Stored<'_> {
        match self.tensor.plain_rows(self.first, self.rows) {
            Some(rows) => Stored::Plain(rows),
            None => Stored::Coded(&self.tensor.payload),
        }
    }

    fn decode_into(&self, out: &mut [u8]) -> Result<(), ChunkFault> {
        if self.tensor.shape.rows() == Some(self.rows) {
            return self.tensor.decode_into(out);
        }
        self.tensor.copy_plain_rows(self.first, out).unwrap_or_else(|| self.decode_rows_into(out))
    }

    /// The way for rows that only seemed to be stored as they are.
    fn decode_rows_into(&self, out: &mut [u8]) -> Result<(), ChunkFault> {
        let size = self.tensor.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let mut all = vec![0; size];
        self.tensor.decode_into(&mut all)?;
        let start = self.first as usize * (out.len() / (self.rows as usize).max(1));
        if let Some(rows) = all.get(start..start + out.len()) {
            out.copy_from_slice(rows);
        }
        Ok(())
    }
}

/// What is going to be read of a part.
#[derive(Clone, Copy)]
enum Stored<'a> {
    /// The rows as they are.
    Plain(&'a [u8]),
    /// Something to be decoded.
    Coded(&'a [u8]),
}

impl<'a> Stored<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Plain(bytes) | Self::Coded(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_table::{ItemData, Timestamp};
    use relive_tensor::{AtHand, Chunk, ChunkParts, Codec, SequenceRange, Slice, TrajectoryBuilder};

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
            frame: payload.into(),
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
            seems_plain(header_of(&slice).unwrap(), &slice) && samples[0].item.trajectory.plain().is_none()
        );
        let mut out = vec![0; 18];
        let target = Target { column: 0, row_bytes: 1, rows: 3, out: &mut out };
        Uniform::of(&samples).unwrap().gather(&samples, vec![target]).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 1, 2, 3, 4].windows(3).collect::<Vec<_>>().concat());
    }
}
