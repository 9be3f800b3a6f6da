//! From a cut chunk to the bytes that are sent.

use bytes::Bytes;
use relive_tensor::{Chunk, Codec, FinishedChunk};
use relive_wire::chunk;

use crate::{Error, Result};

/// The encoded `ChunkData` of `finished`; `path` names the column in errors.
///
/// Snappy is the one codec that dm-reverb's readers know.
pub(crate) fn encode_finished(finished: &FinishedChunk, path: &str) -> Result<Bytes> {
    let chunk = finished.encode(Codec::Snappy).and_then(Chunk::new);
    let chunk = chunk.map_err(|error| Error::invalid(format!("column {path:?}: {error}")))?;
    Ok(chunk::encode(&chunk))
}
