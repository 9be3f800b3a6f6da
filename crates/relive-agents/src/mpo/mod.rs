//! Maximum a posteriori policy optimisation: MPO, and DMPO, whose critic outputs distributions.
//!
//! `settings.rs` has the common settings, `learner.rs` the gradient step; each agent has a file for its own settings.

mod dmpo;
mod learner;
mod plain;
mod plan;
mod settings;

pub use dmpo::DmpoConfig;
pub use plain::MpoConfig;
