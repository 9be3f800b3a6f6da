//! The writer that makes items by itself: patterns say which steps of which columns make an item, and when.

mod condition;
mod config;
mod flat_step;
mod node;
mod options;
mod priority;
mod values;
mod writer;

pub use condition::{Comparison, Condition, Operand, OperandBuilder};
pub use config::StructuredConfig;
pub use node::{PatternNode, SourceColumn, reference_step};
pub use options::StructuredWriterOptions;
pub use priority::PriorityFn;
pub use writer::StructuredWriter;
