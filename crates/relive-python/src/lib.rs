//! The compiled half of the Python package `relive`; the other half is in `python/relive`.
//!
//! This crate never holds a lock of the engine or of a writer while it waits for the interpreter, and every call that
//! can wait releases the interpreter while it waits (`interpreter/wait.rs`).
//!
//! The modules, from the bottom: `error`, `arguments` and `interpreter`; `arrays`, `nests`, `connection`; `tables`,
//! `write`, `read`; `server` and `client`. `flow`, `gpu` and `rl` implement Python's modules with these names,
//! independently of the server and the client.

mod allocator;
mod arguments;
mod arrays;
mod client;
mod connection;
mod error;
mod flow;
mod gpu;
mod interpreter;
mod module;
mod nests;
mod read;
mod rl;
mod server;
mod tables;
mod write;
