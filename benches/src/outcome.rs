//! How the programs end.

/// What a program of measurements came to: whatever went wrong ends it.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
