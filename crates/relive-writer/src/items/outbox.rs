//! Unconfirmed items, in order, and their division into requests.
//!
//! Invariants: on every stream, items leave `queue` in the order in which they were created; a stream carries a chunk
//! once, before the first item that needs it; `held` is exactly the set of chunks that the server holds for this stream
//! after it has processed the last request.

use std::collections::VecDeque;
use std::sync::Arc;

use super::in_flight::InFlight;
use super::item::{PendingItem, uncut_chunks};
use super::request::Request;
use crate::chunks::ChunkSlot;

/// The number of bytes of chunks and items at which a request is closed. It is large enough that the bytes dominate the
/// cost of a request, and small enough that the server can process one request while the next is in transit. dm-reverb
/// uses 40 MiB.
pub(crate) const MAX_REQUEST_BYTES: usize = 1 << 20;

/// The largest number of items in a request, so that confirmations arrive while a burst is still being sent.
const MAX_REQUEST_ITEMS: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Items that have not been sent on the current stream, oldest first.
    queue: VecDeque<PendingItem>,
    /// Items that have been sent on the current stream but have not been confirmed.
    in_flight: InFlight,
    /// Chunks that the server holds for the current stream.
    held: Vec<Arc<ChunkSlot>>,
    /// The number of the current stream; the first is 1.
    stream: u64,
    pending_bytes: usize,
}

impl Outbox {
    /// Returns the number of unconfirmed items.
    pub(crate) fn pending_items(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// Iterates over the unconfirmed items; sent items come first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &PendingItem> {
        self.in_flight.iter().chain(&self.queue)
    }

    /// Returns whether any item is in flight or could be sent. Other items wait for further steps of the writer.
    pub(crate) fn is_held_up(&self) -> bool {
        self.in_flight.len() > 0 || self.has_work()
    }

    /// Returns the number of bytes in the chunks and messages of unconfirmed items. A chunk is counted once, as soon as
    /// it has been cut.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns whether there is a request to send.
    pub(crate) fn has_work(&self) -> bool {
        self.queue.front().is_some_and(PendingItem::is_ready)
    }

    pub(crate) fn queued_items(&self) -> usize {
        self.queue.len()
    }

    /// Returns the chunks that have to be cut for the queued items, except the newest `spared` items.
    pub(crate) fn awaited_chunks(&self, spared: usize) -> Vec<Arc<ChunkSlot>> {
        uncut_chunks(self.queue.iter().rev().skip(spared))
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: PendingItem) {
        for chunk in item.chunks() {
            chunk.hold();
            if chunk.add_pending_item() {
                self.pending_bytes += chunk.count_bytes();
            }
        }
        self.pending_bytes += item.message_bytes();
        self.queue.push_back(item);
    }

    /// Counts the bytes of a chunk that was cut after items had begun to refer to it.
    pub(crate) fn chunk_was_cut(&mut self, chunk: &ChunkSlot) {
        if chunk.has_pending_items() {
            self.pending_bytes += chunk.count_bytes();
        }
    }

    /// Records a confirmation. Returns the item, to be dropped outside the lock.
    pub(crate) fn confirm(&mut self, key: u64) -> Option<PendingItem> {
        let item = self.in_flight.remove(key)?;
        for chunk in item.chunks() {
            if chunk.remove_pending_item() {
                self.pending_bytes -= chunk.uncount_bytes();
            }
        }
        self.pending_bytes -= item.message_bytes();
        Some(item)
    }

    /// Begins a new stream. Unconfirmed items return to the front of the queue, in order.
    pub(crate) fn start_stream(&mut self) -> u64 {
        self.stream += 1;
        self.held.clear();
        for item in self.in_flight.take().rev() {
            item.chunks().iter().for_each(|chunk| chunk.hold());
            self.queue.push_front(item);
        }
        self.stream
    }

    /// Returns the number of the current stream.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns the next request for the current stream, or `None` while the oldest item is waiting for a chunk to be
    /// cut.
    pub(crate) fn next_request<R: Request>(&mut self) -> Option<R> {
        let mut request = R::default();
        let (mut bytes, mut chunks, mut items) = (0, 0, 0);
        while bytes < MAX_REQUEST_BYTES && items < MAX_REQUEST_ITEMS && self.has_work() {
            let known = self.held.len();
            let is_whole = self.add_chunks(&mut request, &mut bytes);
            chunks += self.held.len() - known;
            if !is_whole {
                break;
            }
            let Some(item) = self.queue.pop_front() else { break };
            item.chunks().iter().for_each(|chunk| chunk.release());
            bytes += item.message_bytes();
            request.push_item(&item);
            items += 1;
            self.in_flight.push(item);
        }
        if items > 0 {
            // The server reads the list of kept chunks only in requests with items, and drops chunks that are not in
            // the list.
            self.held.retain(|chunk| chunk.is_needed());
            request.keep_chunks(self.held.iter().map(|chunk| chunk.key()).collect());
        }
        (chunks + items > 0).then_some(request)
    }

    /// Adds those chunks of the oldest item that have not been sent yet. Returns whether all of these chunks fit.
    fn add_chunks(&mut self, request: &mut impl Request, bytes: &mut usize) -> bool {
        let Some(item) = self.queue.front() else { return false };
        for chunk in item.chunks() {
            if chunk.is_sent_on(self.stream) {
                continue;
            }
            let Some(encoded) = chunk.message() else { return false };
            if *bytes > 0 && *bytes + encoded.len() > MAX_REQUEST_BYTES {
                return false;
            }
            chunk.mark_sent(self.stream);
            *bytes += encoded.len();
            request.push_chunk(encoded.clone());
            self.held.push(Arc::clone(chunk));
        }
        true
    }
}

#[cfg(test)]
mod tests;
