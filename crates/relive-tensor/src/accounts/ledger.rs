//! Running totals of the chunks that are alive.

use std::sync::atomic::{AtomicU64, Ordering};

use super::account::Accounts;

/// Frames shorter than this stay in memory: moving one away frees less than a hundred bytes more than it costs.
pub const MIN_MOVABLE_BYTES: usize = 256;

/// Totals of the chunks that are alive: each counts itself in when it is given the ledger and out when it is dropped.
///
/// ```
/// use std::sync::Arc;
/// use relive_tensor::{Chunk, Codec, Ledger, SequenceRange, Tensor, encode_chunk};
///
/// let ledger = Arc::new(Ledger::default());
/// let rows = Tensor::from_slice(&[0_u8; 400], [1, 400])?;
/// let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
/// let parts = encode_chunk(1, range, &[rows], false, Codec::Raw)?;
/// let chunk = Chunk::new(parts)?.with_ledger(Arc::clone(&ledger));
/// assert_eq!(ledger.snapshot().encoded_bytes, 400);
/// drop(chunk);
/// assert_eq!(ledger.snapshot().chunks, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Ledger {
    chunks: AtomicU64,
    encoded_bytes: AtomicU64,
    raw_bytes: AtomicU64,
    spilled_bytes: AtomicU64,
    shared_bytes: AtomicU64,
    accounts: Accounts,
    movable: bool,
}

/// The totals of a [`Ledger`] at about one moment; each is exact by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSnapshot {
    /// Chunks alive.
    pub chunks: u64,
    /// Bytes of their frames.
    pub encoded_bytes: u64,
    /// Bytes of their content once decoded.
    pub raw_bytes: u64,
    /// Of the bytes of their frames, those that lie on disk instead of in memory.
    pub spilled_bytes: u64,
    /// Of the bytes of their frames, those that several accounts hold, each counted once.
    pub shared_bytes: u64,
}

impl LedgerSnapshot {
    /// Bytes of frames in memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.encoded_bytes.saturating_sub(self.spilled_bytes)
    }
}

impl Ledger {
    /// A ledger of chunks whose frames can be moved to disk while they live, which costs each of them some 150 bytes. Those
    /// under [`MIN_MOVABLE_BYTES`] stay where they are.
    #[must_use]
    pub fn of_movable_chunks() -> Self {
        Self { movable: true, ..Self::default() }
    }

    /// The current totals.
    #[must_use]
    pub fn snapshot(&self) -> LedgerSnapshot {
        LedgerSnapshot {
            chunks: self.chunks.load(Ordering::Relaxed),
            encoded_bytes: self.encoded_bytes.load(Ordering::Relaxed),
            raw_bytes: self.raw_bytes.load(Ordering::Relaxed),
            spilled_bytes: self.spilled_bytes.load(Ordering::Relaxed),
            shared_bytes: self.shared_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Whether a frame of this size is to be movable.
    pub(super) fn moves(&self, size_bytes: usize) -> bool {
        self.movable && size_bytes >= MIN_MOVABLE_BYTES
    }

    pub(super) fn count_shared(&self, encoded_bytes: u64) {
        self.shared_bytes.fetch_add(encoded_bytes, Ordering::Relaxed);
    }

    pub(super) fn count_out_shared(&self, encoded_bytes: u64) {
        self.shared_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed);
    }

    /// Counts a frame that has left memory, or one that does not lie outside of it any more.
    pub(super) fn count_spilled(&self, encoded_bytes: u64, is_moved: bool) {
        match is_moved {
            true => self.spilled_bytes.fetch_add(encoded_bytes, Ordering::Relaxed),
            false => self.spilled_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed),
        };
    }

    pub(super) fn count_in(&self, encoded_bytes: u64, raw_bytes: u64) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        self.encoded_bytes.fetch_add(encoded_bytes, Ordering::Relaxed);
        self.raw_bytes.fetch_add(raw_bytes, Ordering::Relaxed);
    }

    pub(super) fn count_out(&self, encoded_bytes: u64, raw_bytes: u64) {
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        self.encoded_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed);
        self.raw_bytes.fetch_sub(raw_bytes, Ordering::Relaxed);
    }
}
