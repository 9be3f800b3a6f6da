//! What a writer remembers of the steps it was given: one list of cells per column, sliced like a Python list but
//! without its silent answers.

mod column;
mod index;
mod run;
mod view;
mod weak;

pub use column::Column;
pub use view::{ColumnHistory, History};
pub use weak::{CellState, WeakCell};

pub(crate) use column::{CellSpec, item_shape};
pub(crate) use index::{IndexError, resolve};
#[cfg(test)]
pub(crate) use run::Run;
pub(crate) use run::{Runs, push_run};
pub(crate) use view::column_error;
