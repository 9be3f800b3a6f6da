//! A set of tables under one roof: making it, operating it, its snapshots, its checkpoints, its memory.

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
