//! Measurements of Relive: criterion benches in `benches/`, programs in `src/bin/`, and `peers/`, side by side with dm-reverb and
//! other replay buffers.

/// What a program of measurements came to: whatever went wrong ends it.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
