//! Soft actor-critic.
//!
//! [`SacConfig`] defines the settings, `agent.rs` the plan, `gradients.rs` the formulas for a batch, and `learner.rs` a
//! gradient step.

mod agent;
mod config;
mod gradients;
mod learner;

pub use config::SacConfig;
