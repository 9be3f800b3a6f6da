//! DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), returns over several steps, prioritized
//! replay with importance weights (Schaul et al. 2016) and, optionally, a duelling network (Wang et al. 2016) or other
//! [losses](DqnLoss).

mod agent;
mod config;
mod implicit;
mod learner;
mod loss;
mod network;
mod noise;
mod policy;

pub use config::{DqnConfig, DqnLoss};
