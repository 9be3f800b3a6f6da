//! Python code that Rust calls: environments, and agents with their policies and learners.
//!
//! In Python, each environment, policy and learner is wrapped in a bridge that exchanges lists of arrays:
//! `relive.rl._bridge` contains the bridge of environments, and `relive.rl._own` contains the bridges of agents.

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
