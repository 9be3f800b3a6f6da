//! The items of a shard, as a pull stream.

use std::task::{Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use relive_flow::{Checkpoint, Polled, Pull, Tagged, Turn};
use std::sync::Arc;
use tokio::sync::Notify;

use super::error::StreamError;
use super::message::{FromShard, Item, ToShard};
use super::receiving::{Receiving, Window};

/// The statistics of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The number of times that the shard has been started; 0 before it has connected.
    pub epoch: u64,
    /// Whether the shard's writer is connected.
    pub is_connected: bool,
    /// The number of times that a writer has connected.
    pub connections: u64,
    /// The number of items that are waiting to be taken.
    pub waiting: usize,
    /// The number of items that have been taken in all epochs.
    pub taken: u64,
    /// The total size of these items in bytes.
    pub bytes: u64,
    /// Whether the shard has ended.
    pub has_ended: bool,
}

/// The items of a shard, in order.
///
/// A reader is the source of a flow: `Flow::from_pull("shard", reader)`. An error of the shard counts as an item; the
/// shard may continue after it. The shard starts to produce items at the first pull. Dropping the reader notifies the
/// shard that no more items are wanted.
#[derive(Debug)]
pub struct ShardReader(Arc<Slot>);

impl ShardReader {
    pub(super) fn new(slot: Arc<Slot>) -> Self {
        Self(slot)
    }
}

impl Drop for ShardReader {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Pull<Result<Bytes, StreamError>> for ShardReader {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Result<Bytes, StreamError>> {
        match self.0.poll(turn) {
            Poll::Ready(item) => Poll::Ready(item.map(|item| Ok(Tagged { item, source: None }))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> relive_flow::Result<()> {
        Err(checkpoint.refusal("a stream from another host is saved on the host of its shard"))
    }
}

/// The shared state of a reader and its connection.
#[derive(Debug)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    /// Notified when the connection should send something or end.
    pub(super) changed: Notify,
}

#[derive(Debug)]
struct SlotState {
    receiving: Receiving,
    waker: Option<Waker>,
    /// The number of the newest connection, and whether it is open.
    connections: u64,
    is_connected: bool,
    is_closed: bool,
    failure: Option<String>,
    has_failed: bool,
    taken: u64,
    bytes: u64,
}

impl Slot {
    pub(super) fn new(window: Window) -> Slot {
        let state = SlotState {
            receiving: Receiving::new(window),
            waker: None,
            connections: 0,
            is_connected: false,
            is_closed: false,
            failure: None,
            has_failed: false,
            taken: 0,
            bytes: 0,
        };
        Slot { state: Mutex::new(state), changed: Notify::new() }
    }

    fn poll(&self, turn: &mut Turn<'_>) -> Poll<Option<Result<Bytes, StreamError>>> {
        let mut state = self.state.lock();
        state.receiving.ask();
        let item = state.receiving.take();
        if state.receiving.has_new_credit() {
            self.changed.notify_one();
        }
        match item {
            Some(Item::Data(bytes)) => {
                state.taken += 1;
                state.bytes += bytes.len() as u64;
                Poll::Ready(Some(Ok(bytes)))
            }
            Some(Item::Failed(text)) => Poll::Ready(Some(Err(StreamError::Failed(text)))),
            Some(Item::End) => Poll::Ready(None),
            None if state.receiving.has_ended() || state.has_failed => Poll::Ready(None),
            None => match state.failure.take() {
                Some(text) => {
                    state.has_failed = true;
                    Poll::Ready(Some(Err(StreamError::Failed(text))))
                }
                None => {
                    state.waker = Some(turn.waker().clone());
                    Poll::Pending
                }
            },
        }
    }

    fn wake(mut state: parking_lot::MutexGuard<'_, SlotState>) {
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Registers a connection from a writer. Returns its number, or `None` if a writer from a later epoch has
    /// connected.
    pub(super) fn connected(&self, epoch: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if epoch < state.receiving.epoch() {
            return None;
        }
        state.connections += 1;
        state.is_connected = true;
        state.receiving.connected(epoch);
        // Wakes the task of the previous connection, which may not have noticed that the connection is dead.
        self.changed.notify_waiters();
        Some(state.connections)
    }

    pub(super) fn disconnected(&self, connection: u64) {
        let mut state = self.state.lock();
        if state.connections == connection {
            state.is_connected = false;
        }
    }

    /// Returns whether this is the newest connection.
    pub(super) fn is_of(&self, connection: u64) -> bool {
        self.state.lock().connections == connection
    }

    pub(super) fn receive(&self, connection: u64, message: FromShard) {
        let mut state = self.state.lock();
        if state.connections == connection && state.receiving.receive(message) {
            Self::wake(state);
        }
    }

    /// Returns the next message for the shard's writer.
    pub(super) fn transmit(&self, connection: u64) -> Option<ToShard> {
        let mut state = self.state.lock();
        if state.connections != connection {
            return None;
        }
        // The last credit confirms everything, including the end.
        let credit = state.receiving.transmit();
        credit.or_else(|| state.is_closed.then_some(ToShard::Closed))
    }

    pub(super) fn epoch(&self) -> u64 {
        self.state.lock().receiving.epoch()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Closes the slot, and drops the items that nothing will take, because the slot outlives its reader.
    fn abandon(&self) {
        let mut state = self.state.lock();
        let items = state.receiving.discard();
        state.waker = None;
        drop(state);
        drop(items);
        self.close();
    }

    pub(super) fn fail(&self, reason: &str) {
        let mut state = self.state.lock();
        if !state.has_failed {
            state.failure = Some(reason.to_owned());
        }
        Self::wake(state);
    }

    pub(super) fn status(&self) -> ShardStatus {
        let state = self.state.lock();
        ShardStatus {
            epoch: state.receiving.epoch(),
            is_connected: state.is_connected,
            connections: state.connections,
            waiting: state.receiving.waiting(),
            taken: state.taken,
            bytes: state.bytes,
            has_ended: state.receiving.has_ended(),
        }
    }
}
