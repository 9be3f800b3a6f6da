//! Agents with a deterministic policy that ascends the value of its actions (Silver et al. 2014): DDPG, TD3 and D4PG,
//! and TD3+BC, which learns offline.
//!
//! `settings.rs` defines their differences, and `learner.rs` the common plan and gradient step. Each agent has its own
//! settings file.

mod d4pg;
mod ddpg;
mod learner;
mod settings;
mod td3;
mod td3_bc;

pub use d4pg::D4pgConfig;
pub use ddpg::DdpgConfig;
pub use td3::Td3Config;
pub use td3_bc::Td3BcConfig;
