//! Batches over the bulk path, which are gathered by the server (`docs/protocol.md`).

mod arrived;
mod feed;
mod request_sender;
mod shared;
mod shared_piece;
mod task;

pub use shared_piece::note_fork;

pub(crate) use feed::{BulkFeed, Next};
