//! Items that are not confirmed, in order, and the requests that bring them to a server.
//!
//! [`Outbox`] is pure: the link that holds it has the lock.

mod in_flight;
mod item;
mod outbox;
mod request;

pub use item::TrajectoryColumns;

pub(crate) use item::{ItemDraft, PendingItem, uncut_chunks};
pub(crate) use outbox::Outbox;
pub(crate) use request::Request;
