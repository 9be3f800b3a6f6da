//! Concurrent access to tables: handles, waiting, deadlines, cancellation, orderly shutdown.
//!
//! An [`Engine`] owns a set of tables and the ledger of every live chunk. A [`TableHandle`] is cheap to clone and safe
//! to use from many tasks. Operations that the rate limiter blocks wait in two queues per table, one for inserts and
//! one for samples, each of which is served strictly in order of arrival. No worker thread serves them: the caller that
//! changes a table also serves the waiters that the change unblocks. It does so under the same short lock, and wakes
//! the waiters after it has released the lock.
//!
//! * A sample request that is dropped or times out while it waits takes no samples.
//! * An insert is confirmed only after the table holds the item. When a table is closed, waiting inserts fail; none of
//!   them is confirmed.
//! * References to removed items are dropped after the table's lock is released, so that freeing memory never blocks a
//!   table.
//! * The memory of chunks can be bounded; writers wait when the bound is reached ([`MemoryGate`]).
//! * Every waiter can be listed with the condition that it is waiting for, how far that condition is from being met,
//!   and how long it has waited ([`WaiterInfo`]).
//!
//! The modules are layered, top down: `engine` (all tables together), `spill` (moving chunks to disk), `catalogue`
//! (handles, and the list of tables), `shards` (one table in several parts), `table` (one table under one lock), and
//! `memory`. `checkpoint` decides which callers share which checkpoint; `log_throttle` limits the rate of log messages.

mod catalogue;
mod checkpoint;
mod engine;
mod error;
pub mod limits;
mod log_throttle;
mod memory;
mod shards;
mod spill;
mod sync;
mod table;

pub use catalogue::{PeekedItem, SampleFuture, TableHandle, Undelivered};
pub use checkpoint::PendingCheckpoint;
pub use engine::{Difference, Engine, EngineBuilder, MemoryGate, Restored, Rules};
pub use error::{BuildError, EngineError};
pub use log_throttle::LogThrottle;
pub use memory::{MemoryStatus, MemoryWaiter, process_bytes};
pub use relive_table::ErrorKind;
pub use table::{
    Accepted, Confirmations, CopiedSamples, ItemPage, ListedItem, Mutation, Operation, Outcome,
    SampleRequest, TableStatus, WaiterInfo,
};
