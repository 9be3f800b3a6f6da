//! The disk tier: chunks that are not in memory, in segments that are mapped.
//!
//! A chunk that leaves is written once and keeps its place for as long as it lives. Fetched, it is read into memory,
//! checked, and counted there; leaving again, it only goes back to its place. The mappings are for those who look at
//! chunks without fetching them.
//!
//! The segments are those of checkpoints (`docs/checkpoint-format.md`), each written in one go and mapped from then
//! on. They live as long as a chunk in them does. Nothing here is made durable: after a crash the next tier in the
//! folder removes what is left. A checkpoint that takes a segment over makes it durable under a name of its own.

mod index;
mod mapping;
mod read;
mod segment;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use segment::TierSegment;
pub use store::Tier;
