//! The requests that are waiting for samples of a sharded table.
//!
//! No wake-up is lost. A request first records that it is waiting, and then checks each shard under its lock. A thread
//! that changes a shard checks for waiters after it releases the lock. Whichever of the two threads locks the shard
//! second sees the effect of the other.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use relive_table::{Sampled, Shortfall};

use super::queue::{NEVER_WAITED, WaitingRequests};
use super::sample::{SizesFrom, Unsettled};
use super::sharded::ShardedTable;
use crate::error::EngineError;
use crate::limits::MAX_WAITING_SAMPLES;
use crate::sync::{MutexGuard, Ordering, fence};
use crate::table::{Published, SampleRequest, SampleResult, Slot, WaitingSample};

impl ShardedTable {
    /// Takes samples immediately, or waits for them. Returns the number of the request and the slot for its samples.
    pub(crate) fn enqueue_sample(
        &self,
        request: SampleRequest,
        since: Instant,
    ) -> Result<(u64, Arc<Slot<SampleResult>>), EngineError> {
        let (room, slot) = (request.room()?, Arc::new(Slot::new()));
        let mut waiter = WaitingSample::new(NEVER_WAITED, request, room, since, Arc::clone(&slot));
        if self.queue.is_empty() {
            let mut left = Unsettled::default();
            let taken = self.take(&mut waiter, SizesFrom::Published, &mut left);
            left.settle(&self.cores);
            taken?;
        }
        if waiter.taken.is_empty() {
            return self.wait(waiter).map(|id| (id, slot));
        }
        // No task has polled the slot yet, so there is no waker.
        drop(slot.fill(Ok(waiter.taken)));
        Ok((NEVER_WAITED, slot))
    }

    /// Appends a request to the queue and serves all requests that can proceed, possibly including the new one.
    fn wait(&self, mut waiter: WaitingSample) -> Result<u64, EngineError> {
        let mut waiting = self.queue.lock();
        if let Some(why) = &waiting.ended {
            return Err(why.clone());
        }
        if waiting.requests.len() >= MAX_WAITING_SAMPLES {
            let (what, limit) = ("sample requests", MAX_WAITING_SAMPLES);
            return Err(EngineError::QueueFull { table: self.config.name.clone(), what, limit });
        }
        let id = waiting.next_id;
        waiting.next_id += 1;
        waiter.id = id;
        waiting.requests.push_back(waiter);
        self.queue.publish_len(&waiting);
        self.serve(waiting, Some(id));
        Ok(id)
    }

    /// Serves the requests that may now proceed. Called after each change that may unblock requests.
    pub(crate) fn serve_waiters(&self) {
        if self.queue.is_empty() {
            return;
        }
        // If two threads change different shards at the same time, at least one of them sees both changes.
        fence(Ordering::SeqCst);
        if self.published_shortfall().is_none() {
            self.serve(self.queue.lock(), None);
        }
    }

    /// Serves requests in order while samples are available; the request `new` has not waited yet.
    fn serve(&self, mut waiting: MutexGuard<'_, WaitingRequests>, new: Option<u64>) {
        let (mut left, mut wakers) = (Unsettled::default(), Vec::<Waker>::new());
        while let Some(head) = waiting.requests.front_mut() {
            let taken = self.take(head, SizesFrom::Locked, &mut left);
            if taken.is_ok() && head.taken.is_empty() {
                break;
            }
            let Some(mut head) = waiting.requests.pop_front() else { break };
            let has_waited = new != Some(head.id);
            head.taken.iter_mut().for_each(|sampled| sampled.rate_limited = has_waited);
            wakers.extend(head.slot.fill(taken.map(|()| head.taken)));
        }
        self.queue.publish_len(&waiting);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
        left.settle(&self.cores);
    }

    /// Ends a request after its deadline. Returns its samples if it was served at the last moment.
    pub(crate) fn give_up_sample(&self, id: u64, slot: &Slot<SampleResult>, since: Instant) -> SampleResult {
        let reason = self.queue.remove(id).map(|_| match self.sample_shortfall() {
            Some(shortfall) => shortfall.to_string(),
            None => "other requests were served first".to_owned(),
        });
        slot.take_after_deadline(&self.config.name, reason, since)
    }

    /// Withdraws a request. Returns the samples that were already taken for the request.
    pub(crate) fn withdraw_sample(&self, id: u64, slot: &Slot<SampleResult>) -> Vec<Sampled> {
        match self.queue.remove(id) {
            Some(waiting) => waiting.taken,
            None => slot.take().and_then(Result::ok).unwrap_or_default(),
        }
    }

    /// See [`TableHandle::close`](crate::TableHandle::close).
    pub(crate) fn close(&self) {
        self.end(&EngineError::Closed { table: self.config.name.clone() });
    }

    /// Fails all waiting and later operations with `why`.
    pub(crate) fn end(&self, why: &EngineError) {
        self.end_queue(why);
        self.cores.iter().for_each(|core| core.end(why));
    }

    /// Fails all waiting and later requests.
    fn end_queue(&self, closed: &EngineError) {
        let mut waiting = self.queue.lock();
        waiting.ended = Some(closed.clone());
        let requests = std::mem::take(&mut waiting.requests);
        self.queue.publish_len(&waiting);
        drop(waiting);
        let wakers = requests.into_iter().filter_map(|waiter| waiter.slot.fill(Err(closed.clone())));
        wakers.for_each(Waker::wake);
    }

    /// Returns the condition that blocks one sample, according to the latest published values.
    pub(super) fn published_shortfall(&self) -> Option<Shortfall> {
        self.shortfall(self.published().map(Published::items).sum())
    }
}
