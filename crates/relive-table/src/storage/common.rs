//! What the shards of a table have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_tensor::{Account, AccountSnapshot, Ledger};

use super::episodes::{Episodes, SharedEpisodes};

/// What several [`Table`](crate::Table)s that are shards of one count together: chunks that items of several refer to,
/// episodes whose items lie in several, and the order of inserts. Cheap to clone.
///
/// All of it is made so that shards on several processors seldom write to the same memory.
#[derive(Clone, Debug)]
pub struct Common {
    pub(crate) ledger: Arc<Ledger>,
    /// For each shard its part of the table's account.
    accounts: Arc<[Arc<Account>]>,
    episodes: Arc<SharedEpisodes>,
    next_number: Arc<AtomicU64>,
}

/// Numbers that grow with each insert.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    next: u64,
    /// Where the numbers end that are this shard's; it then gets others, all of them larger.
    end: u64,
    /// The next number that no shard has; not set where there is one table.
    shared: Option<Arc<AtomicU64>>,
}

/// Numbers that a shard gets at once: few, so that numbers follow the order of inserts as well as can be.
const NUMBERS_AT_ONCE: u64 = 16;

impl Common {
    /// For so many shards, at least one, of an empty table whose chunks count in `ledger`.
    pub fn new(ledger: Arc<Ledger>, shards: usize) -> Self {
        let accounts = accounts(&ledger, shards);
        Self { ledger, accounts, episodes: Arc::default(), next_number: Arc::default() }
    }

    /// For the same shards once they are reset: nothing is counted, and the numbers of inserts go on.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let accounts = accounts(&self.ledger, self.accounts.len());
        Self { accounts, episodes: Arc::default(), ..self.clone() }
    }

    /// What the chunks of the items in all shards take, each counted once.
    pub fn bytes(&self) -> AccountSnapshot {
        Account::snapshot_of(&self.accounts)
    }

    /// The part of a shard; of one that is not there, the first one's, which counts as well.
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
    /// The next number, and moves on.
    pub(crate) fn take(&mut self) -> u64 {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.next == self.end) {
            self.next = shared.fetch_add(NUMBERS_AT_ONCE, Ordering::Relaxed);
            self.end = self.next + NUMBERS_AT_ONCE;
        }
        let taken = self.next;
        self.next += 1;
        taken
    }

    /// A number above all that were taken, and not above any to come.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Has the numbers to come be `least` at least.
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
    fn numbers_of_shards_are_unique_and_grow_in_each() {
        let common = Common::new(Arc::default(), 2);
        let [mut a, mut b] = [common.sequence(), common.sequence()];
        let taken: Vec<u64> = (0..40).map(|_| a.take()).chain((0..40).map(|_| b.take())).collect();
        let (of_a, of_b) = taken.split_at(40);
        assert!(of_a.is_sorted() && of_b.is_sorted() && of_a.iter().all(|number| !of_b.contains(number)));
        assert!(b.next() > of_b[39] && b.take() >= b.next() - 1);
        a.raise(1_000);
        assert_eq!((a.next(), a.take()), (1_000, 1_000));
        // One has some left of what it had before; they are its own all the same.
        assert!((0..20).map(|_| b.take()).all(|number| number != 1_000));
        let mut alone = Sequence::default();
        assert_eq!([alone.take(), alone.take(), alone.next()], [0, 1, 2]);
    }
}
