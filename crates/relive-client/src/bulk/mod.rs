//! Batches over the bulk path: put together by the server, and taken as they come (`docs/protocol.md`).

mod arrived;
mod asking;
mod connection;
mod feed;
mod items;
mod lent;
mod refusal;
mod route;
mod shared;

pub use lent::note_fork;

pub(crate) use feed::{BulkFeed, Next};
pub(crate) use items::ItemConnection;
pub(crate) use route::{Dialer, MOST_SILENT_CONNECTIONS, Routes};
