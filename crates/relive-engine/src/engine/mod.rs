//! A set of tables: construction, operation, snapshots, checkpoints and memory.

mod builder;
mod change_log;
mod checkpoint;
mod checkpoint_thread;
mod differences;
mod memory_gate;
mod operate;
mod restore;
mod shared;
mod snapshot;

pub use builder::EngineBuilder;
pub use differences::Difference;
pub use memory_gate::MemoryGate;
pub use restore::{Restored, Rules};
pub use shared::Engine;
