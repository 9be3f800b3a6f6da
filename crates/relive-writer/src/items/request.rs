//! Requests that carry chunks and items, over gRPC or the bulk path.

use bytes::Bytes;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::{InsertItems, ItemRun};

use super::item::PendingItem;

/// A request that the outbox fills.
pub(crate) trait Request: Default {
    /// Adds an encoded chunk.
    fn push_chunk(&mut self, chunk: Bytes);

    /// Appends an item.
    fn push_item(&mut self, item: &PendingItem);

    /// Sets the chunks to which later items refer.
    fn keep_chunks(&mut self, keys: Vec<u64>);
}

/// Over gRPC: item by item.
impl Request for InsertStreamRequest {
    fn push_chunk(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    fn push_item(&mut self, item: &PendingItem) {
        self.items.push(item.to_message());
    }

    fn keep_chunks(&mut self, keys: Vec<u64>) {
        self.keep_chunk_keys = keys;
    }
}

/// Over the bulk path: items in columns.
impl Request for InsertItems {
    fn push_chunk(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    fn push_item(&mut self, item: &PendingItem) {
        let squeeze = || item.columns().map(|(_, squeeze)| squeeze);
        match self.runs.last_mut() {
            Some(run) if run.accepts(&item.table, squeeze()) => item.add_to(run),
            _ => {
                let mut run = ItemRun::new(&item.table, squeeze());
                item.add_to(&mut run);
                self.runs.push(run);
            }
        }
    }

    fn keep_chunks(&mut self, keys: Vec<u64>) {
        self.keep_chunk_keys = keys;
    }
}
