//! Writers, which convert steps to columns and create items from them.

mod append_error;
mod column_history;
mod layout;
mod structured_writer;
mod trajectory_writer;
mod writer_state;

pub(crate) use structured_writer::{StructuredWriter, to_configs};
pub(crate) use trajectory_writer::{TrajectoryWriter, end_writers};
