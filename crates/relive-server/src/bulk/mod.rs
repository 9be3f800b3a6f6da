//! The bulk path: connections that send batches and receive items, alongside gRPC on the same port
//! (`docs/protocol.md`).

mod batches;
mod connection;
mod failure;
mod sampler;
mod slots;
mod writer;

pub(crate) use connection::{is_bulk, serve};
pub(crate) use failure::Failure;
pub(crate) use relive_wire::bulk::MAGIC;
