//! Inserting an item.

use std::sync::Arc;

use rand_core::Rng;
use smallvec::SmallVec;

use crate::error::InsertError;
use crate::item::{ItemData, NewItem};
use crate::selector::{MAX_SIDE_BY_SIDE, PriorityError, Select, Slot};
use crate::storage::{Admitted, Freed, State};
use crate::table::Table;
use crate::time::Timestamp;

/// The keys of items that had to leave, in the order of their leaving. Up to one takes no heap memory.
pub type Evicted = SmallVec<[u64; 1]>;

/// What an insert did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The item is new. It is in the table, unless it is itself among those that were evicted.
    Inserted {
        /// The items that had to leave because the table was full: at most one for `max_size`, any number for
        /// `max_bytes`.
        evicted: Evicted,
    },
    /// The key was there already: its priority has changed, and nothing else. This is no insert to the rate limiter.
    Updated,
}

/// Items that an insert evicts at most while a table shrinks, which goes on beside it: far more than it adds, few
/// enough to keep it short.
const EVICTIONS_WHILE_SHRINKING: usize = 64;

impl Table {
    /// Inserts an item, and evicts the remover's choices as long as the table then holds more than `max_size` items or
    /// `max_bytes`: the new item itself may be among them. Of an item whose key is there already only the priority is
    /// taken.
    ///
    /// Whether the rate limiter allows it has been asked before, of [`can_insert`](Self::can_insert).
    ///
    /// # Errors
    /// [`InsertError`] if a selector refuses the priority, or the item alone is over `max_bytes`. Nothing has changed,
    /// and the item's data is in `freed`.
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

    /// Brings near what inserts of items of these keys are going to look at, and the items that they are going to
    /// evict, all at once: their waits for memory become one. It changes nothing and decides nothing; keys beyond
    /// [`MAX_SIDE_BY_SIDE`] are passed over.
    pub fn expect_inserts(&self, keys: &[u64]) {
        let State { config, contents, .. } = &self.state;
        let keys = keys.get(..MAX_SIDE_BY_SIDE).unwrap_or(keys);
        keys.iter().for_each(|&key| contents.items.touch_bucket(contents.items.hash(key)));
        let over = (contents.items.len() + keys.len()) as u64;
        let leaving = usize::try_from(over.saturating_sub(config.max_size)).unwrap_or(usize::MAX);
        let leaving: SmallVec<[Slot; MAX_SIDE_BY_SIDE]> =
            contents.remover.next_to_leave(leaving.min(keys.len())).collect();
        contents.items.touch_whole(&leaving);
    }

    /// Checks whether an item fits into the table at all. One whose key is there already does: it brings only a
    /// priority.
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

    /// What the selectors say of a new item. A known one gets its new priority, and nothing more is to be done.
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

    /// Evicts the remover's choices until the table holds no more than it may, or so many have left.
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
    /// Whether the table holds more than it may.
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
