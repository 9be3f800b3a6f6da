//! From a cut chunk to what is sent or shared.

use std::sync::Arc;

use bytes::Bytes;
use relive_tensor::{Chunk, ChunkError, Codec, Cut, Encoding, Ledger, SharedHeaders};
use relive_wire::chunk;
use smallvec::SmallVec;

/// Bytes from which an attempt to compress is made: the description of less takes more.
const MIN_COMPRESSED_BYTES: usize = 128;

/// Whose bytes are held to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compressed {
    /// All rows of a column together: their user has said that they belong together.
    Columns,
    /// Each row: rows that happen to share a chunk are read one by one, and a small one is copied from where it lies.
    /// Compressed, all rows would be decoded for each.
    Rows,
}

/// Makes what is sent or shared of chunks.
#[derive(Debug)]
pub(crate) struct Encoder {
    form: ChunkForm,
    /// The codec that was chosen, if one was.
    codec: Option<Codec>,
    headers: SharedHeaders,
}

/// In which form chunks are handed over.
#[derive(Debug)]
pub(crate) enum ChunkForm {
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
    pub(crate) fn new(form: ChunkForm, codec: Option<Codec>) -> Encoder {
        Encoder { form, codec, headers: SharedHeaders::default() }
    }

    /// Encodes `cut`. `compressibilities` are those of all columns of its chunker.
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
    /// How columns are stored as they are. Messages may be for readers that know nothing but Snappy; tables of this
    /// process code chunks anew for these.
    fn plain(&self) -> Encoding {
        match self {
            ChunkForm::Messages => Encoding::Stored,
            ChunkForm::Shared(_) => Encoding::Bare,
        }
    }
}

/// Snappy, the one codec that every reader knows, where it may pay.
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
    /// Bytes that are sent or stored.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            EncodedChunk::Message(message) => message.len(),
            EncodedChunk::Shared(chunk) => usize::try_from(chunk.size_bytes()).unwrap_or(usize::MAX),
        }
    }
}

/// Chunks that are stored as they are between two attempts, once attempts have failed again and again: trying costs
/// several times as much as storing, and a column whose content changes is to be noticed soon.
const MAX_PAUSE: u32 = 64;

/// Remembers whether attempts paid off. Pauses between them get longer while they do not.
#[derive(Debug, Default)]
pub(crate) struct Compressibility {
    pause: u32,
    /// Chunks left of the pause.
    left: u32,
    is_trying: bool,
}

impl Compressibility {
    /// Whether to try with the next chunk.
    pub(crate) fn tries(&mut self) -> bool {
        self.is_trying = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.is_trying
    }

    /// Takes note of whether a chunk shrank; without effect if nobody had tried.
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
    fn what_pays_is_tried_always_and_what_does_not_ever_less() {
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
        assert_eq!(last.rsplit('x').nth(1).map(str::len), Some(64), "pauses do not grow for ever");
        let rest = last.rsplit('x').next().map_or(0, str::len);
        assert_eq!(attempts(true, 64 - rest), ".".repeat(64 - rest));
        assert_eq!(attempts(true, 4), "xxxx", "what pays again is tried again at once");
    }
}
