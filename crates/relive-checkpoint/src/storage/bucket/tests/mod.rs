//! Tests against an in-memory store that fails on demand, and a real S3 server.

mod lease;
mod memory;
mod s3;
