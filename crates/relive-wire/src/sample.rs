//! Samples on the wire: packing them into response messages, and reassembling them.

mod assemble;
mod layout;
mod pack;
mod received;
mod writer;

pub use assemble::Assembler;
pub use layout::{ReceivedColumn, ReceivedSlice, TrajectoryLayout};
pub use pack::{EncodedMessage, Packer, packed_bytes};
pub use received::{ReceivedInfo, ReceivedSample};
