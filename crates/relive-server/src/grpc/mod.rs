//! The gRPC services. Each RPC has a file; the router knows which path is which.

mod arrival;
mod aside;
mod checkpoint;
mod columns;
mod describe;
mod initialize;
mod insert;
mod items;
mod messages;
mod operate;
mod replies;
mod router;
mod rpc;
mod sample;
mod services;
pub(crate) mod status;
mod stop;
mod tables;

pub(crate) use columns::Told;
pub(crate) use services::Services;
pub(crate) use stop::Stop;
