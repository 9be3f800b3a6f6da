//! The parts shared by on-policy actor-critic agents: PPO, A2C and A3C.

mod advantages;
mod experience;
mod gradient;
mod head;
mod learner;
mod loss;
mod minibatch;
mod moments;
mod network;
mod plan;
mod policy;
mod settings;

pub use advantages::{Advantages, generalized_advantages};
pub use learner::ActorCriticLearner;
pub use policy::ActorCriticPolicy;
pub use settings::{Optimization, Settings};

pub(crate) use head::{Head, WIDEST};
pub(crate) use loss::{HALF_LOG_TWO_PI, PolicyLoss, PolicyMetrics, value_loss};
pub(crate) use minibatch::{MetricSums, standardize};
pub(crate) use moments::Moments;
pub(crate) use settings::share_left;
