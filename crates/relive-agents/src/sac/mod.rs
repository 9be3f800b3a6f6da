//! Soft actor-critic.
//!
//! [`SacConfig`] has settings and plan, `network.rs` policy and critics, `loss.rs` the formulas.

mod agent;
mod learner;
mod loss;
mod network;
mod policy;

pub use agent::SacConfig;
