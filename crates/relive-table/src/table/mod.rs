//! The table: one file per operation, over the state that they share.

mod hooks;
mod info;
mod insert;
mod remove;
mod sample;
mod state;
mod update;

pub use info::TableInfo;
pub use insert::InsertOutcome;
pub(crate) use state::Contents;
pub(crate) use state::State;
pub use state::Table;
