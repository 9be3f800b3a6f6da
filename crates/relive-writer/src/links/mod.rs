//! Links carry items from a writer to their tables: over a stream to a server, or by calls into tables in this process.
//!
//! For a server, the writer and the task that keeps a stream open share a [`RemoteLink`](remote::RemoteLink). The task
//! opens and reopens streams and receives confirmations. For tables in this process, the writer's own calls insert the
//! items.

mod bulk;
mod destination;
mod goal;
mod link;
mod local;
mod remote;
mod stream;

pub(crate) use goal::{Limits, Unconfirmed};
pub(crate) use link::{Link, other_names};
pub(crate) use stream::LOG;
