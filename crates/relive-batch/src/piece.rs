//! What a batch is made of: rows of tensors of chunks.

use relive_table::Sampled;
use relive_tensor::EncodedTensor;

use super::Batch;

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
    /// Whether it is all of the tensor.
    pub(crate) is_whole: bool,
}

impl Piece {
    /// The tensor that it is rows of.
    pub(crate) fn tensor<'a>(&self, samples: &'a [Sampled]) -> Option<EncodedTensor<'a>> {
        let chunks = samples.get(self.sample as usize)?.item.trajectory.chunks();
        chunks.get(self.chunk as usize)?.encoded(self.index as usize)
    }

    /// What tells tensors apart: the chunk's address and the tensor's number.
    pub(crate) fn identity(&self, samples: &[Sampled]) -> (usize, u32) {
        let chunks = samples.get(self.sample as usize).map(|sample| sample.item.trajectory.chunks());
        let chunk = chunks.and_then(|chunks| chunks.get(self.chunk as usize));
        (chunk.map_or(0, |chunk| std::sync::Arc::as_ptr(chunk).addr()), self.index)
    }
}

impl Batch {
    /// The pieces of a batch whose samples are all alike: one for each column.
    pub(crate) fn uniform_pieces(&self) -> Vec<Vec<Piece>> {
        let piece = |column: usize, (number, sample): (usize, &Sampled)| {
            let slice = sample.item.trajectory.only_slice(column)?;
            let all = slice.chunk.rows(slice.index);
            Some(Piece {
                sample: u32::try_from(number).unwrap_or(u32::MAX),
                chunk: slice.chunk_number,
                index: u32::try_from(slice.index).unwrap_or(u32::MAX),
                offset: slice.offset,
                rows: slice.length,
                is_whole: all == Some(slice.length),
            })
        };
        let column = |column| self.samples.iter().enumerate().filter_map(|at| piece(column, at)).collect();
        (0..self.columns().len()).map(column).collect()
    }
}
