//! A table under its lock, with those who wait for it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Instant, SystemTime};

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{ItemStructure, NewItem, Sampled, Table, TableConfig, Timestamp};
use smallvec::SmallVec;

use crate::EngineError;
use crate::aftermath::Aftermath;
use crate::catalogue::Catalogue;
use crate::change::{Change, Origin};
use crate::cold::Cold;
use crate::columns;
use crate::confirmations::Confirmations;
use crate::group::Published;
use crate::limits::read_ahead;
use crate::memory::Memory;
use crate::request::{Accepted, Mutation, SampleRequest};
use crate::slot::Slot;
use crate::state::{SampleResult, State};
use crate::sync::Mutex;

/// One table under one lock; cheap to clone. What callers have is a [`TableHandle`](crate::TableHandle).
#[derive(Clone)]
pub(crate) struct TableCore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) name: Box<str>,
    pub(crate) state: Mutex<State>,
    /// Encoded bytes that the table's items refer to. Changes are counted after the lock, so that what an item brought may come after what it
    /// took away, and the sum be below zero meanwhile.
    pub(crate) referenced_bytes: AtomicI64,
    pub(crate) undelivered: AtomicU64,
    /// What others see of the table without its lock, if it is a shard.
    pub(crate) published: Option<Published>,
    /// Who waits for chunks that this table frees.
    pub(crate) memory: Arc<Memory>,
    /// What items look like: the structure of the signature, or the first that a writer proposes.
    pub(crate) structure: Mutex<Option<Arc<ItemStructure>>>,
    /// The disk tier, if there is one; set once the engine is whole.
    pub(crate) cold: OnceLock<Arc<Cold>>,
    /// The tables that extensions may insert into; set once the engine is whole.
    pub(crate) peers: OnceLock<Weak<Catalogue>>,
}

/// Inserts made under one lock: enough to make the lock cheap, few enough to keep it short.
const INSERTS_PER_LOCK: usize = 64;

/// Priorities set and items deleted under one lock; a learner's batch usually fits.
pub(crate) const MUTATIONS_PER_LOCK: usize = 1_024;

/// Mutations that take no memory of their own until the lock is there: those of one item, or of some.
const FEW_MUTATIONS: usize = 16;

impl TableCore {
    pub(crate) fn new(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>) -> Self {
        Self::of(table, rng, memory, None)
    }

    /// A table that is one of several shards.
    pub(crate) fn shard(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>) -> Self {
        let published = Published::of(&table);
        Self::of(table, rng, memory, Some(published))
    }

    fn of(table: Table, rng: Xoshiro256PlusPlus, memory: &Arc<Memory>, published: Option<Published>) -> Self {
        let bytes: u64 = table.iter_unordered().map(|item| item.data.trajectory.encoded_size_bytes()).sum();
        let shared = Shared {
            structure: Mutex::new(columns::of_signature(table.config())),
            name: table.config().name.as_str().into(),
            state: Mutex::new(State::new(table, rng)),
            published,
            referenced_bytes: AtomicI64::new(bytes.cast_signed()),
            undelivered: AtomicU64::new(0),
            cold: OnceLock::new(),
            memory: Arc::clone(memory),
            peers: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn config(&self) -> Arc<TableConfig> {
        Arc::clone(self.shared.state.lock().table.config())
    }

    /// See [`TableHandle::insert`](crate::TableHandle::insert).
    pub(crate) fn insert(
        &self,
        items: impl IntoIterator<Item = NewItem>,
        who: &Arc<str>,
        confirmations: &Arc<Confirmations>,
        confirmed: &mut Vec<u64>,
    ) -> Result<Accepted, EngineError> {
        let origin =
            Origin { who, since: Instant::now(), deadline: None, confirmations: Some(confirmations) };
        let mut items = items.into_iter();
        let mut accepted = Accepted::default();
        loop {
            let stage: SmallVec<[NewItem; 1]> = items.by_ref().take(INSERTS_PER_LOCK).collect();
            let keys: SmallVec<[u64; INSERTS_PER_LOCK]> = stage.iter().map(|item| item.key).collect();
            if keys.is_empty() {
                return Ok(accepted);
            }
            let mut stage = stage.into_iter();
            accepted = self.change(|change| {
                if keys.len() > 1 {
                    change.state.table.expect_inserts(&keys);
                }
                for item in stage.by_ref() {
                    let key = item.key;
                    if change.insert(item, &origin)? {
                        confirmed.push(key);
                    } else {
                        accepted.deferred += 1;
                    }
                }
                let saturated =
                    change.state.inserts.len() >= read_ahead(change.state.table.config().max_size);
                Ok(Accepted { saturated, ..accepted })
            })?;
        }
    }

    /// See [`TableHandle::mutate`](crate::TableHandle::mutate).
    pub(crate) fn mutate(&self, mutations: impl IntoIterator<Item = Mutation>) -> Result<(), EngineError> {
        let mut mutations = mutations.into_iter().peekable();
        let mut stage: SmallVec<[Mutation; FEW_MUTATIONS]> = SmallVec::new();
        loop {
            // The caller's code does not run under the lock.
            stage.extend(mutations.by_ref().take(MUTATIONS_PER_LOCK));
            self.mutate_at_once(stage.drain(..))?;
            if mutations.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// As [`mutate`](Self::mutate), all under one lock: of a few that lie ready.
    pub(crate) fn mutate_at_once(
        &self,
        mutations: impl Iterator<Item = Mutation>,
    ) -> Result<(), EngineError> {
        self.change(|change| {
            change.check_open()?;
            change.mutate(mutations)
        })
    }

    /// See [`TableHandle::reset`](crate::TableHandle::reset).
    pub(crate) fn reset(&self) -> Result<(), EngineError> {
        self.change(|change| {
            change.check_open()?;
            change.state.table.reset(&mut change.after.freed);
            Ok(())
        })
    }

    /// See [`TableHandle::close`](crate::TableHandle::close).
    pub(crate) fn close(&self) {
        self.end(&EngineError::Closed { table: self.name().to_owned() });
    }

    /// Fails everything that waits, and whatever comes later, with `why`.
    pub(crate) fn end(&self, why: &EngineError) {
        self.change(|change: &mut Change<'_>| change.end(why));
    }

    /// Inserts without anybody waiting for the outcome, giving up after `deadline`.
    pub(crate) fn insert_detached(&self, item: NewItem, who: &Arc<str>, deadline: Instant) -> Aftermath {
        let since = Instant::now();
        let origin = Origin { who, since, deadline: Some(deadline), confirmations: None };
        let (outcome, after) = self.locked(|change| change.insert(item, &origin));
        if let Err(error) = outcome {
            tracing::warn!(from = &**who, %error, "an extension's insert was refused");
        }
        after
    }

    pub(crate) fn enqueue_sample(
        &self,
        request: SampleRequest,
        since: Instant,
    ) -> Result<(u64, Arc<Slot<SampleResult>>), EngineError> {
        let room = request.room()?;
        self.change(|change| change.enqueue_sample(request, room, since))
    }

    /// Ends a request whose time is up: with its samples if it was served at the last moment.
    pub(crate) fn give_up_sample(&self, id: u64, slot: &Slot<SampleResult>, since: Instant) -> SampleResult {
        let reason = {
            let mut state = self.shared.state.lock();
            state.remove_sample(id).map(|_| match state.table.sample_shortfall() {
                Some(shortfall) => shortfall.to_string(),
                None => "other requests came first".to_owned(),
            })
        };
        slot.given_up(self.name(), reason, since)
    }

    /// Takes back a request; gives the samples that had been taken for it already.
    pub(crate) fn withdraw_sample(&self, id: u64, slot: &Slot<SampleResult>) -> Vec<Sampled> {
        let waiting = self.shared.state.lock().remove_sample(id);
        match waiting {
            Some(waiting) => waiting.taken,
            None => slot.take().and_then(Result::ok).unwrap_or_default(),
        }
    }

    /// Counts samples that were taken for a caller who is gone.
    pub(crate) fn count_undelivered(&self, samples: usize) {
        if samples > 0 {
            self.shared.undelivered.fetch_add(samples as u64, Ordering::Relaxed);
            tracing::debug!(table = self.name(), samples, "samples had no taker any more");
        }
    }

    /// Samples up to so many items for somebody who does not wait; tells how many items there are then, and what is left to
    /// be done.
    pub(crate) fn take_samples(
        &self,
        count: usize,
        out: &mut Vec<Sampled>,
    ) -> (Result<u64, EngineError>, Aftermath) {
        self.locked(|change| change.take_samples(count, out))
    }

    /// Changes the state under the lock, serves waiters, and does the rest after the lock.
    pub(crate) fn change<R>(&self, act: impl FnOnce(&mut Change<'_>) -> R) -> R {
        let (result, after) = self.locked(act);
        after.settle(self);
        result
    }

    /// Looks at the state under the lock: for those who come back at once, which must not keep others out.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        let state = self.shared.state.lock();
        let seen = look(&state);
        State::unlock(state, wall_clock());
        seen
    }

    fn locked<R>(&self, act: impl FnOnce(&mut Change<'_>) -> R) -> (R, Aftermath) {
        let now = wall_clock();
        let mut after = Aftermath::default();
        let mut state = self.shared.state.lock();
        let result = act(&mut Change { state: &mut state, after: &mut after, now });
        state.pump(now, &mut after);
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

/// Times before 1970 and after 2262 do not occur on a working clock; they count as the epoch.
pub(crate) fn wall_clock() -> Timestamp {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(0))
}
