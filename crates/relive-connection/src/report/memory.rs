//! The memory of chunks, as reported by servers and by engines in this process.

use relive_engine::process_bytes;
use relive_wire::v1;

use super::waits::{Waiter, WaiterOperation};

/// The bound on chunks in memory, and the writers that are waiting for memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryStatus {
    /// The bound on the bytes of chunks in memory, if any.
    pub max_bytes: Option<u64>,
    /// The memory of the server's process in bytes, if its system reports it.
    pub process_bytes: Option<u64>,
    /// The writers that are waiting for memory, longest wait first.
    pub waiters: Vec<Waiter>,
    /// The number of further waiters.
    pub waiters_not_listed: u64,
    /// The reason why the last attempt to move chunks to disk failed. The chunks stay in memory.
    pub spill_error: Option<String>,
}

impl MemoryStatus {
    pub(super) fn of_engine(status: &relive_engine::MemoryStatus) -> MemoryStatus {
        let reason = status.reason();
        let waiter = |waiter: &relive_engine::MemoryWaiter| Waiter {
            operation: WaiterOperation::Insert,
            who: (*waiter.who).to_owned(),
            waiting: waiter.waiting,
            reason: reason.clone(),
            missing: 0,
            wanted: 0,
        };
        MemoryStatus {
            max_bytes: status.max_bytes,
            process_bytes: process_bytes(),
            waiters: status.waiters.iter().map(waiter).collect(),
            waiters_not_listed: u64::try_from(status.waiters_not_listed).unwrap_or(u64::MAX),
            spill_error: status.spill_error.clone(),
        }
    }

    pub(super) fn from_message(message: v1::Memory) -> MemoryStatus {
        MemoryStatus {
            max_bytes: Some(message.max_bytes).filter(|bytes| *bytes > 0),
            process_bytes: Some(message.process_bytes).filter(|bytes| *bytes > 0),
            waiters: message.waiters.into_iter().map(Waiter::from_message).collect(),
            waiters_not_listed: message.waiters_not_listed,
            spill_error: Some(message.spill_error).filter(|error| !error.is_empty()),
        }
    }
}
