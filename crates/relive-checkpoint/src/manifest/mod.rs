//! Checkpoint files, which contain everything in a checkpoint except the chunks. `docs/checkpoint-format.md` describes
//! the byte layout.

mod block;
mod chunks;
mod columns;
mod description;
mod fields;
#[cfg(test)]
pub(crate) mod forge;
#[cfg(test)]
mod golden;
mod known;
mod reader;
mod rebuild;
mod signature;
mod table;
mod walk;
mod writer;

pub(crate) use block::{BlockHead, Kind, MAX_BLOCK_ENTRIES};
pub(crate) use chunks::{decode_chunks, encode_chunks};
pub(crate) use columns::ItemColumns;
pub(crate) use description::{Description, Totals};
pub(crate) use known::KnownChunks;
pub(crate) use reader::{ItemBlock, Manifest, read_description, read_manifest};
pub(crate) use rebuild::{ItemFault, rebuild, rebuild_some};
pub(crate) use table::TableDescription;
pub(crate) use writer::ManifestWriter;
