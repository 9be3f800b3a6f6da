//! Maximum a posteriori policy optimization: MPO, and DMPO, whose critic outputs distributions.
//!
//! `settings.rs` has the common settings, `learner.rs` the plan and the gradient step; each agent has its own file of
//! settings.

mod dmpo;
mod learner;
mod plain;
mod settings;

pub use dmpo::DmpoConfig;
pub use plain::MpoConfig;
