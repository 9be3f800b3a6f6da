//! The rate limiter: how far sampling may run ahead of inserting, and the other way round.

mod config;
mod missing;
mod shortfall;
mod state;

pub use config::{ErrorBuffer, MAX_SAMPLES_PER_INSERT, RateLimiterConfig, RateLimiterError};
pub use shortfall::Shortfall;
pub use state::{CountError, Paused, RateLimiter};
