//! A single change to a table's state, made under the table's lock.

use std::sync::Arc;
use std::time::Instant;

use relive_table::{MAX_SIDE_BY_SIDE, NewItem, RefusedUpdate, Sampled, Timestamp};
use smallvec::SmallVec;

use super::after_unlock::AfterUnlock;
use super::confirmations::Confirmations;
use super::request::{Mutation, SampleRequest};
use super::slot::Slot;
use super::state::{SampleResult, State, WaitingInsert, WaitingSample};
use crate::error::EngineError;
use crate::limits::{MAX_WAITING_INSERTS, MAX_WAITING_SAMPLES};

/// The locked state, and the work to be done after the unlock.
pub(crate) struct Change<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) after: &'a mut AfterUnlock,
    pub(crate) now: Timestamp,
}

/// The source of inserts, and the destination of their outcomes.
pub(crate) struct Origin<'a> {
    pub(crate) who: &'a Arc<str>,
    pub(crate) since: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) confirmations: Option<&'a Arc<Confirmations>>,
}

impl Change<'_> {
    pub(crate) fn check_open(&self) -> Result<(), EngineError> {
        self.state.ended.as_ref().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Inserts an item immediately if no operation is waiting and the limiter allows it. Returns false if the item has
    /// to wait.
    pub(crate) fn insert(&mut self, item: NewItem, origin: &Origin<'_>) -> Result<bool, EngineError> {
        self.check_open()?;
        let (key, name) = (item.key, &self.state.table.config().name);
        self.state.table.check_priority(item.priority).map_err(|source| EngineError::Priority {
            table: name.clone(),
            key,
            source,
        })?;
        self.state.table.check_bytes(&item).map_err(|source| EngineError::Insert { source })?;
        if !self.state.inserts.is_empty() || self.state.table.insert_shortfall().is_some() {
            return self.wait(item, origin).map(|()| false);
        }
        self.state.insert_now(item, self.now, self.after)?;
        if !self.state.samples.is_empty() {
            self.state.serve_waiters(self.now, self.after);
        }
        Ok(true)
    }

    fn wait(&mut self, item: NewItem, origin: &Origin<'_>) -> Result<(), EngineError> {
        if self.state.inserts.len() >= MAX_WAITING_INSERTS {
            return Err(EngineError::QueueFull {
                table: self.name(),
                what: "inserts",
                limit: MAX_WAITING_INSERTS,
            });
        }
        self.state.next_deadline = earlier(self.state.next_deadline, origin.deadline);
        self.state.inserts.push_back(WaitingInsert {
            item,
            who: Arc::clone(origin.who),
            since: origin.since,
            deadline: origin.deadline,
            confirmations: origin.confirmations.map(Arc::clone),
        });
        Ok(())
    }

    /// Appends a request to the queue and serves all requests that can proceed, possibly including the new one.
    pub(crate) fn enqueue_sample(
        &mut self,
        request: SampleRequest,
        room: Vec<Sampled>,
        since: Instant,
    ) -> Result<(u64, Arc<Slot<SampleResult>>), EngineError> {
        self.check_open()?;
        if self.state.samples.len() >= MAX_WAITING_SAMPLES {
            let (what, limit) = ("sample requests", MAX_WAITING_SAMPLES);
            return Err(EngineError::QueueFull { table: self.name(), what, limit });
        }
        let id = self.state.next_sample_id;
        self.state.next_sample_id += 1;
        self.state.rate_limited = false;
        let slot = Arc::new(Slot::new());
        self.state.samples.push_back(WaitingSample::new(id, request, room, since, Arc::clone(&slot)));
        Ok((id, slot))
    }

    /// Samples up to `count` items for a caller that does not wait. Returns the number of items left in the table.
    pub(crate) fn take_samples(&mut self, count: usize, out: &mut Vec<Sampled>) -> Result<u64, EngineError> {
        self.check_open()?;
        let State { table, rng, .. } = &mut *self.state;
        table.sample_many(count, rng, out, &mut self.after.freed);
        Ok(table.len())
    }

    /// Consecutive updates are applied together.
    pub(crate) fn mutate(&mut self, mutations: impl Iterator<Item = Mutation>) -> Result<(), EngineError> {
        let mut updates: SmallVec<[(u64, f64); MAX_SIDE_BY_SIDE]> = SmallVec::new();
        for mutation in mutations {
            match mutation {
                Mutation::Update { key, priority } => {
                    updates.push((key, priority));
                    if updates.len() == MAX_SIDE_BY_SIDE {
                        self.update(&mut updates)?;
                    }
                }
                Mutation::Delete { key } => {
                    self.update(&mut updates)?;
                    self.state.table.delete(key, &mut self.after.freed);
                }
            }
        }
        self.update(&mut updates)
    }

    /// Applies the updates to the priorities, and clears the list of updates.
    fn update(&mut self, updates: &mut SmallVec<[(u64, f64); MAX_SIDE_BY_SIDE]>) -> Result<(), EngineError> {
        let updated = self.state.table.update_priorities(updates);
        updates.clear();
        updated.map_err(|RefusedUpdate { key, source }| EngineError::Priority {
            table: self.name(),
            key,
            source,
        })
    }

    /// Fails all waiting and later operations with `why`. Waiting inserts were not confirmed and are dropped.
    pub(crate) fn end(&mut self, why: &EngineError) {
        let closed = self.state.ended.insert(why.clone()).clone();
        for waiter in self.state.samples.drain(..) {
            self.after.wakers.extend(waiter.slot.fill(Err(closed.clone())));
        }
        for waiter in self.state.inserts.drain(..) {
            self.after.abandoned.push(waiter.item);
            if let Some(confirmations) = waiter.confirmations {
                self.after.settled.push((confirmations, Err(closed.clone())));
            }
        }
    }

    fn name(&self) -> String {
        self.state.table.config().name.clone()
    }
}

/// Returns the earlier of two deadlines.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}
