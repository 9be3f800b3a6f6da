//! From a cut chunk to what is sent or shared.

use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, ChunkParts, Codec, FinishedChunk, Ledger};
use relive_wire::chunk;

use super::thrift::Thrift;
use crate::{Error, Result};

/// What becomes of chunks.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// Messages for a server.
    Messages,
    /// Chunks that the tables of this process share, counted in their account.
    Shared(Arc<Ledger>),
}

/// An encoded chunk.
#[derive(Debug)]
pub(crate) enum EncodedChunk {
    /// The encoded `ChunkData`.
    Message(Bytes),
    /// The chunk itself.
    Shared(Arc<Chunk>),
}

impl Encoder {
    /// Encodes `finished`; `path` names the column in errors.
    ///
    /// Snappy is the one codec that dm-reverb's readers know.
    pub(crate) fn encode(
        &self,
        finished: &FinishedChunk,
        thrift: &mut Thrift,
        path: &str,
    ) -> Result<EncodedChunk> {
        let parts = if thrift.tries() {
            let parts = finished.encode(Codec::Snappy);
            let shrinks = |parts: &ChunkParts| (parts.frame.len() as u64) < finished.tensor.size_bytes();
            thrift.learn(parts.as_ref().is_ok_and(shrinks));
            parts
        } else {
            finished.store()
        };
        let chunk = parts.and_then(Chunk::new);
        let chunk = chunk.map_err(|error| Error::invalid(format!("column {path:?}: {error}")))?;
        Ok(match self {
            Encoder::Messages => EncodedChunk::Message(chunk::encode(&chunk)),
            Encoder::Shared(ledger) => EncodedChunk::Shared(Arc::new(chunk.with_ledger(Arc::clone(ledger)))),
        })
    }
}

impl EncodedChunk {
    /// Bytes that are sent or stored.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            EncodedChunk::Message(message) => message.len(),
            EncodedChunk::Shared(chunk) => usize::try_from(chunk.size_bytes()).unwrap_or(usize::MAX),
        }
    }
}
