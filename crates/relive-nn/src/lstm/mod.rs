//! The LSTM, over whole sequences.

mod kernel;
mod layer;
mod network;
mod sequence;
mod tape;

pub use layer::Lstm;
pub use network::{RecurrentNetwork, RecurrentScratch};
pub use sequence::{LstmState, Steps};
