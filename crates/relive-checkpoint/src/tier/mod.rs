//! The disk tier: chunks outside memory, in mapped segments.
//!
//! A chunk that leaves memory is written once and keeps its place in the file for as long as it is alive. A fetch reads
//! the chunk into memory, checks it, and adds it to the memory accounts. When the chunk leaves memory again, it is not
//! rewritten. The mappings serve readers of chunks that have not been fetched.
//!
//! The segments have the format of checkpoints' segments (`docs/checkpoint-format.md`). Each is written in one go and
//! then mapped. A segment exists for as long as a chunk in it is alive. Nothing in the tier is made durable: after a
//! crash, the next tier in the folder removes the leftover files. A checkpoint that takes over a segment gives it a
//! name of its own, and makes it durable under this name.

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
