//! Property tests of the crate: round trips, naive models, damaged and arbitrary bytes.

mod account;
mod chunk;
mod chunker;
mod codec;
mod delta;
mod strategies;
mod tensor;
mod trajectory;
