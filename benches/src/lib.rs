//! Measurements of Relive: criterion benches in `benches/`, load programs in `src/bin/`, and `peers/`, side by side with
//! dm-reverb.
