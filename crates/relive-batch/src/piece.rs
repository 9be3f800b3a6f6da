//! What a batch is made of: rows of tensors of chunks.

use relive_table::Sampled;
use relive_tensor::{Chunk, EncodedTensor};

use super::Batch;
use super::part::Part;

/// Some rows of one tensor of a chunk, in the order in which they make a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Which sample it is of.
    pub(crate) sample: u32,
    /// The chunk, by its place in the sample's trajectory, and the tensor in it.
    pub(crate) chunk: u32,
    pub(crate) index: u32,
    pub(crate) offset: u32,
    pub(crate) rows: u32,
    /// Whether nothing but its own rows needs to be read: it is all of the tensor, or the rows seem to be stored as they are.
    pub(crate) is_direct: bool,
}

/// Whether rows of a column of a chunk can be read without the others, as far as can be told without going to the payload.
pub(crate) fn is_direct(chunk: &Chunk, index: usize, rows: u32) -> bool {
    chunk
        .column(index)
        .is_some_and(|header| header.rows() == rows || (header.seems_plain() && !chunk.is_delta_encoded()))
}

impl Piece {
    /// The tensor that it is rows of.
    pub(crate) fn tensor<'a>(&self, samples: &'a [Sampled]) -> Option<EncodedTensor<'a>> {
        let chunks = samples.get(self.sample as usize)?.item.trajectory.chunks();
        chunks.get(self.chunk as usize)?.encoded(self.index as usize)
    }

    /// The rows themselves.
    pub(crate) fn part<'a>(&self, samples: &'a [Sampled]) -> Option<Part<'a>> {
        Some(Part { tensor: self.tensor(samples)?, first: self.offset, rows: self.rows })
    }

    /// What tells tensors apart: the chunk's address and the tensor's number.
    pub(crate) fn identity(&self, samples: &[Sampled]) -> (usize, u32) {
        let chunks = samples.get(self.sample as usize).map(|sample| sample.item.trajectory.chunks());
        let chunk = chunks.and_then(|chunks| chunks.get(self.chunk as usize));
        (chunk.map_or(0, |chunk| std::sync::Arc::as_ptr(chunk).addr()), self.index)
    }
}

impl Batch {
    /// The pieces of a column of a batch whose samples are all alike: one for each sample.
    pub(crate) fn uniform_pieces(&self, column: usize) -> Vec<Piece> {
        let piece = |(number, sample): (usize, &Sampled)| {
            let slice = sample.item.trajectory.only_slice(column)?;
            Some(Piece {
                sample: u32::try_from(number).unwrap_or(u32::MAX),
                chunk: slice.chunk_number,
                index: u32::try_from(slice.index).unwrap_or(u32::MAX),
                offset: slice.offset,
                rows: slice.length,
                is_direct: is_direct(slice.chunk, slice.index, slice.length),
            })
        };
        self.samples.iter().enumerate().filter_map(piece).collect()
    }
}
