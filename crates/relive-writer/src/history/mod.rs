//! What a writer remembers of the steps it was given: one list of cells per column, sliced like a Python list but
//! without its silent answers.

mod view;
mod weak;

pub use view::{ColumnHistory, History};
pub use weak::{CellState, WeakCell};

pub(crate) use view::column_error;
