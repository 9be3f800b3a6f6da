//! What a run costs, item by item, and how fast it would be elsewhere: on more machines, with more workers and
//! environments.
//!
//! [`measure`](crate::cost::Probe::measure) runs the agent's own plan for a few seconds, with one worker behind a
//! connection, and counts what each thread takes of a processor. [`Costs::predict`] is arithmetic on that, and
//! nothing else: the same costs give the same prediction.

mod acting;
mod costs;
mod moment;
mod predict;
mod probe;
mod threads;

pub use costs::{ActCost, Costs, TableCost, WeightCost};
pub use predict::{Cluster, Prediction, TableRate, Use};
pub use probe::Probe;
