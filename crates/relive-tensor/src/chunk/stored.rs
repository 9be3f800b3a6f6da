//! The stored chunk and its validation.

use std::fmt;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use relive_prefetch::prefetch;
use smallvec::SmallVec;

use super::bytes::{ChunkBytes, FrameStorage, Movable};
use super::error::{ChunkError, ChunkFault};
use super::header::{ColumnHeader, SequenceRange};
use super::headers::Headers;
use crate::accounts::{self, Account, ChunkState, Counted, Ledger};
use crate::codec::{Codec, strings};
use crate::dtype::DType;
use crate::limits::{MAX_CHUNK_BYTES, MAX_CHUNK_COLUMNS, MAX_RANK, STRING_ELEMENT_BYTES};
use crate::tensor::to_u64;

/// The parts of a chunk before they are validated.
#[derive(Clone, Debug)]
pub struct ChunkParts {
    /// The key, drawn at random by the writer.
    pub key: u64,
    /// The episode and the steps covered.
    pub range: SequenceRange,
    /// The chunk's tensors, one per column.
    pub columns: SmallVec<[ColumnHeader; 1]>,
    /// Whether, before compression, delta coding was applied to the columns to which it is applicable.
    pub delta_encoded: bool,
    /// The bytes to which the columns' spans refer.
    pub frame: Arc<[u8]>,
    /// Whether `frame` is a verbatim copy of a client's message, to be forwarded unchanged. Otherwise, it contains only
    /// the payloads.
    pub verbatim: bool,
}

/// Consecutive steps of one or more columns, encoded and immutable.
///
/// The payloads of every `Chunk` can be decoded, because [`Chunk::new`] has validated each of them. The memory needed
/// in addition to the frame is small (a test checks its size), since servers hold millions of chunks of a few hundred
/// bytes.
///
/// The order of the fields matters: the fields that readers use come first, in as few cache lines as possible.
#[repr(C)]
pub struct Chunk {
    columns: Headers,
    frame: FrameStorage,
    /// The decoded size of all columns. It is at most [`MAX_CHUNK_BYTES`], so it fits 32 bits.
    raw_bytes: u32,
    sparse: bool,
    delta_encoded: bool,
    verbatim: bool,
    /// Whether the payload of every column ends with its uncompressed elements.
    plain: bool,
    state: ChunkState,
    ledger: Option<Arc<Ledger>>,
    key: u64,
    episode_id: u64,
    start: i32,
    end: i32,
}

/// The ledger for chunks that have not been assigned to any other ledger.
static UNCOUNTED: LazyLock<Ledger> = LazyLock::new(Ledger::default);

impl Chunk {
    /// Validates the parts of a chunk. Every chunk is created here.
    ///
    /// # Errors
    /// [`ChunkError`] if there are no or too many columns; if a payload is outside the frame, has no leading dimension
    /// or does not match its dtype, shape and codec; or if the frame or its content exceeds [`MAX_CHUNK_BYTES`].
    pub fn new(parts: ChunkParts) -> Result<Self, ChunkError> {
        let ChunkParts { key, range, columns, delta_encoded, frame, verbatim } = parts;
        let whole = |fault| Err(ChunkError { key, column: None, fault });
        if columns.is_empty() {
            return whole(ChunkFault::NoColumns);
        }
        if columns.len() > MAX_CHUNK_COLUMNS {
            return whole(ChunkFault::TooManyColumns { columns: columns.len() });
        }
        if to_u64(frame.len()) > MAX_CHUNK_BYTES {
            return whole(ChunkFault::Frame { size: to_u64(frame.len()) });
        }
        let (mut raw_bytes, mut plain) = (0_u32, !delta_encoded);
        for (index, column) in columns.iter().enumerate() {
            raw_bytes = validate_column(column, &frame, raw_bytes).map_err(|fault| ChunkError {
                key,
                column: Some(index),
                fault,
            })?;
            plain = plain && column.is_plain(&frame);
        }
        let SequenceRange { episode_id, start, end, sparse } = range;
        let (frame, ledger, state) = (FrameStorage::Fixed(frame), None, ChunkState::default());
        Ok(Self {
            key,
            episode_id,
            start,
            end,
            columns: columns.into(),
            frame,
            ledger,
            state,
            raw_bytes,
            sparse,
            delta_encoded,
            verbatim,
            plain,
        })
    }

    /// Counts the chunk in `ledger` while it is alive.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Arc<Ledger>) -> Self {
        self.leave_ledger();
        ledger.count_in(self.size_bytes(), self.uncompressed_size_bytes());
        if ledger.moves(self.frame.len()) {
            let frame = std::mem::replace(&mut self.frame, FrameStorage::Fixed(Arc::default()));
            self.frame = frame.into_movable();
        }
        self.ledger = Some(ledger);
        self
    }

    /// Prefetches the beginning of the frame, with its reference count.
    pub fn prefetch_frame(&self) {
        if let FrameStorage::Fixed(frame) = &self.frame {
            prefetch(Arc::as_ptr(frame));
        }
    }

    /// Returns the key of the chunk.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns the episode and steps covered.
    #[must_use]
    pub fn range(&self) -> SequenceRange {
        let Self { episode_id, start, end, sparse, .. } = *self;
        SequenceRange { episode_id, start, end, sparse }
    }

    /// Returns the number of columns, at least one.
    #[must_use]
    pub fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// Returns the header of a column.
    #[must_use]
    pub fn column(&self, index: usize) -> Option<&ColumnHeader> {
        self.columns.get(index)
    }

    /// Returns the headers of all columns.
    #[must_use]
    pub fn columns(&self) -> &[ColumnHeader] {
        &self.columns
    }

    /// Returns the number of rows of a column.
    #[must_use]
    pub fn rows(&self, index: usize) -> Option<u32> {
        self.column(index).map(ColumnHeader::rows)
    }

    /// Returns the encoded payload of a column.
    #[must_use]
    pub fn payload(&self, index: usize) -> Option<ChunkBytes<'_>> {
        self.frame().slice(self.column(index)?.span_usize()?)
    }

    /// Returns whether delta coding was applied to the columns to which it is applicable.
    #[must_use]
    pub fn is_delta_encoded(&self) -> bool {
        self.delta_encoded
    }

    /// Returns whether all columns are uncompressed, so that each payload ends with its elements.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns the bytes to which the columns' spans refer.
    #[must_use]
    pub fn frame(&self) -> ChunkBytes<'_> {
        if self.is_movable() {
            self.state.touch();
        }
        self.frame.get()
    }

    /// Returns the frame as bytes with their own reference count.
    #[must_use]
    pub fn shared_frame(&self) -> Bytes {
        match &self.frame {
            FrameStorage::Fixed(frame) => Bytes::from_owner(Arc::clone(frame)),
            FrameStorage::Movable(movable) => {
                self.state.touch();
                movable.get()
            }
        }
    }

    /// Returns the frame unless it is movable.
    pub(crate) fn fixed_frame(&self) -> Option<&Arc<[u8]>> {
        match &self.frame {
            FrameStorage::Fixed(frame) => Some(frame),
            FrameStorage::Movable(_) => None,
        }
    }

    /// Returns the tag of the store that wrote the chunk, or 0 if no store has written it.
    #[must_use]
    pub fn store_tag(&self) -> u8 {
        self.state.store_tag()
    }

    /// Records which store wrote the chunk.
    pub fn set_store_tag(&self, tag: u8) {
        self.state.set_store_tag(tag);
    }

    /// Returns whether the frame is a verbatim copy of a client's message.
    #[must_use]
    pub fn is_verbatim(&self) -> bool {
        self.verbatim
    }

    /// Returns the size of the frame in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        to_u64(self.frame.len())
    }

    /// Returns the decoded size of the content in bytes, as dm-reverb counts it: each string counts 24 bytes in
    /// addition to its characters.
    #[must_use]
    pub fn uncompressed_size_bytes(&self) -> u64 {
        u64::from(self.raw_bytes)
    }

    pub(super) fn headers(&self) -> &Headers {
        &self.columns
    }

    pub(super) fn headers_mut(&mut self) -> &mut Headers {
        &mut self.columns
    }

    fn leave_ledger(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            ledger.count_out(self.size_bytes(), self.uncompressed_size_bytes());
            if !self.is_resident() {
                ledger.count_spilled(self.size_bytes(), false);
            }
        }
    }

    pub(super) fn state(&self) -> &ChunkState {
        &self.state
    }

    pub(super) fn movable(&self) -> Option<&Movable> {
        self.frame.movable()
    }

    /// Counts one more item of `account` that refers to this chunk.
    pub fn hold(&self, account: &Account) {
        accounts::hold(&self.state, account, || (self.counted(), self.holders_ledger()));
    }

    /// Counts one fewer item of `account` that refers to this chunk.
    pub fn release(&self, account: &Account) {
        accounts::release(&self.state, account, || (self.counted(), self.holders_ledger()));
    }

    /// Returns whether an item of any account refers to this chunk.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.get().holder() != 0
    }

    /// Returns the properties of the chunk that accounts use.
    pub(super) fn counted(&self) -> Counted<'_> {
        Counted {
            state: &self.state,
            address: std::ptr::from_ref(self).addr(),
            encoded_bytes: self.size_bytes(),
            raw_bytes: self.uncompressed_size_bytes(),
        }
    }

    /// Returns the ledger with the accounts of the chunk's holders.
    pub(super) fn holders_ledger(&self) -> &Ledger {
        self.ledger.as_deref().unwrap_or_else(|| &UNCOUNTED)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.counted().remove_from_lists(self.holders_ledger());
        self.leave_ledger();
    }
}

impl fmt::Debug for Chunk {
    /// Prints only headers and sizes, since the frame can be large.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk")
            .field("key", &self.key)
            .field("range", &self.range())
            .field("columns", &self.columns())
            .field("delta_encoded", &self.delta_encoded)
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}

/// Checks one column against the frame and returns `raw_bytes` plus its decoded size.
fn validate_column(column: &ColumnHeader, frame: &[u8], raw_bytes: u32) -> Result<u32, ChunkFault> {
    let shape = &column.shape;
    match shape.rank() {
        0 => return Err(ChunkFault::Scalar),
        rank if rank > MAX_RANK => return Err(ChunkFault::Rank { rank }),
        _ => {}
    }
    let span = || ChunkFault::Span { start: column.span.start, end: column.span.end, frame: frame.len() };
    let payload = column.span_usize().and_then(|span| frame.get(span)).ok_or_else(span)?;
    let too_large = || ChunkFault::Content { dtype: column.dtype, shape: shape.clone() };
    let add = |size: u64| {
        let sum = size.checked_add(u64::from(raw_bytes)).filter(|&sum| sum <= MAX_CHUNK_BYTES);
        sum.and_then(|sum| u32::try_from(sum).ok()).ok_or_else(too_large)
    };
    if column.dtype == DType::String {
        if column.codec != Codec::Raw {
            return Err(ChunkFault::CompressedStrings { codec: column.codec });
        }
        let count = shape.num_elements().ok_or_else(too_large)?;
        let characters = strings::validate(payload, count)?;
        return add(count.saturating_mul(STRING_ELEMENT_BYTES).saturating_add(characters));
    }
    // The size is checked against the limit before the payload is read.
    let sum = add(column.fixed_size().ok_or_else(too_large)?)?;
    let expected = usize::try_from(sum - raw_bytes).map_err(|_| too_large())?;
    column.codec.validate(payload, expected)?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_little_overhead() {
        assert!(size_of::<Chunk>() <= 104, "Chunk takes {} bytes", size_of::<Chunk>());
        assert_eq!(size_of::<ColumnHeader>(), 40);
    }
}
