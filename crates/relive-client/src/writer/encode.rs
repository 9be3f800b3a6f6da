//! From a cut chunk to what is sent or shared.

use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, ChunkError, ChunkParts, Codec, FinishedChunk, Ledger};
use relive_wire::chunk;

use super::thrift::Thrift;
use crate::{Error, Result};

/// Makes what is sent or shared of chunks.
#[derive(Debug)]
pub(crate) struct Encoder {
    target: Target,
    /// The codec that was chosen, if one was.
    codec: Option<Codec>,
}

/// What becomes of chunks.
#[derive(Debug)]
pub(crate) enum Target {
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
    pub(crate) fn new(target: Target, codec: Option<Codec>) -> Encoder {
        Encoder { target, codec }
    }

    /// Encodes `finished`; `path` names the column in errors.
    pub(crate) fn encode(
        &self,
        finished: &FinishedChunk,
        thrift: &mut Thrift,
        path: &str,
    ) -> Result<EncodedChunk> {
        let parts = match self.codec {
            Some(codec) => finished.encode(codec),
            None => encode_for_all(finished, thrift),
        };
        let chunk = parts.and_then(Chunk::new);
        let chunk = chunk.map_err(|error| Error::invalid(format!("column {path:?}: {error}")))?;
        Ok(match &self.target {
            Target::Messages => EncodedChunk::Message(chunk::encode(&chunk)),
            Target::Shared(ledger) => EncodedChunk::Shared(Arc::new(chunk.with_ledger(Arc::clone(ledger)))),
        })
    }
}

/// Encodes with Snappy, the one codec that every reader knows.
fn encode_for_all(
    finished: &FinishedChunk,
    thrift: &mut Thrift,
) -> std::result::Result<ChunkParts, ChunkError> {
    if !thrift.tries() {
        return finished.store();
    }
    let parts = finished.encode(Codec::Snappy);
    let shrinks = |parts: &ChunkParts| (parts.frame.len() as u64) < finished.tensor.size_bytes();
    thrift.learn(parts.as_ref().is_ok_and(shrinks));
    parts
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
