//! The gRPC services. Each RPC has a file; the router maps paths to RPCs.

mod arrival;
mod describe;
mod insert;
mod items;
mod messages;
mod operate;
mod replies;
mod router;
mod rpc;
mod sample;
mod tables;

pub(crate) use router::PeerService;
