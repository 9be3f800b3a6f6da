//! Who holds which chunks and how much they take: ledgers of all chunks, accounts of tables, exact also where tables
//! share chunks.

mod account;
mod holding;
mod ledger;
mod word;

pub use account::{Account, AccountSnapshot};
pub(crate) use holding::{hold, release};
pub use ledger::{Ledger, LedgerSnapshot, MIN_MOVABLE_BYTES};
pub(crate) use word::{ChunkState, Counted};
