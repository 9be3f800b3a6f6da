//! The parts of an agent: policies, learners, and the data between them.

mod learner;
mod peers;
mod policy;
mod seat;
mod weights;

pub use learner::{Learner, Learnt};
pub use peers::Peers;
pub use policy::{ActStep, Policy};
pub(crate) use seat::MakePolicy;
pub use seat::{Purpose, Seat};
pub(crate) use weights::WeightStore;
pub use weights::Weights;
