//! State that the shards of a table share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_tensor::{Account, ChunkTotals, Ledger};

use super::episodes::{Episodes, SharedEpisodes};

/// Counters that the shards of a table share; each shard is a [`Table`](crate::Table). They count chunks to which items
/// of several shards refer, episodes with items in several shards, and inserts. Cheap to clone.
///
/// The layout ensures that shards on different cores rarely write to the same memory.
#[derive(Clone, Debug)]
pub struct Common {
    pub(crate) ledger: Arc<Ledger>,
    /// Each shard's part of the table's account.
    accounts: Arc<[Arc<Account>]>,
    episodes: Arc<SharedEpisodes>,
    next_number: Arc<AtomicU64>,
}

/// Sequence numbers, which grow with each insert.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    next: u64,
    /// The end of this shard's range of numbers. When it is reached, the shard is assigned another range of larger
    /// numbers.
    end: u64,
    /// The next number that has not been assigned to any shard; not set for an undivided table.
    shared: Option<Arc<AtomicU64>>,
}

/// The number of sequence numbers that a shard is assigned at once. It is small, so that the numbers closely follow the
/// order of inserts.
const NUMBERS_AT_ONCE: u64 = 16;

impl Common {
    /// Creates the state for `shards` shards (at least one) of an empty table whose chunks `ledger` counts.
    pub fn new(ledger: Arc<Ledger>, shards: usize) -> Self {
        let accounts = accounts(&ledger, shards);
        Self { ledger, accounts, episodes: Arc::default(), next_number: Arc::default() }
    }

    /// Returns the state of the same shards after a reset: all counts are 0, and the sequence numbers continue.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let accounts = accounts(&self.ledger, self.accounts.len());
        Self { accounts, episodes: Arc::default(), ..self.clone() }
    }

    /// Returns the number of bytes in the chunks of all shards. Each chunk is counted once.
    pub fn bytes(&self) -> ChunkTotals {
        Account::snapshot_of(&self.accounts)
    }

    /// Returns the account of a shard. For an unknown shard, returns the account of the first shard, which gives the
    /// same totals.
    pub(crate) fn account(&self, shard: usize) -> Arc<Account> {
        self.accounts
            .get(shard)
            .or(self.accounts.first())
            .map_or_else(|| self.ledger.open_account(), Arc::clone)
    }

    pub(crate) fn episodes(&self) -> Episodes {
        Episodes::of_shard(Arc::clone(&self.episodes))
    }

    pub(crate) fn sequence(&self) -> Sequence {
        Sequence { shared: Some(Arc::clone(&self.next_number)), ..Sequence::default() }
    }
}

fn accounts(ledger: &Ledger, shards: usize) -> Arc<[Arc<Account>]> {
    let whole = ledger.open_account();
    let parts = (1..shards).map(|_| whole.part());
    std::iter::once(Arc::clone(&whole)).chain(parts).collect()
}

impl Sequence {
    /// Takes the next number.
    pub(crate) fn take(&mut self) -> u64 {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.next == self.end) {
            self.next = shared.fetch_add(NUMBERS_AT_ONCE, Ordering::Relaxed);
            self.end = self.next + NUMBERS_AT_ONCE;
        }
        let taken = self.next;
        self.next += 1;
        taken
    }

    /// Returns a number that is above all numbers taken so far and at most the next one.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Ensures that all later numbers are at least `least`.
    pub(crate) fn raise(&mut self, least: u64) {
        self.next = self.next.max(least);
        self.end = self.next;
        if let Some(shared) = &self.shared {
            shared.fetch_max(least, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_shards_are_unique_and_increase_in_each() {
        let common = Common::new(Arc::default(), 2);
        let [mut a, mut b] = [common.sequence(), common.sequence()];
        let taken: Vec<u64> = (0..40).map(|_| a.take()).chain((0..40).map(|_| b.take())).collect();
        let (of_a, of_b) = taken.split_at(40);
        assert!(of_a.is_sorted() && of_b.is_sorted() && of_a.iter().all(|number| !of_b.contains(number)));
        assert!(b.next() > of_b[39] && b.take() >= b.next() - 1);
        a.raise(1_000);
        assert_eq!((a.next(), a.take()), (1_000, 1_000));
        // A shard still has some of its previous numbers, which no other shard uses.
        assert!((0..20).map(|_| b.take()).all(|number| number != 1_000));
        let mut alone = Sequence::default();
        assert_eq!([alone.take(), alone.take(), alone.next()], [0, 1, 2]);
    }
}
