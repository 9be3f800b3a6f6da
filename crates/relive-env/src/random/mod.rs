//! Random streams that match numpy's bit for bit: the same seed gives the same episodes in the original and here.
//!
//! [`RandomState`] is the legacy generator that bsuite uses; [`Generator`] is the newer generator that Gymnasium uses.

mod generator;
mod mt19937;
mod pcg64;
mod random_state;
mod seed_sequence;

pub use generator::Generator;
pub use random_state::RandomState;
