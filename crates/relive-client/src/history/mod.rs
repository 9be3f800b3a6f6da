//! What a writer remembers of the steps it was given: one list of cells per column, sliced like a Python list but
//! without its silent answers.

mod column;
mod index;
mod view;

pub use column::Column;
pub use view::{ColumnHistory, History};

pub(crate) use column::{Cell, CellSpec};
pub(crate) use index::IndexError;
