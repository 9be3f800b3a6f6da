//! What agents share that learn a policy and the value of states from what they have just seen: PPO and A2C.

mod advantages;
mod experience;
mod head;
mod learner;
mod loss;
mod moments;
mod network;
mod policy;
mod settings;

pub use advantages::{Advantages, generalized_advantages};
pub use learner::ActorCriticLearner;
pub use policy::ActorCriticPolicy;
pub use settings::{Optimization, Settings};

pub(crate) use head::{HALF_LOG_TWO_PI, Head};
pub(crate) use settings::plan;
