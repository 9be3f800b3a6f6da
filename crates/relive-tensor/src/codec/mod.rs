//! Codecs for chunk payloads: bytes of fixed-size elements ([`Codec`]), strings ([`strings`]), differences ([`delta`]).
//!
//! Payloads of every codec can be *validated* without storing the output. A valid payload decodes to exactly the
//! expected length.
//!
//! A new codec also needs its numbers: in `relive-wire` (`codec.rs`, `proto/relive/v1/codec.proto`) and in
//! `relive-checkpoint` (`layout/codes.rs`).

mod coding;
pub mod delta;
mod error;
mod kind;
mod lz4;
mod set;
mod snappy;
pub mod strings;
mod zstd;

pub use error::{BlockFault, CodecError};
pub use kind::Codec;
pub use set::CodecSet;
