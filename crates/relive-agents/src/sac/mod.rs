//! Soft actor-critic.
//!
//! [`SacConfig`] has the settings, `agent.rs` the plan, `gradients.rs` what the formulas come to in a batch,
//! `learner.rs` a gradient step.

mod agent;
mod config;
mod gradients;
mod learner;

pub use config::SacConfig;
