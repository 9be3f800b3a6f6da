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

mod aftermath;
mod capture;
mod catalogue;
mod change;
mod checkpoint;
mod cold;
mod columns;
mod confirmations;
mod describe;
mod differences;
mod engine;
mod error;
mod group;
mod handle;
pub mod limits;
mod listing;
mod memory;
mod operate;
mod process;
mod pump;
mod request;
mod restore;
mod rows;
mod sample;
mod slot;
mod state;
mod survey;
mod sync;
mod table_core;

pub use checkpoint::PendingCheckpoint;
pub use confirmations::{Confirmations, Outcome};
pub use describe::{Operation, TableStatus, WaiterInfo};
pub use differences::Difference;
pub use engine::{BuildError, Engine, EngineBuilder};
pub use error::{EngineError, ErrorKind};
pub use handle::TableHandle;
pub use listing::{ItemPage, ListedItem};
pub use memory::{MemoryGate, MemoryStatus, MemoryWaiter};
pub use process::process_bytes;
pub use request::{Accepted, Mutation, SampleRequest};
pub use restore::{Restored, Rules};
pub use rows::CopiedSamples;
pub use sample::SampleFuture;
pub use survey::Surveyed;
