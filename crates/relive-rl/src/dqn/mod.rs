//! DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), returns over several steps, prioritised replay with importance
//! weights (Schaul et al. 2016) and, if asked for, a duelling network (Wang et al. 2016) or other [losses](DqnLoss).

mod agent;
mod config;
mod learning;
mod loss;
mod network;
mod policy;
mod presets;
mod saved;
mod shape;

pub use config::DqnConfig;
pub use loss::DqnLoss;
pub use network::QNetwork;
pub use policy::Policy;
pub(crate) use shape::num_actions;
pub use shape::{LeafShape, NetworkShape};
