//! A writer's columns: the cells that they keep, the groups that share chunks, and the recorder of all columns, which
//! uses neither a clock nor the network.

mod append_error;
mod cells;
mod column;
mod column_state;
mod group;
mod index;
mod recorder;

pub use append_error::{AppendFault, AppendMismatch};
pub use column::Column;

pub(crate) use column::{CellSpec, Run, Runs, item_shape, push_run};
pub(crate) use column_state::{ColumnName, ColumnState};
pub(crate) use group::FinishedChunks;
pub(crate) use index::{IndexError, resolve, resolve_range};
pub(crate) use recorder::{Cell, Recorder};
