//! The state that a writer shares with its stream to a server, behind one lock.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use relive_connection::{Deadline, Error, Result};
use tokio::sync::Notify;
use tonic::Status;

use super::goal::{Goal, Limits, Pending, Unconfirmed, by_table, closed};
use crate::chunks::ChunkSlot;
use crate::items::Outbox;
use crate::items::PendingItem;
use crate::items::Request;

/// If fewer items than this are queued, they wait for the timer of a lingering stream, because waking the stream for
/// each item would cost more than sending the items.
const LINGER_ITEMS: usize = 128;

/// An item of this size wakes the stream immediately.
const LINGER_BYTES: usize = 16 << 10;

/// The lock is used by one writer and one stream, which hold it for a few hundred nanoseconds at a time.
#[derive(Debug)]
pub(crate) struct RemoteLink {
    limits: Limits,
    state: Mutex<Queue>,
    /// Notifies the writer when there is progress. There is at most one waiter, because writers are used through
    /// `&mut`.
    progress: Notify,
    /// Notifies the stream task that there is work.
    work: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    outbox: Outbox,
    /// A permanent error, returned by every later call.
    failure: Option<Error>,
    /// The reason why the last stream broke, until there is a new stream.
    last_error: Option<String>,
    closing: bool,
    /// The sending half of the stream, while it has nothing to send.
    idle_stream: Option<Waker>,
    /// Whether the idle stream checks the queue again within a millisecond, without being woken.
    lingering: bool,
    /// The number of reasons not to send yet.
    holds: usize,
    waiting_for: Option<Goal>,
    /// The number of items that the server has confirmed.
    num_confirmed: u64,
    /// The number of items of each table that have been confirmed since these counts were last taken.
    confirmed: Vec<(Arc<str>, u64)>,
}

impl RemoteLink {
    pub(crate) fn new(limits: Limits) -> RemoteLink {
        RemoteLink { limits, state: Mutex::default(), progress: Notify::new(), work: Notify::new() }
    }

    // For the writer.

    /// Returns the permanent error, if any.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.lock().check()
    }

    /// Returns whether items may be pushed now.
    pub(crate) fn has_room(&self) -> Result<bool> {
        let state = self.state.lock();
        state.check()?;
        Ok(self.limits.have_room(state.pending()))
    }

    /// Queues items, whether or not there is room for them.
    pub(crate) fn push(&self, items: impl Iterator<Item = PendingItem>) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        let mut is_large = false;
        for item in items {
            is_large |= item.encoded_bytes() >= LINGER_BYTES;
            state.outbox.push(item);
        }
        self.wake_stream(state, is_large);
        Ok(())
    }

    /// Returns the chunks for which items are waiting, except the chunks of the newest `spared` items.
    pub(crate) fn awaited_chunks(&self, spared: usize) -> Vec<Arc<ChunkSlot>> {
        self.state.lock().outbox.awaited_chunks(spared)
    }

    /// Records that chunks were cut.
    pub(crate) fn chunks_were_cut(&self, chunks: &[Arc<ChunkSlot>]) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        for chunk in chunks {
            state.outbox.chunk_was_cut(chunk);
        }
        self.wake_stream(state, false);
        Ok(())
    }

    fn wake_stream(&self, mut state: MutexGuard<'_, Queue>, at_once: bool) {
        let can_wait = state.lingering && !at_once && state.outbox.queued_items() < LINGER_ITEMS;
        if can_wait || !state.outbox.has_work() {
            return;
        }
        let waker = state.idle_stream.take();
        drop(state);
        match waker {
            Some(waker) => waker.wake(),
            None => self.work.notify_one(),
        }
    }

    /// Waits until there is room for an item.
    pub(crate) async fn wait_for_room(&self, timeout: Duration) -> Result<()> {
        self.wait_for(Goal::Room(self.limits), timeout).await
    }

    /// Waits until at most `items` items are unconfirmed.
    pub(crate) async fn wait_for_pending(&self, items: usize, timeout: Duration) -> Result<()> {
        self.wait_for(Goal::Pending(items), timeout).await
    }

    async fn wait_for(&self, goal: Goal, timeout: Duration) -> Result<()> {
        let deadline = Deadline::after(timeout);
        loop {
            {
                let mut state = self.state.lock();
                state.waiting_for = None;
                state.check()?;
                if goal.is_reached(state.pending()) {
                    return Ok(());
                }
                state.waiting_for = Some(goal);
                self.wake_stream(state, true);
            }
            if !deadline.wait_for(self.progress.notified()).await {
                return self.timed_out(goal, timeout);
            }
        }
    }

    fn timed_out(&self, goal: Goal, timeout: Duration) -> Result<()> {
        let mut state = self.state.lock();
        state.waiting_for = None;
        if goal.is_reached(state.pending()) {
            return Ok(());
        }
        let (tables, why) = (by_table(state.outbox.pending()), state.unconfirmed_reason());
        Err(goal.timed_out(timeout, state.pending(), &tables, &why))
    }

    /// Returns the unconfirmed items, if any.
    pub(crate) fn unconfirmed(&self) -> Option<Unconfirmed> {
        let state = self.state.lock();
        let items = state.outbox.pending_items();
        (items > 0).then(|| Unconfirmed {
            items,
            tables: by_table(state.outbox.pending()),
            why: state.unconfirmed_reason(),
            is_away: state.last_error.is_some(),
            has_failed: state.failure.is_some(),
        })
    }

    /// Returns how many items of each table the server has confirmed since the last call.
    pub(crate) fn take_confirmed(&self) -> Vec<(Arc<str>, u64)> {
        std::mem::take(&mut self.state.lock().confirmed)
    }

    /// Returns the total number of confirmed items, or `None` if no item is waiting for the server (as opposed to
    /// waiting for further steps).
    pub(crate) fn held_up_since(&self) -> Option<u64> {
        let state = self.state.lock();
        state.outbox.is_held_up().then_some(state.num_confirmed)
    }

    /// Returns the number of unconfirmed items.
    pub(crate) fn pending_items(&self) -> usize {
        self.state.lock().outbox.pending_items()
    }

    /// Ends the stream as soon as everything has been confirmed.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        let waker = state.idle_stream.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.work.notify_one();
    }

    /// Ends the stream now. As long as the sending half is open, the transport keeps the stream open, and the server
    /// does not notice that the writer is gone.
    pub(crate) fn abandon(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.closing = true;
            state.idle_stream.take()
        };
        self.next_stream();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether the writer is closed or being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Keeps the stream from sending while the returned value is alive.
    pub(crate) fn hold(link: &Arc<RemoteLink>) -> Hold {
        link.state.lock().holds += 1;
        Hold(Arc::clone(link))
    }

    // For the stream.

    /// Waits until there is something to send. Returns false when the writer is done.
    pub(crate) async fn wait_for_work(&self) -> bool {
        loop {
            {
                let state = self.state.lock();
                if state.outbox.pending_items() > 0 {
                    return true;
                }
                if state.closing {
                    return false;
                }
            }
            self.work.notified().await;
        }
    }

    /// Returns the waker of the current stream's sending half. The caller must call the waker once a new stream exists,
    /// so that the old sending half ends.
    pub(crate) fn leave_stream(&self) -> Option<Waker> {
        self.state.lock().idle_stream.take()
    }

    /// Replaces the current stream with a new one and returns its number. Unconfirmed items are resent.
    pub(crate) fn next_stream(&self) -> u64 {
        let mut state = self.state.lock();
        state.idle_stream = None;
        state.lingering = false;
        state.outbox.start_stream()
    }

    /// Returns the next request for the stream with number `stream`, or `None` to end the stream. With `lingering`, the
    /// caller polls again within a millisecond, or earlier if it is woken.
    pub(crate) fn poll_request<R: Request>(
        &self,
        stream: u64,
        lingering: bool,
        cx: &Context<'_>,
    ) -> Poll<Option<R>> {
        let mut state = self.state.lock();
        // Requests are only polled while a connection is established.
        state.last_error = None;
        if state.outbox.stream() != stream || state.is_done() {
            return Poll::Ready(None);
        }
        match state.next_request() {
            Some(request) => Poll::Ready(Some(request)),
            None => {
                state.idle_stream = Some(cx.waker().clone());
                state.lingering = lingering;
                Poll::Pending
            }
        }
    }

    /// Records confirmations.
    pub(crate) fn confirm(&self, keys: &[u64]) {
        let mut state = self.state.lock();
        let done: Vec<PendingItem> = keys.iter().filter_map(|key| state.outbox.confirm(*key)).collect();
        done.iter().for_each(|item| state.count(&item.table));
        let reached = state.waiting_for.is_some_and(|goal| goal.is_reached(state.pending()));
        drop(state);
        drop(done);
        if reached {
            self.progress.notify_one();
        }
    }

    /// Records why the stream broke, before it is reopened.
    pub(crate) fn stream_broke(&self, status: &Status) {
        let text = match status.message() {
            "" => status.code().description(),
            text => text,
        };
        self.state.lock().last_error = Some(text.to_owned());
    }

    /// Records a permanent error after which nothing is sent.
    pub(crate) fn refuse(&self, error: Error) {
        self.state.lock().holds += 1;
        self.fail(error);
    }

    /// Records a permanent error. Returns the first one.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let first = self.state.lock().failure.get_or_insert(error).clone();
        self.progress.notify_one();
        first
    }
}

/// A reason not to send yet.
#[derive(Debug)]
pub(crate) struct Hold(Arc<RemoteLink>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.holds -= 1;
        self.0.wake_stream(state, true);
    }
}

impl Queue {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.closing => Err(closed()),
            None => Ok(()),
        }
    }

    fn pending(&self) -> Pending {
        Pending {
            items: self.outbox.pending_items(),
            queued: self.outbox.queued_items(),
            bytes: self.outbox.pending_bytes(),
        }
    }

    fn count(&mut self, table: &Arc<str>) {
        self.num_confirmed += 1;
        match self.confirmed.iter_mut().find(|(known, _)| Arc::ptr_eq(known, table) || known == table) {
            Some((_, items)) => *items += 1,
            None => self.confirmed.push((Arc::clone(table), 1)),
        }
    }

    fn unconfirmed_reason(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.to_string();
        }
        let pending = self.pending();
        match &self.last_error {
            Some(last_error) => format!("the server cannot be reached: {last_error}"),
            None if pending.queued == pending.items => {
                "the server has not accepted any of them yet".to_owned()
            }
            None => "the server has not confirmed them; a rate limiter or a memory limit may block them"
                .to_owned(),
        }
    }

    fn next_request<R: Request>(&mut self) -> Option<R> {
        if self.holds > 0 { None } else { self.outbox.next_request() }
    }

    fn is_done(&self) -> bool {
        self.closing && self.outbox.pending_items() == 0
    }
}

#[cfg(test)]
mod tests {
    use relive_wire::v1::InsertItems;

    use super::*;

    #[test]
    fn nothing_is_sent_while_the_link_is_held() {
        let link = Arc::new(RemoteLink::new(Limits { items: 10, bytes: 1 << 20 }));
        let stream = link.next_stream();
        let polled = || link.poll_request::<InsertItems>(stream, false, &Context::from_waker(Waker::noop()));
        let holds = [RemoteLink::hold(&link), RemoteLink::hold(&link)];
        link.push(std::iter::once(PendingItem::new(1, Arc::from("t"), 1.0, &[]))).unwrap();
        for hold in holds {
            assert!(polled().is_pending());
            drop(hold);
        }
        assert!(matches!(polled(), Poll::Ready(Some(request)) if request.runs.len() == 1));
    }
}
