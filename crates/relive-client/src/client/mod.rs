//! The client, which creates writers and readers and makes calls.

mod calls;
mod connect;
mod data;
mod operate;

pub use connect::Client;
