//! The costs of a run's parts, and a prediction of the run's speed on more machines, or with more workers and
//! environments.
//!
//! [`measure`](crate::cost::Probe::measure) runs the agent's own plan for a few seconds, with one worker
//! behind a connection, and measures the processor time of each thread. [`Costs::predict`] only performs arithmetic on
//! these numbers, so equal costs give equal predictions.

mod acting;
mod costs;
mod moment;
mod predict;
mod probe;
mod threads;

pub use costs::{ActCost, Costs, TableCost, WeightCost};
pub use predict::{Cluster, Prediction, TableRate, Use};
pub use probe::Probe;
