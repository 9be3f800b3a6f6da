//! Chunks of a writer: how they are encoded, and the slots that steps and items refer to before and after.

mod compressibility;
mod encode;
mod slot;

pub(crate) use compressibility::Compressibility;
pub(crate) use encode::{ChunkForm, Compressed, Encoder};
pub(crate) use slot::{ChunkRef, ChunkSlot};
