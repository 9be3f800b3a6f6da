//! Accounts of tables, which are exact even if tables share chunks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::word::{Counted, SEVERAL, Word};

/// The chunks to which the items of one holder, usually a table, refer. Each chunk is counted once.
///
/// Accounts are created by [`Ledger::open_account`](super::Ledger::open_account). [`Chunk::hold`](crate::Chunk::hold)
/// and [`Chunk::release`](crate::Chunk::release) update them, with one call for each distinct chunk of each item.
///
/// Each part of an account has its own cache lines, because the parts are updated concurrently.
#[derive(Debug)]
#[repr(align(128))]
pub struct Account {
    pub(super) number: u32,
    chunks: AtomicI64,
    encoded_bytes: AtomicI64,
    raw_bytes: AtomicI64,
    shared_bytes: AtomicI64,
    spilled_bytes: AtomicI64,
    /// The account to which this part belongs. It holds the account's total counts.
    whole: Option<Arc<Account>>,
}

/// The totals of a [`Ledger`](crate::Ledger) or of an [`Account`](crate::Account), all read at about the same time. Each
/// individual total is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkTotals {
    /// The number of distinct chunks.
    pub chunks: u64,
    /// The number of bytes in the frames of the chunks.
    pub encoded_bytes: u64,
    /// The number of bytes in the content of the chunks once decoded.
    pub raw_bytes: u64,
    /// For a ledger, the encoded bytes that several accounts hold, each chunk counted once; for an account, the encoded
    /// bytes that another account also holds.
    pub shared_bytes: u64,
    /// The number of encoded bytes that are on disk and not in memory.
    pub spilled_bytes: u64,
}

impl ChunkTotals {
    /// Returns the number of encoded bytes in memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.encoded_bytes.saturating_sub(self.spilled_bytes)
    }
}

/// Numbers of accounts. A number is given again only after its account has been dropped.
struct Numbers {
    last: u32,
    used: BTreeSet<u32>,
}

/// Account numbers are unique within the process, so a chunk is never counted in an account of another ledger.
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { last: 0, used: BTreeSet::new() });

impl Numbers {
    fn of_process() -> MutexGuard<'static, Numbers> {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self) -> u32 {
        loop {
            self.last = (self.last + 1) % SEVERAL;
            if self.last != 0 && self.used.insert(self.last) {
                return self.last;
            }
        }
    }
}

impl Account {
    /// Creates an account with a number that no other account has.
    pub(super) fn numbered() -> Self {
        Self::new(Numbers::of_process().take(), None)
    }

    fn new(number: u32, whole: Option<Arc<Account>>) -> Self {
        let zero = || AtomicI64::new(0);
        let (chunks, encoded_bytes, raw_bytes) = (zero(), zero(), zero());
        let (shared_bytes, spilled_bytes) = (zero(), zero());
        Self { number, chunks, encoded_bytes, raw_bytes, shared_bytes, spilled_bytes, whole }
    }

    /// Creates another part of the same account, for concurrent use. Chunks treat all parts as one holder, but each
    /// part has its own sums, so that the parts do not contend. A part may release a chunk that another part holds.
    /// Only the sums over all parts are meaningful; see [`snapshot_of`](Self::snapshot_of).
    #[must_use]
    pub fn part(self: &Arc<Self>) -> Arc<Self> {
        let whole = self.whole.as_ref().unwrap_or(self);
        Arc::new(Self::new(self.number, Some(Arc::clone(whole))))
    }

    /// Returns the current totals of an account that has no other parts.
    #[must_use]
    pub fn snapshot(&self) -> ChunkTotals {
        Self::snapshot_of(&[self])
    }

    /// Returns the current totals of an account, summed over all its parts.
    #[must_use]
    pub fn snapshot_of(parts: &[impl std::ops::Deref<Target = Self>]) -> ChunkTotals {
        // During a change, a sum may briefly be below zero.
        let get = |sum: fn(&Self) -> &AtomicI64| {
            let total: i64 = parts.iter().map(|part| sum(part).load(Ordering::Relaxed)).sum();
            u64::try_from(total).unwrap_or(0)
        };
        ChunkTotals {
            chunks: get(|part| &part.chunks),
            encoded_bytes: get(|part| &part.encoded_bytes),
            raw_bytes: get(|part| &part.raw_bytes),
            shared_bytes: get(|part| &part.shared_bytes),
            spilled_bytes: get(|part| &part.spilled_bytes),
        }
    }

    /// Returns the number of bytes in the frames of the distinct chunks.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        u64::try_from(self.encoded_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn count(&self, chunk: &Counted<'_>, word: Word, sign: i64) {
        let size = signed(chunk.encoded_bytes);
        self.chunks.fetch_add(sign, Ordering::Relaxed);
        self.encoded_bytes.fetch_add(sign * size, Ordering::Relaxed);
        self.raw_bytes.fetch_add(sign * signed(chunk.raw_bytes), Ordering::Relaxed);
        if word.is_moved() {
            self.spilled_bytes.fetch_add(sign * size, Ordering::Relaxed);
        }
    }

    pub(super) fn count_shared(&self, chunk: &Counted<'_>, sign: i64) {
        self.shared_bytes.fetch_add(sign * signed(chunk.encoded_bytes), Ordering::Relaxed);
    }

    pub(super) fn count_spilled(&self, chunk: &Counted<'_>, sign: i64) {
        self.spilled_bytes.fetch_add(sign * signed(chunk.encoded_bytes), Ordering::Relaxed);
    }
}

/// This cannot overflow, because sizes of chunks are below 2^32.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for Account {
    fn drop(&mut self) {
        // All parts hold the whole account.
        if self.whole.is_none() {
            Numbers::of_process().used.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_only_after_its_account_is_dropped() {
        let mut numbers = Numbers { last: SEVERAL - 2, used: BTreeSet::from([1]) };
        assert_eq!([numbers.take(), numbers.take()], [SEVERAL - 1, 2]);
        numbers.used.remove(&1);
        numbers.last = SEVERAL - 1;
        assert_eq!([numbers.take(), numbers.take()], [1, 3]);
    }

    #[test]
    fn an_account_keeps_its_number_while_a_part_exists() {
        let is_used = |number| Numbers::of_process().used.contains(&number);
        let account = Arc::new(Account::numbered());
        let (number, part) = (account.number, account.part());
        drop(account);
        assert!(is_used(number) && part.number == number);
        drop(part);
        assert!(!is_used(number));
    }
}
