//! The encoding of numbers, texts and lists in the files of Relive's format; see `docs/checkpoint-format.md`.

mod codes;
mod cursor;
mod malformed;
pub(crate) mod planes;
mod put;

pub(crate) use codes::{codec_code, codec_of, dtype_code, dtype_of, selector_code, selector_of};
pub(crate) use cursor::Cursor;
pub(crate) use malformed::Malformed;
pub(crate) use put::Put;
