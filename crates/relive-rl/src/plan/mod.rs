//! Agents' plans, and the building blocks of plans.
//!
//! An [`Agent`] provides a [`Policy`](crate::Policy), which acts in many environments at once, and a plan: a
//! [`Flow`](relive_flow::Flow) of [`Progress`], built from the resources of its [`Crew`].
//! [`train`](crate::run::train) pulls from the plan until the run has completed its steps.
//!
//! ```
//! # use relive_flow::Flow;
//! # use relive_rl::plan::{Crew, Learn, Progress};
//! # use relive_rl::{Learner, Result, Rollout};
//! /// The plan of every agent that learns from its newest experience.
//! fn on_policy(crew: &Crew, learner: impl Learner<Batch = Rollout> + 'static, steps: usize) -> Result<Flow<Progress>> {
//!     let learner = crew.learner(learner)?;
//!     Ok(crew.rollouts(steps)?.sync()?.learn(learner))
//! }
//! ```

mod agent;
mod crew;
mod environments;
mod filling;
mod hooks;
mod learn;
mod progress;
mod replay;
mod replay_table;
mod saved_parts;
mod sequences;
mod shared_learner;
mod source;
mod transitions;
mod workers;

pub(crate) use agent::policies_of;
pub use agent::{Agent, MakeAgent, settings_of};
pub use crew::Crew;
pub(crate) use crew::{CrewParts, Role};
pub use environments::{MakeEnvironment, MakeNamed, MakeRows, Rows};
pub(crate) use hooks::RunHooks;
pub use hooks::{AfterBatch, Evaluated, Hooks, LearnerInput};
pub use learn::{Batch, Learn, UpdatePriorities};
pub use progress::Progress;
pub(crate) use progress::next_progress;
pub use relive_client::SampleBatch;
pub use relive_client::blocking::Client;
pub use replay_table::{ReplayTable, for_recorded_data};
pub(crate) use saved_parts::{EarlierLearner, SavedParts, WARM_START};
pub use sequences::Sequences;
pub use shared_learner::SharedLearner;
pub use source::BatchSource;
pub use transitions::Transitions;
pub use workers::Workers;
