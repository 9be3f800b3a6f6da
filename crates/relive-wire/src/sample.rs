//! Samples on the wire: packing them into response messages, and putting them together again.

mod assemble;
mod pack;
mod writer;

pub use assemble::{Assembler, ReceivedSample};
pub use pack::{EncodedMessage, Packer};
