//! Maximum a posteriori policy optimization: MPO, and DMPO, whose critic outputs distributions.
//!
//! `settings.rs` defines the common settings, and `learner.rs` the plan and the gradient step. Each agent has its own
//! settings file.

mod dmpo;
mod learner;
mod plain;
mod settings;

pub use dmpo::DmpoConfig;
pub use plain::MpoConfig;
