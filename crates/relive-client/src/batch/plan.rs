//! What the samples of a batch consist of: for each column of each sample, slices of blocks. A block is a tensor of a chunk,
//! listed once however many samples refer to it.

use std::sync::Arc;

use relive_tensor::{Chunk, ColumnHeader, DType, EncodedTensor, Shape};
use relive_wire::sample::Place;

use crate::Sample;
use crate::sampler::SampleData;

/// The content of a batch. Made by [`planner`](super::planner), which has checked that every slice lies in its block.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) columns: Vec<PlannedColumn>,
    /// For each sample and column, sample by sample.
    pub(super) parts: Vec<Part>,
    pub(super) slices: Vec<PlannedSlice>,
    pub(super) blocks: Vec<Block>,
    /// The blocks that lie in messages.
    pub(super) messages: Vec<MessageBlock>,
}

/// What all samples agree on in a column.
#[derive(Debug)]
pub(super) struct PlannedColumn {
    pub(super) dtype: DType,
    pub(super) squeeze: bool,
    pub(super) cell_shape: Shape,
}

/// One column of one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Where its slices end; they begin where those of the part before end.
    pub(super) slices_end: usize,
    pub(super) rows: u32,
}

/// Some rows of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedSlice {
    pub(super) block: usize,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// A tensor of a chunk: where it is.
#[derive(Debug)]
pub(super) enum Block {
    /// In a chunk of a sample of this process.
    Stored { sample: usize, chunk: usize, column: usize },
    /// In a message, as this entry of [`Plan::messages`] says.
    Message(usize),
    /// In a chunk that was made of a message which could not be left as it was.
    Owned { chunk: Arc<Chunk>, column: usize },
}

/// A tensor in a message.
#[derive(Debug)]
pub(super) struct MessageBlock {
    pub(super) sample: usize,
    pub(super) place: Place,
    pub(super) header: ColumnHeader,
    pub(super) delta_encoded: bool,
}

impl Plan {
    /// The slices and the number of rows of a column of a sample.
    pub(super) fn part(&self, sample: usize, column: usize) -> (&[PlannedSlice], u32) {
        let at = sample * self.columns.len() + column;
        let start =
            at.checked_sub(1).and_then(|before| self.parts.get(before)).map_or(0, |part| part.slices_end);
        match self.parts.get(at) {
            Some(part) => (self.slices.get(start..part.slices_end).unwrap_or_default(), part.rows),
            None => (&[], 0),
        }
    }

    /// Rows of a column in each sample.
    pub(super) fn rows(&self, column: usize) -> impl Iterator<Item = u32> {
        self.parts.iter().skip(column).step_by(self.columns.len().max(1)).map(|part| part.rows)
    }

    /// The tensor of a block of this plan, which was made of `samples`.
    pub(super) fn tensor<'a>(&'a self, samples: &'a [Sample], block: usize) -> Option<EncodedTensor<'a>> {
        match self.blocks.get(block)? {
            Block::Stored { sample, chunk, column } => match samples.get(*sample)?.data() {
                SampleData::Stored { item, .. } => item.trajectory.chunks().get(*chunk)?.encoded(*column),
                SampleData::Received(_) | SampleData::Arrived { .. } => None,
            },
            Block::Message(message) => {
                let block = self.messages.get(*message)?;
                match samples.get(block.sample)?.data() {
                    SampleData::Received(received) => Some(block.tensor(received.at(&block.place))),
                    SampleData::Stored { .. } | SampleData::Arrived { .. } => None,
                }
            }
            Block::Owned { chunk, column } => chunk.encoded(*column),
        }
    }
}

impl MessageBlock {
    pub(super) fn tensor<'a>(&'a self, payload: &'a [u8]) -> EncodedTensor<'a> {
        let Self { header, delta_encoded, .. } = self;
        let ColumnHeader { dtype, codec, shape, .. } = header;
        EncodedTensor {
            dtype: *dtype,
            codec: *codec,
            shape,
            delta_encoded: *delta_encoded,
            payload: payload.into(),
        }
    }
}
