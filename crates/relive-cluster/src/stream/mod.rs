//! Streams of items from shards to a reader on another host.
//!
//! A shard has a [`ShardWriter`], and produces an item when the reader has room for one ([credit](Window)). The
//! reader's [`Port`] listens; its [`ShardReader`]s return the items of each shard in order, each exactly once. An item
//! is confirmed once it has been taken from its reader. Until then, the writer keeps the item, and resends it if a
//! connection breaks. A shard that is restarted elsewhere has a higher epoch, and the reader orders the shard's
//! predecessor to end.
//!
//! Confirmed items are never sent again, because they have been taken. A shard that dies may lose items that it has
//! produced but not sent. If a reader dies, its confirmed items are lost with it. Its successor receives the
//! unconfirmed items, some of which the dead reader may have returned.
//!
//! The two ends are [`Sending`] and [`Receiving`], which use no sockets, threads or clock.

mod access;
mod connection;
mod error;
mod limits;
mod link;
mod message;
mod outgoing;
mod port;
mod reader;
mod receiving;
mod sending;
mod wire;
mod writer;

pub use access::{PortAccess, WriterAccess};
pub use error::StreamError;
pub use message::{FromShard, Item, ToShard};
pub use outgoing::WriterOptions;
pub use port::Port;
pub use reader::{ShardReader, ShardStatus};
pub use receiving::{Receiving, Window};
pub use sending::Sending;
pub use writer::ShardWriter;
