//! Encodes cut chunks so that they can be sent or shared.

use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, ChunkError, Codec, Cut, Encoding, Ledger, SharedHeaders};
use relive_wire::chunk;
use smallvec::SmallVec;

/// The smallest size that is compressed, in bytes. Below this size, the description takes more memory than the data.
const MIN_COMPRESSED_BYTES: usize = 128;

/// The unit to which [`MIN_COMPRESSED_BYTES`] applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compressed {
    /// All rows of a column together. This is used if the user has chosen the chunk length.
    Columns,
    /// Each row separately, because rows that happen to share a chunk are read individually. A small uncompressed row is
    /// simply copied, whereas reading any row of a compressed chunk would require decoding all of its rows.
    Rows,
}

/// Encodes chunks.
#[derive(Debug)]
pub(crate) struct Encoder {
    form: ChunkForm,
    /// The user's codec, if any.
    codec: Option<Codec>,
    headers: SharedHeaders,
}

/// The form of encoded chunks.
#[derive(Debug)]
pub(crate) enum ChunkForm {
    /// Messages for a server.
    Messages,
    /// Chunks that are shared with tables in this process, and counted in their ledger.
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
    pub(crate) fn new(form: ChunkForm, codec: Option<Codec>) -> Encoder {
        Encoder { form, codec, headers: SharedHeaders::default() }
    }

    /// Encodes `cut`. `compressibilities` contains an entry for each column of its chunker.
    pub(crate) fn encode(
        &mut self,
        cut: &Cut<'_>,
        compressed: Compressed,
        compressibilities: &mut [Compressibility],
    ) -> Result<EncodedChunk, ChunkError> {
        let plain = self.form.plain();
        let ways: SmallVec<[Encoding; 8]> = match self.codec {
            Some(codec) => cut.columns().iter().map(|_| Encoding::With(codec)).collect(),
            None => (0..cut.columns().len())
                .map(|place| choose(cut, place, compressed, compressibilities).unwrap_or(plain))
                .collect(),
        };
        let way = |place: usize| ways.get(place).copied();
        if let ChunkForm::Messages = self.form
            && let Some(plain) = cut.plain(way)?
        {
            return Ok(EncodedChunk::Message(chunk::encode_plain(&plain)));
        }
        let parts = cut.encode(|place| way(place).unwrap_or(plain))?;
        if self.codec.is_none() {
            for (column, header) in cut.columns().iter().zip(&parts.columns) {
                if let Some(compressibility) = compressibilities.get_mut(column.column()) {
                    compressibility.learn(header.span.len() < column.num_bytes());
                }
            }
        }
        let chunk = Chunk::new(parts)?;
        Ok(match &self.form {
            ChunkForm::Messages => EncodedChunk::Message(chunk::encode(&chunk)),
            ChunkForm::Shared(ledger) => {
                let chunk = self.headers.share(chunk).with_ledger(Arc::clone(ledger));
                EncodedChunk::Shared(Arc::new(chunk))
            }
        })
    }
}

impl ChunkForm {
    /// Returns the encoding of uncompressed columns. Messages may reach readers that support only Snappy; tables in
    /// this process recode chunks for them.
    fn plain(&self) -> Encoding {
        match self {
            ChunkForm::Messages => Encoding::Stored,
            ChunkForm::Shared(_) => Encoding::Bare,
        }
    }
}

/// Chooses Snappy, the only codec that every reader supports, if compression may pay off.
fn choose(
    cut: &Cut<'_>,
    place: usize,
    compressed: Compressed,
    compressibilities: &mut [Compressibility],
) -> Option<Encoding> {
    let column = cut.columns().get(place)?;
    let bytes = match compressed {
        Compressed::Columns => column.num_bytes(),
        Compressed::Rows => column.num_bytes() / (column.rows() as usize).max(1),
    };
    let compressibility = compressibilities.get_mut(column.column());
    let tries = bytes >= MIN_COMPRESSED_BYTES && compressibility.is_some_and(Compressibility::tries);
    tries.then_some(Encoding::With(Codec::Snappy))
}

impl EncodedChunk {
    /// Returns the number of bytes that are sent or stored.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            EncodedChunk::Message(message) => message.len(),
            EncodedChunk::Shared(chunk) => usize::try_from(chunk.size_bytes()).unwrap_or(usize::MAX),
        }
    }
}

/// The largest number of chunks that are stored uncompressed between two attempts, after repeated failures. An attempt
/// costs several times as much as storing a chunk uncompressed, but a change in a column's content should be detected
/// soon.
const MAX_PAUSE: u32 = 64;

/// Tracks whether attempts to compress have paid off. As long as they have not, the pauses between attempts grow.
#[derive(Debug, Default)]
pub(crate) struct Compressibility {
    pause: u32,
    /// The number of chunks until the pause ends.
    left: u32,
    is_trying: bool,
}

impl Compressibility {
    /// Returns whether to compress the next chunk.
    pub(crate) fn tries(&mut self) -> bool {
        self.is_trying = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.is_trying
    }

    /// Records whether a chunk shrank. Has no effect without an attempt.
    pub(crate) fn learn(&mut self, shrank: bool) {
        if std::mem::take(&mut self.is_trying) {
            self.pause = if shrank { 0 } else { (self.pause * 2).clamp(1, MAX_PAUSE) };
            self.left = self.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_tried_less_often_while_it_does_not_pay_off() {
        let mut compressibility = Compressibility::default();
        let mut attempts = |paid: bool, chunks: usize| -> String {
            let tried = (0..chunks).map(|_| {
                let tries = compressibility.tries();
                compressibility.learn(paid);
                if tries { 'x' } else { '.' }
            });
            tried.collect()
        };
        assert_eq!(attempts(true, 5), "xxxxx");
        assert_eq!(attempts(false, 16), "x.x..x....x.....");
        let last = attempts(false, 400);
        assert_eq!(last.rsplit('x').nth(1).map(str::len), Some(64), "pauses do not grow forever");
        let rest = last.rsplit('x').next().map_or(0, str::len);
        assert_eq!(attempts(true, 64 - rest), ".".repeat(64 - rest));
        assert_eq!(attempts(true, 4), "xxxx", "once compression pays off again, it is tried for every chunk");
    }
}
