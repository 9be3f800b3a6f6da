//! R2D2: Q-learning with a memory (Kapturowski et al. 2019).

mod agent;
mod config;
mod learner;
mod network;
mod policy;

pub use config::R2d2Config;
