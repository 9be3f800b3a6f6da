//! The client: what writers, readers and calls of one request have in common.

mod calls;
mod connect;
mod data;
mod operate;

pub use connect::Client;
