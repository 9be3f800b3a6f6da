//! One table under one lock, and the operations that wait for it.
//!
//! [`State`] is plain data behind the lock of a [`TableCore`]. A [`Change`] is made and the waiters are served
//! ([`State::serve_waiters`]) under the lock. The remaining work ([`AfterUnlock`]) is done after the lock has been
//! released: dropping references, reporting outcomes and waking tasks.

mod after_unlock;
mod change;
mod columns;
mod confirmations;
mod insert;
mod listing;
mod mutate;
mod published;
mod request;
mod rows;
mod sample;
mod serve;
mod slot;
mod state;
mod status;
mod table_core;

pub(crate) use after_unlock::AfterUnlock;
pub(crate) use change::Change;
pub use confirmations::{Confirmations, Outcome};
pub use listing::{ItemPage, ListedItem};
pub(crate) use mutate::MUTATIONS_PER_LOCK;
pub(crate) use published::Published;
pub use request::{Accepted, Mutation, SampleRequest};
pub use rows::CopiedSamples;
pub(crate) use serve::cost_bytes;
pub(crate) use slot::Slot;
pub(crate) use state::{SampleResult, State, WaitingSample};
pub use status::{Operation, TableStatus, WaiterInfo};
pub(crate) use table_core::{Peers, TableCore};
