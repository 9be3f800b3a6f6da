//! The LSTM, over whole sequences.

mod kernel;
mod layer;
mod network;
mod tape;

pub use kernel::{LstmState, Steps};
pub use layer::Lstm;
pub use network::{RecurrentNetwork, RecurrentScratch};
