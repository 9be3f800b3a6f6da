//! What is not confirmed yet, in order, and how it is cut into requests.
//!
//! Invariants: items leave `queue` in the order in which they were created, on every stream; a stream carries a chunk
//! once, before the first item that needs it; `held` is exactly what the server holds for this stream once the last
//! request cut is processed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::in_flight::InFlight;
use super::item::{PendingItem, uncut_chunks};
use super::request::Request;
use crate::chunks::ChunkSlot;

/// A request is closed when its chunks and items reach this many bytes. Large enough that a request's cost is its
/// bytes, small enough that the server can work on one while the next is on its way. dm-reverb cuts at 40 MiB.
pub(crate) const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A request carries at most this many items, so that confirmations come back while a burst is still being sent.
const MAX_REQUEST_ITEMS: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Not sent on the present stream, oldest first.
    queue: VecDeque<PendingItem>,
    /// Sent on the present stream, not confirmed.
    in_flight: InFlight,
    /// Chunks that the server holds for the present stream.
    held: Vec<Arc<ChunkSlot>>,
    /// Number of the present stream; the first is 1.
    stream: u64,
    pending_bytes: usize,
}

impl Outbox {
    /// Items that are not confirmed.
    pub(crate) fn pending_items(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// The items that are not confirmed, those that were sent first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &PendingItem> {
        self.in_flight.iter().chain(&self.queue)
    }

    /// Whether the server has items, or could have: others wait for steps of the writer's own.
    pub(crate) fn is_held_up(&self) -> bool {
        self.in_flight.len() > 0 || self.has_work()
    }

    /// Bytes of the chunks and messages of items that are not confirmed, chunks counted once; chunks that are not cut
    /// count from when they are.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Whether a request could be cut now.
    pub(crate) fn has_work(&self) -> bool {
        self.queue.front().is_some_and(PendingItem::is_ready)
    }

    pub(crate) fn queued_items(&self) -> usize {
        self.queue.len()
    }

    /// The chunks to be cut for the items of the queue, its newest `spared` left out.
    pub(crate) fn awaited_chunks(&self, spared: usize) -> Vec<Arc<ChunkSlot>> {
        uncut_chunks(self.queue.iter().rev().skip(spared))
    }

    /// Adds an item behind all others.
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

    /// Counts the bytes of a chunk that was cut after items began to refer to it.
    pub(crate) fn chunk_was_cut(&mut self, chunk: &ChunkSlot) {
        if chunk.has_pending_items() {
            self.pending_bytes += chunk.count_bytes();
        }
    }

    /// Takes note of a confirmation and hands back what is not needed any more, to be dropped outside of the lock.
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

    /// Begins a new stream: nothing was sent on it, and all that was not confirmed goes back to the front of the queue,
    /// in its order.
    pub(crate) fn start_stream(&mut self) -> u64 {
        self.stream += 1;
        self.held.clear();
        for item in self.in_flight.take().rev() {
            item.chunks().iter().for_each(|chunk| chunk.hold());
            self.queue.push_front(item);
        }
        self.stream
    }

    /// The number of the present stream.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// The next request of the present stream; none while the oldest item waits for a chunk to be cut.
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
            // The server looks at the list only in requests with items, and drops what is not on it.
            self.held.retain(|chunk| chunk.is_needed());
            request.keep_chunks(self.held.iter().map(|chunk| chunk.key()).collect());
        }
        (chunks + items > 0).then_some(request)
    }

    /// Adds the chunks of the oldest item that were not sent yet; whether all of them fitted in.
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
