//! What plans are made of.
//!
//! An [`Agent`](crate::Agent) gives a [`Policy`](crate::Policy), which acts in many environments at once, and a plan: a
//! [`Flow`](relive_flow::Flow) of [`Progress`] that it makes of what its [`Crew`] offers. [`train`](crate::run::train) pulls at the plan until there
//! were steps enough.
//!
//! ```
//! # use relive_flow::Flow;
//! # use relive_rl::plan::{Crew, Learn, Progress};
//! # use relive_rl::{Learner, Result, Rollout};
//! /// The plan of every agent that learns from what it has just seen.
//! fn on_policy(crew: &Crew, learner: impl Learner<Batch = Rollout> + 'static, steps: usize) -> Result<Flow<Progress>> {
//!     let learner = crew.learner(learner)?;
//!     Ok(crew.rollouts(steps)?.sync()?.learn(learner))
//! }
//! ```

mod crew;
mod environments;
mod learn;
mod progress;
mod replay;
mod replay_table;
mod sequences;
mod shared_learner;
mod source;
mod transitions;
mod workers;

pub use crew::Crew;
pub(crate) use crew::{Inner, Place};
pub use environments::{MakeEnvironment, MakeRows, Rows};
pub use learn::{Batch, Learn, UpdatePriorities};
pub use progress::Progress;
pub use relive_client::SampleBatch;
pub use relive_client::blocking::Client;
pub use replay_table::{ReplayTable, unlimited};
pub use sequences::Sequences;
pub use shared_learner::SharedLearner;
pub use source::BatchSource;
pub use transitions::Transitions;
pub use workers::Workers;
