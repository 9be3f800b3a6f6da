//! Inserts an item.

use std::sync::Arc;

use rand_core::Rng;
use smallvec::SmallVec;

use crate::error::InsertError;
use crate::item::{ItemData, NewItem};
use crate::selector::{MAX_SIDE_BY_SIDE, PriorityError, Select, Slot};
use crate::storage::{Admitted, Freed, REMOVALS_AHEAD, State};
use crate::table::Table;
use crate::time::Timestamp;

/// The keys of evicted items, in order. A single key needs no heap memory.
pub type Evicted = SmallVec<[u64; 1]>;

/// The effect of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The item is new. It is in the table unless it was itself evicted.
    Inserted {
        /// The items that were evicted because the table was full: at most one because of `max_size`, and any number
        /// because of `max_bytes`.
        evicted: Evicted,
    },
    /// The key already existed: only its priority changed. The rate limiter does not count this as an insert.
    Updated,
}

/// The largest number of items that an insert evicts while a table shrinks: far more than the insert adds, but few
/// enough to be fast.
const EVICTIONS_WHILE_SHRINKING: usize = 64;

impl Table {
    /// Inserts an item. While the table then exceeds `max_size` or `max_bytes`, the remover evicts items, possibly
    /// including the new one. If the key exists, only the priority is updated.
    ///
    /// The caller must first have checked with [`can_insert`](Self::can_insert) that the rate limiter allows the
    /// insert.
    ///
    /// # Errors
    /// [`InsertError`] if a selector refuses the priority, or if the item by itself exceeds `max_bytes`. The table is
    /// then unchanged, and the item's data is in `freed`.
    pub fn insert<R: Rng + ?Sized>(
        &mut self,
        item: NewItem,
        now: Timestamp,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Result<InsertOutcome, InsertError> {
        let admitted = match self.admit(&item) {
            Ok(Some(admitted)) => admitted,
            settled => {
                freed.push_trajectory(item.trajectory);
                return settled.map(|_| InsertOutcome::Updated);
            }
        };
        let slot = self.state.add(item, now, admitted);
        self.notify(slot, |extension, context, view| extension.on_insert(context, view));
        let most = if self.state.is_shrinking { EVICTIONS_WHILE_SHRINKING } else { usize::MAX };
        let evicted = self.evict_excess(most, rng, freed);
        self.state.limiter.record_insert();
        Ok(InsertOutcome::Inserted { evicted })
    }

    /// Prefetches the memory that inserts of these keys will read, and the items that they will evict, so that memory
    /// latencies overlap. The table does not change. Keys beyond [`MAX_SIDE_BY_SIDE`] are ignored.
    pub fn expect_inserts(&self, keys: &[u64]) {
        let State { config, contents, .. } = &self.state;
        let keys = keys.get(..MAX_SIDE_BY_SIDE).unwrap_or(keys);
        keys.iter().for_each(|&key| contents.items.prefetch_bucket(contents.items.hash(key)));
        let over = (contents.items.len() + keys.len()) as u64;
        let leaving = usize::try_from(over.saturating_sub(config.max_size)).unwrap_or(usize::MAX);
        let leaving = leaving.min(keys.len());
        if leaving > 0 {
            let wanted = (leaving + REMOVALS_AHEAD).min(MAX_SIDE_BY_SIDE);
            let slots: SmallVec<[Slot; MAX_SIDE_BY_SIDE]> = contents.remover.next_to_leave(wanted).collect();
            contents.items.prefetch_removals(leaving, &slots);
        }
    }

    /// Checks that an item by itself does not exceed the table's bound. An item with an existing key always passes,
    /// since only its priority is used.
    ///
    /// # Errors
    /// [`InsertError::TooLarge`].
    pub fn check_bytes(&self, item: &NewItem) -> Result<(), InsertError> {
        let Some(limit) = self.state.config.max_bytes else { return Ok(()) };
        let (key, size_bytes) = (item.key, item.trajectory.encoded_size_bytes());
        if size_bytes <= limit || self.contains(key) {
            return Ok(());
        }
        Err(InsertError::TooLarge { table: self.state.config.name.clone(), key, size_bytes, limit })
    }

    /// Checks that the selectors accept a new item. If the key exists, updates its priority instead, which completes
    /// the insert.
    fn admit(&mut self, item: &NewItem) -> Result<Option<Admitted>, InsertError> {
        let admitted = match self.state.contents.items.find(item.key) {
            Some(slot) => self.update_slot(slot, item.priority).map(|()| None),
            None => {
                self.check_bytes(item)?;
                self.state.contents.admit(None, item.priority).map(Some)
            }
        };
        let (key, table) = (item.key, || self.state.config.name.clone());
        admitted.map_err(|source: PriorityError| InsertError::Priority { table: table(), key, source })
    }

    /// Evicts items chosen by the remover until the table is within its bounds, or a limit is reached.
    pub(super) fn evict_excess<R: Rng + ?Sized>(
        &mut self,
        most: usize,
        rng: &mut R,
        freed: &mut Freed,
    ) -> Evicted {
        let mut evicted = Evicted::new();
        while self.state.is_over() && evicted.len() < most {
            let Some(pick) = self.state.contents.remover.pick(rng) else { break };
            evicted.extend(self.remove_slot(pick.slot, freed));
        }
        evicted
    }
}

impl State {
    /// Returns whether the table exceeds its bounds.
    pub(super) fn is_over(&self) -> bool {
        let Self { config, contents, .. } = self;
        contents.items.len() as u64 > config.max_size
            || config.max_bytes.is_some_and(|limit| contents.account.encoded_bytes() > limit)
    }

    fn add(&mut self, item: NewItem, now: Timestamp, admitted: Admitted) -> Slot {
        let NewItem { key, priority, times_sampled, trajectory } = item;
        self.contents.hold(&trajectory);
        let data = Arc::new(ItemData { key, sequence: self.sequence.take(), inserted_at: now, trajectory });
        let slot = self.contents.items.insert(data, priority, times_sampled);
        self.contents.select(slot, admitted);
        slot
    }
}
