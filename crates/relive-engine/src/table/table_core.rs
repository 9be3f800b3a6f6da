//! A table behind its lock, with its waiters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Instant;

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{Effect, NewItem, Table, TableConfig};

use super::after_unlock::{AfterUnlock, report};
use super::change::{Change, Origin};
use super::columns::Columns;
use super::published::Published;
use super::state::State;
use crate::error::EngineError;
use crate::limits::EXTENSION_INSERT_TIMEOUT;
use crate::log_throttle::LogThrottle;
use crate::memory::{DiskTier, Memory};
use crate::sync::{Mutex, wall_clock};

/// One table behind one lock; cheap to clone. Callers use a [`TableHandle`](crate::TableHandle).
#[derive(Clone)]
pub(crate) struct TableCore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) name: Box<str>,
    pub(crate) state: Mutex<State>,
    /// Encoded bytes to which the table's items refer. Changes are counted after the lock is released, so an addition
    /// may be counted after the matching removal, and the sum may be negative for a short time.
    pub(crate) referenced_bytes: AtomicI64,
    pub(crate) undelivered: AtomicU64,
    /// The state that can be read without the lock, if the table is a shard.
    pub(crate) published: Option<Published>,
    /// The bound on memory. Callers that wait at this bound need the memory that this table frees.
    pub(crate) memory: Arc<Memory>,
    pub(crate) columns: Columns,
    /// The disk tier, if the engine has one; set once the engine is complete.
    pub(crate) disk_tier: OnceLock<Arc<DiskTier>>,
    /// The tables that extensions may insert into; set once the engine is complete.
    pub(crate) peers: OnceLock<Weak<dyn Peers>>,
    /// The inserts of extensions that this table refused, or for which the target table of its own extensions does not
    /// exist.
    pub(super) refusals: Mutex<LogThrottle>,
}

/// The tables of an engine, for inserts that extensions request.
pub(crate) trait Peers: Send + Sync {
    /// Returns the core that holds the item with the given key in the table `name`.
    fn core_of(&self, name: &str, key: u64) -> Option<TableCore>;

    /// Serves the operations that are waiting for changes to a part of the table `name`.
    fn serve_waiters(&self, name: &str);
}

impl TableCore {
    pub(crate) fn new(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>) -> Self {
        Self::of(table, rng, memory, None)
    }

    /// Returns a table that is one of several shards.
    pub(crate) fn shard(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>) -> Self {
        let published = Published::of(&table);
        Self::of(table, rng, memory, Some(published))
    }

    fn of(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>, published: Option<Published>) -> Self {
        let bytes: u64 = table.iter_unordered().map(|item| item.data.trajectory.encoded_size_bytes()).sum();
        let shared = Shared {
            columns: Columns::of(table.config()),
            name: table.config().name.as_str().into(),
            state: Mutex::new(State::new(table, rng)),
            published,
            referenced_bytes: AtomicI64::new(bytes.cast_signed()),
            undelivered: AtomicU64::new(0),
            disk_tier: OnceLock::new(),
            memory: Arc::clone(memory),
            peers: OnceLock::new(),
            refusals: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn config(&self) -> Arc<TableConfig> {
        Arc::clone(self.shared.state.lock().table.config())
    }

    /// See [`TableHandle::reset`](crate::TableHandle::reset).
    pub(crate) fn reset(&self) -> Result<(), EngineError> {
        self.change(|change| {
            change.check_open()?;
            change.state.table.reset(&mut change.after.freed);
            self.shared.undelivered.store(0, Ordering::Relaxed);
            Ok(())
        })
    }

    /// See [`TableHandle::close`](crate::TableHandle::close).
    pub(crate) fn close(&self) {
        self.end(&EngineError::Closed { table: self.name().to_owned() });
    }

    /// Fails all waiting and later operations with the error `why`.
    pub(crate) fn end(&self, why: &EngineError) {
        self.change(|change: &mut Change<'_>| change.end(why));
    }

    /// Changes the state under the lock, serves waiters, and does the remaining work after releasing the lock.
    pub(crate) fn change<R>(&self, act: impl FnOnce(&mut Change<'_>) -> R) -> R {
        let (result, after) = self.locked(act);
        self.settle(after);
        result
    }

    /// Reads the state under the lock. `read` must return quickly, since it blocks other callers.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        let state = self.shared.state.lock();
        let seen = read(&state);
        State::unlock(state, wall_clock());
        seen
    }

    /// Inserts without reporting the outcome, and abandons the insert after `deadline`.
    pub(crate) fn insert_detached(&self, item: NewItem, who: &Arc<str>, deadline: Instant) -> AfterUnlock {
        let since = Instant::now();
        let origin = Origin { who, since, deadline: Some(deadline), confirmations: None };
        let (outcome, after) = self.locked(|change| change.insert(item, &origin));
        if let Err(error) = outcome
            && let Some(refused) = self.shared.refusals.lock().note(since)
        {
            tracing::warn!(from = &**who, refused, last = %error, "a table refused inserts of extensions");
        }
        after
    }

    /// Does the remaining work of a change; no table may be locked.
    pub(crate) fn settle(&self, after: AfterUnlock) {
        let mut effects = VecDeque::from(self.settle_own(after));
        while let Some((from, effect)) = effects.pop_front() {
            let Some(peers) = from.shared.peers.get().and_then(Weak::upgrade) else { continue };
            let Effect::InsertInto { table: name, item } = effect;
            let Some(core) = peers.core_of(&name, item.key) else {
                let (table, target) = (from.name(), &*name);
                if let Some(dropped) = from.shared.refusals.lock().note(Instant::now()) {
                    tracing::warn!(table, target, dropped, "the target table of an extension does not exist");
                }
                continue;
            };
            let who: Arc<str> = format!("extension of table {}", from.name()).into();
            let after = core.insert_detached(item, &who, Instant::now() + EXTENSION_INSERT_TIMEOUT);
            effects.extend(core.settle_own(after));
            peers.serve_waiters(&name);
        }
    }

    /// Does the remaining work of a change except for the effects on other tables, which it returns with their source
    /// table.
    fn settle_own(&self, after: AfterUnlock) -> Vec<(Self, Effect)> {
        report(after.settled);
        after.wakers.into_iter().for_each(Waker::wake);
        let referenced = &self.shared.referenced_bytes;
        if after.added_bytes > 0 {
            referenced.fetch_add(after.added_bytes.cast_signed(), Ordering::Relaxed);
            if let Some(tier) = self.shared.disk_tier.get() {
                tier.check_budget();
            }
        }
        if !after.freed.is_empty() {
            let bytes: u64 = after.freed.removed().map(|item| item.trajectory.encoded_size_bytes()).sum();
            referenced.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
            drop(after.freed);
            self.shared.memory.freed();
        }
        after.effects.into_iter().map(|effect| (self.clone(), effect)).collect()
    }

    pub(super) fn locked<R>(&self, act: impl FnOnce(&mut Change<'_>) -> R) -> (R, AfterUnlock) {
        let now = wall_clock();
        let mut after = AfterUnlock::default();
        let mut state = self.shared.state.lock();
        let result = act(&mut Change { state: &mut state, after: &mut after, now });
        state.serve_waiters(now, &mut after);
        if let Some(published) = &self.shared.published {
            published.publish(&state.table);
        }
        State::unlock(state, now);
        (result, after)
    }
}

impl std::fmt::Debug for TableCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCore").field("name", &self.name()).finish_non_exhaustive()
    }
}
