//! Agents as plans: how experience is made and what is learned from it, as a dataflow that runs in one thread or in several.
//!
//! An [`Agent`] gives a [`Policy`], which acts in many environments at once, and a plan: a [`Flow`](relive_flow::Flow) of [`Progress`]
//! that it makes of what its [`Crew`] offers. [`train`] pulls at the plan until there were steps enough.
//!
//! ```
//! # use relive_rl::Result;
//! # use relive_rl::plan::{Crew, Learn, Learner, Progress, Rollout, Rollouts};
//! # use relive_flow::Flow;
//! /// The plan of every agent that learns from what it has just seen.
//! fn on_policy(crew: &Crew, learner: impl Learner<Batch = Rollout> + 'static, steps: usize) -> Result<Flow<Progress>> {
//!     let learner = crew.learner(learner)?;
//!     Ok(crew.rollouts(steps)?.sync().learn(learner))
//! }
//! ```

mod agent;
mod crew;
mod described;
mod kept;
mod learner;
mod operators;
mod patience;
mod policy;
mod replay;
mod replay_table;
mod rollout;
mod run;
mod saved_policy;
mod transitions;
mod weights;
mod worker;

pub use crate::experiment::identity::settings_of;
pub use agent::{Agent, Seat};
pub use crew::{Crew, MakeEnvironment, Workers};
pub use learner::{Learner, Learnt, SharedLearner};
pub use operators::{Batch, Learn, Rollouts};
pub use policy::{ActStep, Policy};
pub use relive_client::SampleBatch;
pub use replay_table::ReplayTable;
pub use rollout::{Acted, Progress, Rollout};
pub use run::{Trained, train};
pub use saved_policy::{MakeAgent, SavedPolicy};
pub use transitions::Transitions;
pub use weights::{WeightStore, Weights};
pub use worker::RolloutWorker;
