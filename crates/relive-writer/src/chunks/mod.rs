//! Chunks of a writer: how they are encoded, and the slots that steps and items refer to before and after.

mod encode;
mod slot;

pub(crate) use encode::{ChunkForm, Compressed, Compressibility, Encoder};
pub(crate) use slot::{ChunkRef, ChunkSlot};
