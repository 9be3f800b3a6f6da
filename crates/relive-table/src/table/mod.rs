//! The table: one file per operation.

mod base;
mod capture;
mod change;
mod hooks;
mod info;
mod insert;
mod remove;
mod restore;
mod rows;
mod sample;
mod update;

pub use base::Table;
pub use info::TableInfo;
pub use insert::{Evicted, InsertOutcome};
pub use restore::RestoreError;
pub use rows::MAX_ROWS_AT_ONCE;
pub use update::RefusedUpdate;
