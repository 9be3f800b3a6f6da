//! The memory of chunks: ledgers of all chunks and accounts of tables, which are exact even if tables share chunks.

mod account;
mod holding;
mod ledger;
mod word;

pub use account::{Account, AccountSnapshot};
pub(crate) use holding::{hold, release};
pub use ledger::{Ledger, LedgerSnapshot, MIN_MOVABLE_BYTES};
pub(crate) use word::{ChunkState, Counted};
