//! Protocol messages of Relive and their conversions to and from domain types. This crate uses no sockets.
//!
//! There are two protocols: [`reverb`], bit-compatible with dm-reverb's `deepmind.reverb.ReverbService`, and [`v1`],
//! Relive's own service. This is the only crate that uses protobuf; all others use tables, items and chunks.
//!
//! Messages come from untrusted peers. They are validated only in the conversions to domain types. Each error states
//! the fault and its location ([`WireError`]).

pub mod bulk;
pub mod checkpoint;
pub mod checkpoint_status;
pub mod chunk;
pub mod codec;
pub mod dtype;
mod error;
pub mod framing;
pub mod item;
pub mod item_run;
pub mod limits;
mod nested;
pub mod operate;
mod proto;
mod reader;
pub mod request;
pub mod sample;
pub mod signature;
pub mod structure;
pub mod table;
pub mod text;
pub mod textproto;

pub use error::WireError;
pub use prost::Message;
pub use proto::{reverb, tensorflow, v1};
