//! The shared state of a writer and its connection: options and progress.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::access::WriterAccess;
use super::error::StreamError;
use super::message::{FromShard, Item, ToShard};
use super::sending::Sending;

/// The options for a writer.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The number of the writer's shard.
    pub shard: u32,
    /// The number of times that the shard has been started: 1, 2, …
    pub epoch: u64,
    /// The token and the TLS settings for the port.
    pub access: WriterAccess,
    /// How long the reader may be silent before the shard ends.
    pub lease: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { shard: 0, epoch: 1, access: WriterAccess::default(), lease: Duration::from_mins(1) }
    }
}

/// The shared state of a writer and its connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) options: WriterOptions,
    begun: Instant,
    state: Mutex<OutgoingState>,
    /// Notified when the reader has taken items or granted credit, or when the stream is over.
    changed: Condvar,
    /// Notified when there is something to send while the connection is idle.
    pub(super) pushed: Notify,
    /// Notified when the writer has been dropped.
    pub(super) left: Notify,
}

#[derive(Debug)]
pub(super) struct OutgoingState {
    pub(super) sending: Sending,
    /// Whether the connection is waiting for something to send.
    is_idle: bool,
    is_left: bool,
    pub(super) has_joined: bool,
    over: Option<StreamError>,
}

impl Outgoing {
    pub(super) fn new(options: WriterOptions) -> Outgoing {
        let state = OutgoingState {
            sending: Sending::new(options.epoch, Duration::ZERO),
            is_idle: false,
            is_left: false,
            has_joined: false,
            over: None,
        };
        Outgoing {
            options,
            begun: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            pushed: Notify::new(),
            left: Notify::new(),
        }
    }

    /// Returns the time since the writer began.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OutgoingState> {
        self.state.lock()
    }

    /// Waits for a condition, up to a timeout. Returns whether the condition holds.
    ///
    /// # Errors
    /// The stream is over.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        is_so: impl Fn(&Sending) -> bool,
    ) -> Result<bool, StreamError> {
        let until = Instant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            if is_so(&state.sending) {
                return Ok(true);
            }
            if let Some(error) = &state.over {
                return Err(error.clone());
            }
            if self.changed.wait_until(&mut state, until).timed_out() {
                return Ok(is_so(&state.sending));
            }
        }
    }

    /// Accepts an item.
    ///
    /// # Errors
    /// The stream is over.
    pub(super) fn push(&self, item: Item) -> Result<(), StreamError> {
        let mut state = self.state.lock();
        if let Some(error) = &state.over {
            return Err(error.clone());
        }
        state.sending.push(item);
        let is_idle = std::mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.pushed.notify_one();
        }
        Ok(())
    }

    /// Records that the writer has been dropped.
    pub(super) fn leave(&self) {
        self.lock().is_left = true;
        self.pushed.notify_one();
        self.left.notify_one();
    }

    pub(super) fn receive(&self, message: &ToShard) {
        let (now, mut state) = (self.now(), self.state.lock());
        state.sending.receive(now, message);
        let options = &self.options;
        match message {
            ToShard::Replaced { by } => {
                state.over =
                    Some(StreamError::Replaced { shard: options.shard, epoch: options.epoch, by: *by });
            }
            ToShard::Closed if !state.sending.is_done() => {
                state.over = Some(StreamError::Closed { shard: options.shard });
            }
            ToShard::Closed | ToShard::Credit { .. } => {}
        }
        // The granted credit may permit sending items that were pushed before, or that must be sent again.
        self.pushed.notify_one();
        self.changed.notify_all();
    }

    /// Ends the stream with an error.
    pub(super) fn give_up(&self, error: StreamError) {
        self.state.lock().over.get_or_insert(error);
        self.changed.notify_all();
    }

    pub(super) fn end(&self) {
        self.changed.notify_all();
    }

    pub(super) fn joined(&self) {
        let mut state = self.state.lock();
        state.has_joined = true;
        state.sending.connected(self.now());
    }
}

impl OutgoingState {
    /// Returns whether the connection has nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        self.is_left || self.over.is_some() || self.sending.is_done()
    }

    /// Returns the next message to send. If there is none, the caller waits for `pushed`.
    pub(super) fn transmit(&mut self, now: Duration) -> Option<FromShard> {
        let message = self.sending.transmit(now);
        self.is_idle = message.is_none();
        message
    }
}
