//! Measurements of Relive: criterion benches in `benches/`, programs in `src/bin/`, and `peers/`, side by side with
//! dm-reverb and other replay buffers.

mod outcome;

pub use outcome::Outcome;
