//! The memory of an engine's chunks: its bound, and the disk tier, which holds chunks beyond the budget until they are
//! sampled.

mod budget;
mod disk_tier;
mod fetch;
mod marks;
mod process;
mod returned;
mod status;

pub(crate) use budget::Memory;
pub(crate) use disk_tier::{DiskTier, part};
pub(crate) use fetch::Fetch;
pub use process::process_bytes;
pub use status::{MemoryStatus, MemoryWaiter};
pub(crate) use status::{bytes, limit};
