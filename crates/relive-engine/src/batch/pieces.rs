//! What a batch is made of: rows of tensors of chunks.

use relive_table::Sampled;
use relive_tensor::EncodedTensor;

/// Some rows of one tensor of a chunk, in the order in which they make a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Which sample it is of.
    pub(super) sample: u32,
    /// The chunk, by its place in the sample's trajectory, and the tensor in it.
    pub(super) chunk: u32,
    pub(super) index: u32,
    pub(super) offset: u32,
    pub(super) rows: u32,
    /// Whether it is all of the tensor.
    pub(super) is_whole: bool,
}

impl Piece {
    /// The tensor that it is rows of.
    pub(super) fn tensor<'a>(&self, samples: &'a [Sampled]) -> Option<EncodedTensor<'a>> {
        let chunks = samples.get(self.sample as usize)?.item.trajectory.chunks();
        chunks.get(self.chunk as usize)?.encoded(self.index as usize)
    }

    /// What tells tensors apart: the chunk's address and the tensor's number.
    pub(super) fn identity(&self, samples: &[Sampled]) -> (usize, u32) {
        let chunks = samples.get(self.sample as usize).map(|sample| sample.item.trajectory.chunks());
        let chunk = chunks.and_then(|chunks| chunks.get(self.chunk as usize));
        (chunk.map_or(0, |chunk| std::sync::Arc::as_ptr(chunk).addr()), self.index)
    }
}
