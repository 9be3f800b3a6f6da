//! The memory of chunks: ledgers of all chunks and accounts of tables, which are exact even if tables share chunks.
//!
//! Accounts only count. A chunk is freed when its last `Arc` is dropped, regardless of who held it: an item, a stream
//! or a reader. Its `Drop` then removes it from here.

mod account;
mod holding;
mod ledger;
mod word;

pub use account::{Account, ChunkTotals};
pub(crate) use holding::{hold, release};
pub use ledger::{Ledger, MIN_MOVABLE_BYTES};
pub(crate) use word::{ChunkState, Counted};
