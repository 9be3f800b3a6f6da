//! The way of items from a writer to their tables: over a stream to a server, or by calls into tables of this process.

mod either;
mod goal;
mod local;
mod remote;

pub(crate) use either::Link;
pub(crate) use goal::Limits;
pub(crate) use local::LocalLink;
pub(crate) use remote::{RemoteLink, Unconfirmed};
