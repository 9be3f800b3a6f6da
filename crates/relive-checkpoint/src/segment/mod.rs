//! Segments: files of chunks, which are written once and shared by successive checkpoints.
//!
//! The records are those of `docs/checkpoint-format.md`. Whoever else keeps chunks in such files writes them with
//! [`record::put_head`] and reads them with [`record::read`].

mod header;
mod id;
mod place;
mod reader;
pub(crate) mod record;
mod seal;
mod writer;

pub(crate) use header::{HEADER_BYTES, check_header, header};
pub(crate) use id::{FOLDER, SegmentId};
pub(crate) use place::Place;
pub(crate) use reader::{SegmentReader, Wanted, head_of};
pub(crate) use writer::{SegmentWriter, Written};
