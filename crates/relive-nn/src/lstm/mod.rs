//! The LSTM, over whole sequences.

mod kernel;
mod layer;
mod tape;

pub use layer::{Lstm, LstmState, Steps};
