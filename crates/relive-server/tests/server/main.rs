//! Tests the server over real connections.

mod bulk;
mod checkpoint;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod common;
mod corpus;
mod insert_stream;
mod memory;
mod sample_stream;
mod server;
