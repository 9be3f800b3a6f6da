//! The table: one file per operation, over the state that they share.

mod capture;
mod change;
mod hooks;
mod info;
mod insert;
mod remove;
mod restore;
mod rows;
mod sample;
mod state;
mod update;

pub use info::TableInfo;
pub use insert::{Evicted, InsertOutcome};
pub use restore::RestoreError;
pub use rows::MAX_ROWS_AT_ONCE;
pub(crate) use state::Contents;
pub(crate) use state::State;
pub use state::Table;
pub use update::RefusedUpdate;
