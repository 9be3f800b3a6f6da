//! Batches over the bulk path, which the server gathers (`docs/protocol.md`).

mod arrived;
mod asking;
mod feed;
mod lent;
mod shared;
mod task;

pub use lent::note_fork;

pub(crate) use feed::{BulkFeed, Next};
