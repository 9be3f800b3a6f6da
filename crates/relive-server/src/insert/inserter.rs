//! The state of an insert stream on any transport: chunks that are kept for later items, and items that are being
//! inserted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use relive_engine::MemoryGate;
use relive_tensor::{Chunk, Ledger, SharedHeaders, TrajectoryBuilder};
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::InsertItems;
use relive_wire::{chunk, item, item_run};
use tonic::Status;

use super::items::ItemsInFlight;
use crate::limits::{ANNOUNCED_BYTES, MAX_HELD_CHUNKS_PER_STREAM, MAX_UNHELD_BYTES, MAX_UNHELD_CHUNKS};
use crate::services::{Services, status};
use crate::traffic::{ConnectionBudget, Load, StreamBudget};

/// Chunks by key. The keys are chosen by clients.
type HeldChunks = HashMap<u64, Arc<Chunk>, foldhash::fast::RandomState>;

/// The chunks and items of one insert stream.
#[derive(Debug)]
pub(crate) struct Inserter {
    held: HeldChunks,
    ledger: Arc<Ledger>,
    /// The gate at which the stream waits for memory before it reads more.
    gate: MemoryGate,
    /// The budget for which the stream waits while too many bytes are in flight.
    budget: StreamBudget,
    load: Option<Load>,
    arrivals: ItemsInFlight,
    /// The previous headers of chunks and the previous structures of items.
    headers: SharedHeaders,
    builder: TrajectoryBuilder,
}

impl Inserter {
    pub(crate) fn new(services: &Services, peer: &Arc<str>, connection_budget: &ConnectionBudget) -> Self {
        Self {
            held: HeldChunks::default(),
            ledger: Arc::clone(services.engine().ledger()),
            gate: services.engine().memory_gate(peer),
            budget: connection_budget.stream_budget(),
            load: None,
            arrivals: ItemsInFlight::new(services, peer),
            headers: SharedHeaders::default(),
            builder: TrajectoryBuilder::new(),
        }
    }

    /// Returns the items, and the keys to confirm.
    pub(crate) fn arrivals(&mut self) -> &mut ItemsInFlight {
        &mut self.arrivals
    }

    /// Returns whether a request has a reservation of memory.
    pub(crate) fn has_reserved(&self) -> bool {
        self.gate.has_reserved()
    }

    /// Waits until there is memory for a request of `size_bytes`, and reserves it. The wait for memory comes before the
    /// wait for room among the bytes in flight, because memory may be unavailable for a long time, and a waiting
    /// request must not occupy that room.
    pub(crate) fn poll_reserve(&mut self, size_bytes: u64, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self.gate.poll_open(cx, || unheld_bytes(&self.held)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(status::of_insert(&error))),
            Poll::Ready(Ok(())) => {
                self.load = Some(ready!(self.budget.poll_take(0, cx)));
                self.gate.reserve(size_bytes.min(ANNOUNCED_BYTES));
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Records that `bytes` of an incomplete request have arrived. Becomes ready once there is room for them; the
    /// caller must not read more before that.
    pub(crate) fn poll_grow(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.gate.reserve(bytes);
        self.load.as_mut().map_or(Poll::Ready(()), |load| load.poll_grow(bytes, cx))
    }

    /// Releases the reservation, because the received chunks themselves are counted from now on.
    pub(crate) fn unreserve(&mut self) {
        self.gate.unreserve();
        if let Some(load) = self.load.take() {
            load.arrived();
        }
    }

    /// Handles a complete request.
    pub(crate) fn handle(&mut self, request: &InsertStreamRequest) -> Result<(), Status> {
        self.hold(&request.chunks)?;
        if request.items.is_empty() {
            return expect_chunks(&request.chunks);
        }
        for run in request.items.chunk_by(|a, b| a.table == b.table) {
            let Some(first) = run.first() else { continue };
            let chunk_of = |key| self.held.get(&key).map(Arc::clone);
            self.arrivals.insert(&first.table, run.iter().map(|message| item::decode(message, chunk_of)))?;
        }
        self.keep(&request.keep_chunk_keys)
    }

    /// Handles a complete request with items in columns.
    pub(crate) fn handle_runs(&mut self, request: &InsertItems) -> Result<(), Status> {
        self.hold(&request.chunks)?;
        if request.runs.is_empty() {
            return expect_chunks(&request.chunks);
        }
        for run in &request.runs {
            let chunk_of = |key| self.held.get(&key).map(Arc::clone);
            let items = item_run::decode(run, &mut self.builder, chunk_of);
            self.arrivals.insert(&run.table, items.map_err(|error| status::of_wire(&error))?)?;
        }
        self.keep(&request.keep_chunk_keys)
    }

    /// Stores the chunks that are not held yet. If a key is sent repeatedly, its first content is kept.
    fn hold(&mut self, chunks: &[Bytes]) -> Result<(), Status> {
        for message in chunks {
            let chunk = chunk::decode(message).map_err(|error| status::of_wire(&error))?;
            if let Entry::Vacant(vacant) = self.held.entry(chunk.key()) {
                let chunk = self.headers.share(chunk).with_ledger(Arc::clone(&self.ledger));
                vacant.insert(Arc::new(chunk));
            }
        }
        if self.held.len() > MAX_HELD_CHUNKS_PER_STREAM {
            return Err(Status::resource_exhausted(format!(
                "this stream holds {} chunks; the limit is {MAX_HELD_CHUNKS_PER_STREAM}; list only the chunks \
                 that are still needed in keep_chunk_keys",
                self.held.len()
            )));
        }
        Ok(())
    }

    /// Drops every held chunk that `keys` does not list.
    fn keep(&mut self, keys: &[u64]) -> Result<(), Status> {
        let held = std::mem::take(&mut self.held);
        self.held = keys.iter().filter_map(|key| Some((*key, Arc::clone(held.get(key)?)))).collect();
        if self.held.len() == keys.len() {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "keep_chunk_keys lists {} keys, but this stream holds only {} of these chunks; list each held chunk at most once",
            keys.len(),
            self.held.len()
        )))
    }
}

/// A request without items must contain chunks; they are kept for later items.
fn expect_chunks(chunks: &[Bytes]) -> Result<(), Status> {
    if chunks.is_empty() {
        return Err(Status::invalid_argument("an insert request must have chunks or items"));
    }
    Ok(())
}

/// Returns the total size, in bytes, of the chunks that the stream has sent and that no table holds. Later items of the
/// stream need these chunks, so the chunks must not block the stream.
fn unheld_bytes(held: &HeldChunks) -> u64 {
    let unheld = held.values().take(MAX_UNHELD_CHUNKS).filter(|chunk| !chunk.is_held());
    unheld.map(|chunk| chunk.size_bytes()).sum::<u64>().min(MAX_UNHELD_BYTES)
}
