//! Relive's own format: checkpoints that share their chunks. `docs/checkpoint-format.md` specifies its bytes.

mod adopt;
mod assemble;
mod compact;
mod garbage;
mod load;
mod pace;
mod places;
mod plan;
mod read_chunks;
mod read_items;
mod save;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use assemble::Tables;
pub(crate) use garbage::{Collected, Listing};
pub(crate) use load::load;
pub(crate) use read_chunks::{Cause, ChunkLoss, ReadChunks, by_segment as segments_of, read_chunks};
pub(crate) use read_items::check_items;
pub(crate) use store::DEFAULT_KEEP;
pub use store::Store;
