//! The sending end of a stream, with its connection.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use super::error::StreamError;
use super::limits::MAX_ITEM_BYTES;
use super::link;
use super::message::Item;
use super::outgoing::{Outgoing, WriterOptions};
use super::sending::Sending;

/// Sends the items of a shard to their reader, and resends them after a connection has broken.
#[derive(Debug)]
pub struct ShardWriter {
    shared: Arc<Outgoing>,
    thread: Option<JoinHandle<()>>,
}

impl ShardWriter {
    /// Creates a writer for the port at `address`, such as `10.0.0.1:7000`. It connects and reconnects on its own
    /// thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn connect(address: &str, options: WriterOptions) -> Result<ShardWriter, StreamError> {
        let shared = Arc::new(Outgoing::new(options));
        let broken = |error: std::io::Error| StreamError::Address {
            address: address.to_owned(),
            reason: format!("cannot start the thread of its connection: {error}"),
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

    /// Waits until the reader has room for another item, which the shard should then produce. Returns whether there was
    /// room before the timeout.
    ///
    /// # Errors
    /// The stream is over: the reader is gone, accepts no more items, or rejects this writer, or the shard was
    /// restarted elsewhere.
    pub fn wait_for_room(&self, timeout: Duration) -> Result<bool, StreamError> {
        self.shared.wait(timeout, Sending::has_room)
    }

    /// Accepts an item without waiting. To stay within the reader's window, call [`wait_for_room`](Self::wait_for_room)
    /// first.
    ///
    /// # Errors
    /// The item is too large. The stream is then over.
    pub fn send(&self, item: Bytes) -> Result<(), StreamError> {
        if item.len() > MAX_ITEM_BYTES {
            let (shard, bytes) = (self.shared.options.shard, item.len());
            return Err(StreamError::TooLarge { shard, bytes, most: MAX_ITEM_BYTES });
        }
        self.shared.push(Item::Data(item))
    }

    /// Reports to the reader that the shard could not produce an item.
    ///
    /// # Errors
    /// The stream is over.
    pub fn fail(&self, text: impl Into<String>) -> Result<(), StreamError> {
        self.shared.push(Item::Failed(text.into()))
    }

    /// Ends the stream, and waits until the reader has taken all items. Returns whether that happened before the
    /// timeout.
    ///
    /// # Errors
    /// The stream is over, and some items were not taken.
    pub fn finish(&self, timeout: Duration) -> Result<bool, StreamError> {
        self.shared.push(Item::End)?;
        self.shared.wait(timeout, Sending::is_done)
    }

    /// Returns the number of items that the reader has taken.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.shared.lock().sending.confirmed()
    }

    /// Returns whether the reader has accepted the writer.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.shared.lock().has_joined
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        self.shared.leave();
        if let Some(thread) = self.thread.take() {
            // The panic has already been printed.
            let _ = thread.join();
        }
    }
}
