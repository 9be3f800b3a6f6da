//! A run as observers see it: the logs of its processes, its workers, and orders to stop it.
//!
//! All of this passes through tables with a single item, which each insert replaces, so a slow observer does not slow
//! down the run.

mod log_lines;
mod log_reader;
mod log_writer;
mod plan_state;
mod printable;
mod stop_order;
mod worker_stats;

pub use log_lines::LogLines;
pub use log_reader::{LogLine, LogReader};
pub use log_writer::host_name;
pub(crate) use log_writer::{LogWriter, Origin, tables as log_tables, tables_of as log_tables_of};
pub use plan_state::{Graph, look};
pub(crate) use plan_state::{Phase, PlanStateWriter, Position, table as plan_table};
pub use printable::printable;
pub use stop_order::order_stop;
pub(crate) use stop_order::{StopOrders, table as stop_table};
pub(crate) use worker_stats::WorkerStats;
