//! Segments: files of chunks, each written once and shared by successive checkpoints.
//!
//! `docs/checkpoint-format.md` describes the records. Other code that stores chunks in such files writes them with
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
pub(crate) use reader::{RecordRequest, SegmentReader, head_of};
pub(crate) use writer::{SegmentWriter, WrittenSegment};
