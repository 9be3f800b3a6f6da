//! Concurrency around pure tables: handles, waiting, deadlines, cancellation, orderly shutdown.
//!
//! An [`Engine`] owns a set of tables and the account of every live chunk. A [`TableHandle`] is cheap to clone and safe
//! to use from many tasks. Operations that the rate limiter forbids wait in two queues per table, one for inserts and
//! one for samples, each strictly first come, first served. There is no worker thread that could die: whoever changes
//! a table also serves, under the same short lock, the waiters that the change lets through, and wakes them after the
//! lock is gone.
//!
//! * A sample request that is dropped or times out while it waits takes nothing.
//! * An insert is confirmed after the table holds it, and only then. Once a table is closed, inserts still waiting
//!   fail; none is confirmed.
//! * References to removed items are dropped after the table's lock, so that freeing memory never holds up a table.
//! * Chunks may have a bound in memory; writers wait before it ([`MemoryGate`]).
//! * Every waiter can be listed with what it waits for, how much is missing, and since when ([`WaiterInfo`]).
//!
//! Inside, arrows point down: `engine` (all tables together), `spill` (moving chunks to disk), `catalogue` (handles,
//! and the list of tables), `shards` (one table in several parts), `table` (one table under one lock), and `memory`;
//! `checkpoint` has who shares which checkpoint.

mod catalogue;
mod checkpoint;
mod engine;
mod error;
pub mod limits;
mod memory;
mod shards;
mod spill;
mod sync;
mod table;

pub use catalogue::{PeekedItem, SampleFuture, TableHandle};
pub use checkpoint::PendingCheckpoint;
pub use engine::{Difference, Engine, EngineBuilder, MemoryGate, Restored, Rules};
pub use error::{BuildError, EngineError};
pub use memory::{MemoryStatus, MemoryWaiter, process_bytes};
pub use relive_table::ErrorKind;
pub use table::{
    Accepted, Confirmations, CopiedSamples, ItemPage, ListedItem, Mutation, Operation, Outcome,
    SampleRequest, TableStatus, WaiterInfo,
};
