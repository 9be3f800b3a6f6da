//! Agents that learn from what a table has, without acting: they imitate what was done there, or improve on it
//! without going far from it.
//!
//! `replay.rs` has table and plan, `regression.rs` the part that most of them share: the policy is fitted to actions
//! of the table, some of which count more than others.

mod bc;
mod bc_agent;
mod bcq;
mod bcq_agent;
mod bcq_learner;
mod cql;
mod crr;
mod imitation;
mod iql;
mod regression;
mod replay;

pub use bc::BcConfig;
pub use bcq::BcqConfig;
pub use cql::CqlConfig;
pub use crr::{CrrConfig, CrrWeight};
pub use iql::IqlConfig;

pub(crate) use replay::Recorded;
