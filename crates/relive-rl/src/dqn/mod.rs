//! DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), returns over several steps, prioritised replay with importance
//! weights (Schaul et al. 2016) and, if asked for, a duelling network (Wang et al. 2016).

mod actor;
mod batch;
mod config;
mod learner;
mod network;

pub use actor::DqnActor;
pub use config::DqnConfig;
pub(crate) use config::TABLE;
pub use learner::DqnLearner;
pub use network::QNetwork;
