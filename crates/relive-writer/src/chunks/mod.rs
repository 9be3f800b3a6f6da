//! A writer's chunks: their encoding, and the slots through which steps and items refer to chunks before and after they
//! are encoded.

mod encode;
mod slot;

pub(crate) use encode::{ChunkForm, Compressed, Compressibility, Encoder};
pub(crate) use slot::{ChunkRef, ChunkSlot};
