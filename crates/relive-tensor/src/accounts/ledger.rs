//! Running totals of live chunks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use smallvec::SmallVec;

use super::account::{Account, ChunkTotals};

/// Frames shorter than this stay in memory, because moving such a frame saves at most about a hundred bytes.
pub const MIN_MOVABLE_BYTES: usize = 256;

/// Totals of live chunks. A chunk counts from the time it is assigned to the ledger until it is dropped.
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
    lists: Mutex<Lists>,
    movable: bool,
}

/// The accounts of a ledger, and the chunks that several accounts hold.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) open: HashMap<u32, Weak<Account>>,
    /// The holders of each chunk and their counts, by the chunk's address.
    pub(super) several: HashMap<usize, SmallVec<[(u32, u64); 4]>>,
}

impl Ledger {
    /// Creates a ledger of chunks whose frames can be moved to disk, which costs about 150 bytes per chunk. Frames
    /// under [`MIN_MOVABLE_BYTES`] stay in memory.
    #[must_use]
    pub fn of_movable_chunks() -> Self {
        Self { movable: true, ..Self::default() }
    }

    /// Creates an account for chunks that are counted in this ledger.
    #[must_use]
    pub fn open_account(&self) -> Arc<Account> {
        let account = Arc::new(Account::numbered());
        let mut lists = self.lists();
        lists.open.retain(|_, account| account.strong_count() > 0);
        lists.open.insert(account.number, Arc::downgrade(&account));
        account
    }

    /// Returns the current totals.
    #[must_use]
    pub fn snapshot(&self) -> ChunkTotals {
        ChunkTotals {
            chunks: self.chunks.load(Ordering::Relaxed),
            encoded_bytes: self.encoded_bytes.load(Ordering::Relaxed),
            raw_bytes: self.raw_bytes.load(Ordering::Relaxed),
            spilled_bytes: self.spilled_bytes.load(Ordering::Relaxed),
            shared_bytes: self.shared_bytes.load(Ordering::Relaxed),
        }
    }

    /// Locks the lists. No code under the lock panics.
    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a frame of this size is movable.
    pub(crate) fn moves(&self, size_bytes: usize) -> bool {
        self.movable && size_bytes >= MIN_MOVABLE_BYTES
    }

    pub(super) fn count_shared(&self, encoded_bytes: u64) {
        self.shared_bytes.fetch_add(encoded_bytes, Ordering::Relaxed);
    }

    pub(super) fn count_out_shared(&self, encoded_bytes: u64) {
        self.shared_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed);
    }

    /// Starts counting a frame that has left memory, or stops counting one that is back in memory or was dropped.
    pub(crate) fn count_spilled(&self, encoded_bytes: u64, is_moved: bool) {
        match is_moved {
            true => self.spilled_bytes.fetch_add(encoded_bytes, Ordering::Relaxed),
            false => self.spilled_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed),
        };
    }

    pub(crate) fn count_in(&self, encoded_bytes: u64, raw_bytes: u64) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        self.encoded_bytes.fetch_add(encoded_bytes, Ordering::Relaxed);
        self.raw_bytes.fetch_add(raw_bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_out(&self, encoded_bytes: u64, raw_bytes: u64) {
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        self.encoded_bytes.fetch_sub(encoded_bytes, Ordering::Relaxed);
        self.raw_bytes.fetch_sub(raw_bytes, Ordering::Relaxed);
    }
}
