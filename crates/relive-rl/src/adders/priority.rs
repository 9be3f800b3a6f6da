//! Priorities of items.

use std::fmt;

use relive_client::{Column, Nest};

use crate::Result;

/// Computes a priority from the content of the item.
pub type PriorityFn = dyn FnMut(&Nest<Column>) -> Result<f64> + Send;

/// The rule for the priority of an item.
pub enum Priority {
    /// The same priority for every item.
    Constant(f64),
    /// A priority computed from the content of the item; [`Column::to_tensor`] returns the numbers of a column.
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

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Priority::Constant(priority) => f.debug_tuple("Constant").field(priority).finish(),
            Priority::Of(_) => f.debug_tuple("Of").finish_non_exhaustive(),
        }
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::Constant(1.0)
    }
}
