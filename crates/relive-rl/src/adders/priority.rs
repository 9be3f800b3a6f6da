//! Priorities of items.

use relive_client::{Column, Nest};

use crate::Result;

/// Finds a priority by what is in the item.
pub type PriorityFn = dyn FnMut(&Nest<Column>) -> Result<f64> + Send;

/// How the priority of an item is found.
pub enum Priority {
    /// Always the same.
    Constant(f64),
    /// By what is in the item; [`Column::to_tensor`] gives the numbers of a column.
    Of(Box<PriorityFn>),
}

impl Priority {
    pub(super) fn of(&mut self, trajectory: &Nest<Column>) -> Result<f64> {
        match self {
            Priority::Constant(priority) => Ok(*priority),
            Priority::Of(function) => function(trajectory),
        }
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::Constant(1.0)
    }
}
