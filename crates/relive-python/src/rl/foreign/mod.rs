//! What is written in Python and called from Rust: environments, and agents with their policies and learners.
//!
//! Python's side of each is a bridge, which speaks in lists of arrays: `relive.rl._bridge` has that of environments,
//! `relive.rl._own` those of agents.

mod agent;
mod environment;
mod experience;
mod given;
mod learner;
mod metrics;
mod policy;
mod raised;
mod rollout;
mod weights;

pub(super) use agent::ForeignAgent;
pub(super) use environment::ForeignEnvironments;
pub(super) use raised::Raised;
pub(super) use rollout::Rollouts;
