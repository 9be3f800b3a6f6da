//! The gRPC services. Each RPC has a file; the router maps paths to RPCs.
//!
//! A new RPC needs messages in `crates/relive-wire/proto/`, its path and role in `rpc.rs`, a line in `router.rs`, a
//! call in `relive-connection`, and a row in `docs/protocol.md`.

mod arrival;
mod describe;
mod insert;
mod items;
mod messages;
mod open_calls;
mod operate;
mod packing;
mod replies;
mod router;
mod rpc;
mod sample;
mod tables;

pub(crate) use router::PeerService;
