//! What the shards of a table have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_tensor::{Account, Ledger};

use crate::episodes::{Episodes, References, SharedEpisodes};

/// What several [`Table`](crate::Table)s that are shards of one count together: chunks that items of several refer to, episodes
/// whose items lie in several, and the order of inserts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Common {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) account: Arc<Account>,
    episodes: Arc<SharedEpisodes>,
    next_sequence: Arc<AtomicU64>,
}

/// Numbers that grow with each insert.
#[derive(Debug)]
pub(crate) enum Sequence {
    /// The next number.
    Own(u64),
    /// The next number of all shards.
    Shared(Arc<AtomicU64>),
}

impl Common {
    /// For shards of an empty table whose chunks count in `ledger`.
    pub fn new(ledger: Arc<Ledger>) -> Self {
        let account = ledger.open_account();
        Self { ledger, account, episodes: Arc::default(), next_sequence: Arc::default() }
    }

    /// For the same shards once they are reset: nothing is counted, and the numbers of inserts go on.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let (ledger, next_sequence) = (Arc::clone(&self.ledger), Arc::clone(&self.next_sequence));
        Self { account: ledger.open_account(), ledger, episodes: Arc::default(), next_sequence }
    }

    pub(crate) fn episodes(&self) -> Episodes {
        Episodes::Shared(Arc::clone(&self.episodes))
    }

    pub(crate) fn sequence(&self) -> Sequence {
        Sequence::Shared(Arc::clone(&self.next_sequence))
    }
}

impl Sequence {
    /// The next number, and moves on.
    pub(crate) fn take(&mut self) -> u64 {
        match self {
            Self::Own(next) => {
                let taken = *next;
                *next += 1;
                taken
            }
            // What comes before what is told by the locks of the shards; this is only a number.
            Self::Shared(next) => next.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        match self {
            Self::Own(next) => *next,
            Self::Shared(next) => next.load(Ordering::Relaxed),
        }
    }

    /// Moves on to `least` at least.
    pub(crate) fn raise(&mut self, least: u64) {
        match self {
            Self::Own(next) => *next = least.max(*next),
            Self::Shared(next) => drop(next.fetch_max(least, Ordering::Relaxed)),
        }
    }
}

impl Default for Episodes {
    fn default() -> Self {
        Self::Own(References::default())
    }
}
