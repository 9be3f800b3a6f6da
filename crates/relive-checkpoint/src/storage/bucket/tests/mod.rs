//! Against a store in memory that fails on demand, and a real S3 server.

mod lease;
mod memory;
mod s3;
