//! Agents that act by the values of actions, and learn these from transitions: what is their own is where values come from and how they are
//! improved. [`dqn`](crate::dqn) is one.

mod actor;
mod agent;
mod batch;
mod experience;
mod learner;

pub use actor::{ValueActor, ValueSpace};
pub use agent::{ActionValues, ValueAgent, ValueLearning};
pub use batch::Transitions;
pub use experience::Experience;
pub(crate) use experience::check;
pub use learner::ValueLearner;
