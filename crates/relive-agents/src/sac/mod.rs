//! Soft actor-critic.
//!
//! [`SacConfig`] has settings and plan, `network.rs` policy and critics, `loss.rs` the formulas and `gradients.rs` what they come to in a batch.

mod agent;
mod gradients;
mod learner;
mod loss;
mod network;
mod policy;

pub use agent::SacConfig;
