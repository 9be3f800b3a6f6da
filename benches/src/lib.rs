//! Measurements of Relive: criterion benches in `benches/`, programs in `src/bin/`, and comparisons with dm-reverb and
//! other replay buffers in `peers/`.

mod outcome;

pub use outcome::Outcome;
