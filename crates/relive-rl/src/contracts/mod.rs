//! The parts of an agent: policies, learners, and the data between them.

mod learner;
mod peers;
mod policy;
mod policy_context;
mod weights;

pub use learner::{Learner, Learnt};
pub use peers::Peers;
pub use policy::{ActStep, Policy};
pub(crate) use policy_context::MakePolicy;
pub use policy_context::{PolicyContext, Purpose};
pub(crate) use weights::WeightStore;
pub use weights::Weights;
