//! Collection: copies windows of trajectories into batches.

mod batch;
mod collector;
mod convert;
mod copy;
mod plan;
mod remote;
mod window;

#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchColumn};
pub(crate) use collector::check_rows;
pub use collector::{CollectOptions, Collector};
pub use convert::Convert;
pub(crate) use convert::is_float;
pub use plan::{BatchPlan, ColumnPlan, MAX_WINDOWS, OUTPUT_ALIGNMENT, RowPlan};
pub(crate) use window::span_from;
pub use window::{Cast, Pad, Span, Window, span};
