//! The shard's end of a stream.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::access::WriterAccess;
use super::error::StreamError;
use super::limits::MAX_ITEM_BYTES;
use super::link;
use super::message::{Item, ToShard};
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

/// Sends the items of a shard to their reader, and again where a connection breaks.
#[derive(Debug)]
pub struct ShardWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer and its connection share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: WriterOptions,
    begun: Instant,
    state: Mutex<State>,
    /// Told when the reader has taken or granted something, or the stream is over.
    heard: Condvar,
    /// Told when there is something to send while the connection has nothing to do.
    pub(super) pushed: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) sending: Sending,
    /// Whether the connection waits for something to send.
    is_idle: bool,
    is_left: bool,
    has_joined: bool,
    over: Option<StreamError>,
}

impl ShardWriter {
    /// A writer for the port at `address`, such as `10.0.0.1:7000`. It connects, and connects again, on a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn connect(address: &str, options: WriterOptions) -> Result<ShardWriter, StreamError> {
        let state = State {
            sending: Sending::new(options.epoch, Duration::ZERO),
            is_idle: false,
            is_left: false,
            has_joined: false,
            over: None,
        };
        let shared = Arc::new(Shared {
            options,
            begun: Instant::now(),
            state: Mutex::new(state),
            heard: Condvar::new(),
            pushed: Notify::new(),
        });
        let broken = |error: std::io::Error| StreamError::Address {
            address: address.to_owned(),
            reason: format!("no thread for its connection: {error}"),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
        let (link, to) = (Arc::clone(&shared), address.to_owned());
        let work = move || {
            runtime.block_on(link::serve(&link, &to));
            link.end();
        };
        let thread = std::thread::Builder::new().name("relive-stream".to_owned()).spawn(work);
        Ok(ShardWriter { shared, thread: Some(thread.map_err(broken)?) })
    }

    /// Waits until the reader has room for another item, which the shard is to make then; whether it has, in this time.
    ///
    /// # Errors
    /// The stream is over: the reader is gone or wants no more, does not take this writer, or the shard has begun anew elsewhere.
    pub fn wait_for_room(&self, patience: Duration) -> Result<bool, StreamError> {
        self.wait(patience, Sending::has_room)
    }

    fn wait(&self, patience: Duration, is_so: impl Fn(&Sending) -> bool) -> Result<bool, StreamError> {
        let until = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        loop {
            if is_so(&state.sending) {
                return Ok(true);
            }
            if let Some(error) = &state.over {
                return Err(error.clone());
            }
            if self.shared.heard.wait_until(&mut state, until).timed_out() {
                return Ok(is_so(&state.sending));
            }
        }
    }

    /// Takes an item on. It does not wait: [`wait_for_room`](Self::wait_for_room) is what keeps a shard from being too far ahead.
    ///
    /// # Errors
    /// The item is too large; the stream is over.
    pub fn send(&self, item: Bytes) -> Result<(), StreamError> {
        if item.len() > MAX_ITEM_BYTES {
            let (shard, bytes) = (self.shared.options.shard, item.len());
            return Err(StreamError::TooLarge { shard, bytes, most: MAX_ITEM_BYTES });
        }
        self.push(Item::Data(item))
    }

    /// Tells the reader that the shard could not make an item.
    ///
    /// # Errors
    /// The stream is over.
    pub fn fail(&self, text: impl Into<String>) -> Result<(), StreamError> {
        self.push(Item::Failed(text.into()))
    }

    fn push(&self, item: Item) -> Result<(), StreamError> {
        let mut state = self.shared.state.lock();
        if let Some(error) = &state.over {
            return Err(error.clone());
        }
        state.sending.push(item);
        let is_idle = std::mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.shared.pushed.notify_one();
        }
        Ok(())
    }

    /// Ends the stream, and waits until the reader has taken all of it; whether it has, in this time.
    ///
    /// # Errors
    /// The stream is over, and something was not taken.
    pub fn finish(&self, patience: Duration) -> Result<bool, StreamError> {
        self.push(Item::End)?;
        self.wait(patience, Sending::is_done)
    }

    /// Items that the reader has taken.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.shared.state.lock().sending.confirmed()
    }

    /// Whether the reader has taken the writer on.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.shared.state.lock().has_joined
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        self.shared.state.lock().is_left = true;
        self.shared.pushed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Time since the writer began.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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

    fn end(&self) {
        self.heard.notify_all();
    }

    pub(super) fn joined(&self) {
        let mut state = self.state.lock();
        state.has_joined = true;
        state.sending.connected(self.now());
    }
}

impl State {
    /// Whether there is nothing left to do for the connection.
    pub(super) fn is_over(&self) -> bool {
        self.is_left || self.over.is_some() || self.sending.is_done()
    }

    /// What is to be sent; whoever gets nothing waits for `pushed`.
    pub(super) fn transmit(&mut self, now: Duration) -> Option<super::FromShard> {
        let message = self.sending.transmit(now);
        self.is_idle = message.is_none();
        message
    }
}
