//! The compiled half of the Python package `relive`; the other half is in `python/relive`.
//!
//! This crate never holds a lock of the engine or of a writer while it waits for the interpreter, and every call that
//! can wait releases the interpreter meanwhile (`wait`).

mod address;
mod allocator;
mod append_error;
mod array;
mod batch;
mod buffer;
mod checkpoint_status;
mod checkpoints;
mod client;
mod codec;
mod column;
mod column_history;
mod dtypes;
mod error;
mod extension;
mod finalization;
mod flow;
mod gather;
mod gpu;
mod infos;
mod layout;
mod local;
mod lock;
mod logs;
mod module;
mod names;
mod nest;
mod operate;
mod out;
mod plain;
mod process;
mod rl;
mod rules;
mod sampler;
mod security;
mod server;
mod servers;
mod spec;
mod structured;
mod table;
mod truth;
mod wait;
mod writer;
mod writer_state;
