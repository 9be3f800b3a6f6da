//! Items of shards on their way to one reader on another host.
//!
//! A shard has a [`ShardWriter`] and makes an item when the reader has room for one ([credit](Window)). The reader's
//! [`Port`] listens; its [`ShardReader`]s give the items of each shard in their order, each once. An item is
//! confirmed when it was taken from its reader: until then the writer keeps it, and sends it again when a connection
//! has broken. A shard that is begun anew elsewhere has a higher epoch, and the one before is told to end.
//!
//! What is never lost: an item that was confirmed was taken. What may be: items of a shard that died, which it had
//! made and not sent. A reader that dies takes what was confirmed with it; its successor gets what was not, which may
//! be some that it had taken.
//!
//! The two ends are [`Sending`] and [`Receiving`], which know no sockets, threads or clock.

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
