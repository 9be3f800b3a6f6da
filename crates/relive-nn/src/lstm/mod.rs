//! The LSTM, over whole sequences.

mod kernel;
mod layer;
mod network;
mod tape;

pub use layer::{Lstm, LstmState, Steps};
pub use network::{RecurrentNetwork, RecurrentScratch};
