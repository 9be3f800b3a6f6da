//! What a writer and its connection share: its options, and how far it is.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::access::WriterAccess;
use super::error::StreamError;
use super::message::{FromShard, Item, ToShard};
use super::sending::Sending;

/// What a writer is.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The number of its shard.
    pub shard: u32,
    /// How often the shard has begun: 1, 2, …
    pub epoch: u64,
    /// What it shows to the port.
    pub access: WriterAccess,
    /// For how long nothing may be heard of the reader before the shard ends.
    pub lease: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { shard: 0, epoch: 1, access: WriterAccess::default(), lease: Duration::from_mins(1) }
    }
}

/// What the writer and its connection share.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) options: WriterOptions,
    begun: Instant,
    state: Mutex<OutgoingState>,
    /// Told when the reader has taken or granted something, or the stream is over.
    heard: Condvar,
    /// Told when there is something to send while the connection has nothing to do.
    pub(super) pushed: Notify,
}

#[derive(Debug)]
pub(super) struct OutgoingState {
    pub(super) sending: Sending,
    /// Whether the connection waits for something to send.
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
            heard: Condvar::new(),
            pushed: Notify::new(),
        }
    }

    /// Time since the writer began.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OutgoingState> {
        self.state.lock()
    }

    /// Waits until something is so, for no longer than this; whether it is.
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
            if self.heard.wait_until(&mut state, until).timed_out() {
                return Ok(is_so(&state.sending));
            }
        }
    }

    /// Takes an item on.
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

    /// The writer is dropped.
    pub(super) fn leave(&self) {
        self.lock().is_left = true;
        self.pushed.notify_one();
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
        // What was granted may be sent already: it was pushed before, or is sent again.
        self.pushed.notify_one();
        self.heard.notify_all();
    }

    /// The stream is over.
    pub(super) fn give_up(&self, error: StreamError) {
        self.state.lock().over.get_or_insert(error);
        self.heard.notify_all();
    }

    pub(super) fn end(&self) {
        self.heard.notify_all();
    }

    pub(super) fn joined(&self) {
        let mut state = self.state.lock();
        state.has_joined = true;
        state.sending.connected(self.now());
    }
}

impl OutgoingState {
    /// Whether there is nothing left to do for the connection.
    pub(super) fn is_over(&self) -> bool {
        self.is_left || self.over.is_some() || self.sending.is_done()
    }

    /// What is to be sent; whoever gets nothing waits for `pushed`.
    pub(super) fn transmit(&mut self, now: Duration) -> Option<FromShard> {
        let message = self.sending.transmit(now);
        self.is_idle = message.is_none();
        message
    }
}
