//! Agents that learn from a table without acting: they imitate the recorded actions, or improve on them while staying
//! close to them.
//!
//! `replay.rs` contains the table and the plan. `regression.rs` contains the part that most of these agents share,
//! which fits the policy to weighted actions from the table.

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
