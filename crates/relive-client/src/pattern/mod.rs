//! Patterns of a [`StructuredWriter`](crate::StructuredWriter): which steps of which columns make an item, and when.

mod condition;
mod config;
mod node;
mod priority;

pub use condition::{Comparison, Condition, Operand, OperandBuilder};
pub use config::StructuredConfig;
pub use node::{PatternNode, SourceColumn, reference_step};
pub use priority::PriorityFn;

pub(crate) use priority::td_error;

pub(crate) use condition::Situation;
pub(crate) use config::validate_all;
