//! The bulk path: Relive's own frames, alongside gRPC on the same port. `docs/protocol.md` specifies it.
//!
//! A connection begins with [`MAGIC`] and has one purpose, which its first frame defines. A frame is a [`FrameHeader`],
//! a head (a message of `bulk.proto`), and a body of plain bytes.

mod align;
mod batch;
mod frame;
mod greeting;
mod info;
mod insert;

pub use align::{ALIGNMENT, aligned};
pub use batch::{BatchView, ColumnView};
pub use frame::{FrameError, FrameHeader, FrameKind, HEADER_BYTES};
pub use greeting::{MAGIC, VERSION};
pub use info::{BatchInfo, InfoLayout};
pub use insert::InsertFrame;
