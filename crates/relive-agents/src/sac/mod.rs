//! Soft actor-critic.
//!
//! [`SacConfig`] has settings and plan, `gradients.rs` what the formulas come to in a batch, `learner.rs` a gradient step.

mod agent;
mod gradients;
mod learner;

pub use agent::SacConfig;
