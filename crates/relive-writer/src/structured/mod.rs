//! The structured writer: patterns define which steps of which columns form an item, and when.

mod condition;
mod config;
mod flat_step;
mod node;
mod options;
mod reference;
mod validation;
mod values;
mod writer;

pub use condition::{Condition, OperandBuilder};
pub use config::{PriorityFn, StructuredConfig};
pub use node::{PatternNode, SourceColumn};
pub use options::StructuredWriterOptions;
pub use reference::{ReferenceStep, reference_step};
pub use writer::StructuredWriter;
