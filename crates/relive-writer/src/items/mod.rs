//! Unconfirmed items, in order, and the requests that carry them to a server.
//!
//! An [`Outbox`] has no lock of its own; the link that owns it does the locking.

mod in_flight;
mod item;
mod outbox;
mod request;

pub use item::TrajectoryColumns;

pub(crate) use item::{ItemDraft, PendingItem, uncut_chunks};
pub(crate) use outbox::Outbox;
pub(crate) use request::Request;
