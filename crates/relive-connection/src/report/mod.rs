//! Reports from servers, and from engines in this process.

mod info;
mod memory;
mod status;
mod waits;

pub use info::{ServerInfo, StateId};
pub use memory::MemoryStatus;
pub use status::{ServerStatus, TableStatus};
pub use waits::{Waiter, WaiterOperation, Waits};

pub(crate) use status::unreadable_checkpoint;
