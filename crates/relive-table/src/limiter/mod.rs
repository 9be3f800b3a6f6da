//! The rate limiter, which keeps samples and inserts in proportion.

mod config;
mod missing;
mod shortfall;
mod state;

pub use config::{ErrorBuffer, MAX_SAMPLES_PER_INSERT, RateLimiterConfig, RateLimiterError};
pub use shortfall::Shortfall;
pub use state::{CountError, Paused, RateLimiter};
