//! What agents implement.

mod agent;
mod learner;
mod policy;
mod saveable;
mod weights;

pub use agent::{Agent, Purpose, Seat, settings_of};
pub use learner::{Learner, Learnt};
pub use policy::{ActStep, Policy};
pub use saveable::Saveable;
pub(crate) use weights::WeightStore;
pub use weights::Weights;
