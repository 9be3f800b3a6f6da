//! Writers, which take steps and create items.
//!
//! From the bottom up: `chunks` encodes steps, once for all items; `columns` keeps the newest steps of each column and
//! cuts chunks; `history` gives the user access to them; `items` holds unconfirmed items and divides them into
//! requests; `links` carry items to their tables; `trajectory` and `structured` contain the public writers.
#![forbid(unsafe_code)]

mod chunks;
mod columns;
mod history;
mod items;
mod links;
mod structured;
mod trajectory;

pub use columns::{AppendFault, AppendMismatch, Column};
pub use history::{CellState, ColumnHistory, History, WeakCell};
pub use items::TrajectoryColumns;
pub use structured::{
    Condition, OperandBuilder, PatternNode, PriorityFn, ReferenceStep, SourceColumn, StructuredConfig,
    StructuredWriter, StructuredWriterOptions, reference_step,
};
pub use trajectory::{TrajectoryWriter, TrajectoryWriterOptions, Windows, insert};
