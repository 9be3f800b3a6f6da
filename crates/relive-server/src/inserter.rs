//! What an insert stream brings, whichever way it comes: chunks that are held for its items, and items on their way into
//! tables.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use relive_engine::{Confirmations, MemoryGate, Outcome};
use relive_table::NewItem;
use relive_tensor::Chunk;
use relive_wire::reverb::{InsertStreamRequest, PrioritizedItem};
use relive_wire::{chunk, item};
use tonic::Status;

use crate::grpc::{Services, status};
use crate::limits::{MAX_HELD_CHUNKS_PER_STREAM, MAX_UNHELD_BYTES, MAX_UNHELD_CHUNKS};
use crate::traffic::{Line, Load, Passage};

/// Chunks by their keys, which clients choose.
type Held = HashMap<u64, Arc<Chunk>, foldhash::fast::RandomState>;

/// The chunks and items of one insert stream.
#[derive(Debug)]
pub(crate) struct Inserter {
    services: Services,
    peer: Arc<str>,
    held: Held,
    /// Where the stream waits before it reads more than there is memory for.
    gate: MemoryGate,
    /// Where it waits before there is more in flight than there may be.
    passage: Passage,
    load: Option<Load>,
    confirmations: Arc<Confirmations>,
    /// Keys that are to be confirmed.
    confirmed: Vec<u64>,
    /// Whether a table asked the stream to wait until one of its inserts is settled.
    is_paused: bool,
}

impl Inserter {
    pub(crate) fn new(services: &Services, peer: &Arc<str>, line: &Line) -> Self {
        Self {
            peer: Arc::clone(peer),
            held: Held::default(),
            gate: services.engine().memory_gate(peer),
            passage: line.passage(),
            load: None,
            confirmations: Arc::default(),
            confirmed: Vec::new(),
            is_paused: false,
            services: services.clone(),
        }
    }

    /// Whether nothing is to be read before an insert is settled.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Keys of items that are in their tables, since the last call.
    pub(crate) fn take_confirmed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.confirmed)
    }

    /// Takes in inserts that had to wait; waits for one if none is settled.
    pub(crate) fn poll_settled(&mut self, cx: &Context<'_>) -> Poll<Result<(), Status>> {
        let mut outcomes = Vec::new();
        if self.confirmations.poll_settled(cx, &mut outcomes).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(self.settle(outcomes))
    }

    /// All outcomes are taken in, also those after an error.
    fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<(), Status> {
        let mut result = Ok(());
        for outcome in outcomes {
            self.is_paused = false;
            match outcome {
                Ok(key) => self.confirmed.push(key),
                Err(error) => result = Err(status::of_insert(&error)),
            }
        }
        result
    }

    /// Whether a request has a place in memory.
    pub(crate) fn has_reserved(&self) -> bool {
        self.gate.has_reserved()
    }

    /// Waits until there is memory for a request of so many bytes, and takes its place. Memory first: there may be none for long, and
    /// what is in flight is to move.
    pub(crate) fn poll_reserve(&mut self, size_bytes: u64, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self.gate.poll_open(cx, || unheld_bytes(&self.held)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(status::of_insert(&error))),
            Poll::Ready(Ok(())) => {
                self.load = Some(ready!(self.passage.poll_take(0, cx)));
                self.gate.reserve(size_bytes);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// So many bytes of the request have come, and the rest has not. Ready once there is room for them: nothing is to be read before.
    pub(crate) fn poll_come(&mut self, bytes: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.load.as_mut().map_or(Poll::Ready(()), |load| load.poll_grow(bytes, cx))
    }

    /// Gives the place back: what was brought counts by itself.
    pub(crate) fn unreserve(&mut self) {
        self.gate.unreserve();
        if let Some(load) = self.load.take() {
            load.arrived();
        }
    }

    /// Handles a request to its end.
    pub(crate) fn handle(&mut self, request: &InsertStreamRequest) -> Result<(), Status> {
        if request.chunks.is_empty() && request.items.is_empty() {
            return Err(Status::invalid_argument("an insert request needs chunks or items"));
        }
        self.hold(request)?;
        if request.items.is_empty() {
            return Ok(());
        }
        self.insert(&request.items)?;
        self.keep(&request.keep_chunk_keys)
    }

    /// Stores the chunks that are not held yet; the first content of a key stays.
    fn hold(&mut self, request: &InsertStreamRequest) -> Result<(), Status> {
        for message in &request.chunks {
            let chunk = chunk::decode(message).map_err(|error| status::of_wire(&error))?;
            if let Entry::Vacant(vacant) = self.held.entry(chunk.key()) {
                let ledger = Arc::clone(self.services.engine().ledger());
                vacant.insert(Arc::new(chunk.with_ledger(ledger)));
            }
        }
        if self.held.len() > MAX_HELD_CHUNKS_PER_STREAM {
            return Err(Status::resource_exhausted(format!(
                "this stream holds {} chunks, at most {MAX_HELD_CHUNKS_PER_STREAM} are supported; list the ones still \
                 needed in keep_chunk_keys",
                self.held.len()
            )));
        }
        Ok(())
    }

    /// Inserts the items in order, runs of the same table together.
    fn insert(&mut self, items: &[PrioritizedItem]) -> Result<(), Status> {
        for run in items.chunk_by(|a, b| a.table == b.table) {
            let Some(first) = run.first() else { continue };
            let table = self.services.engine().table(&first.table);
            let table = table.map_err(|error| status::of_engine(&error))?;
            let mut unusable = None;
            let items =
                run.iter().map_while(|message| self.decode(message).map_err(|e| unusable = Some(e)).ok());
            let accepted = table
                .insert(items.collect::<Vec<_>>(), &self.peer, &self.confirmations, &mut self.confirmed)
                .map_err(|error| status::of_insert(&error))?;
            self.is_paused |= accepted.saturated && accepted.deferred > 0;
            if let Some(status) = unusable {
                return Err(status);
            }
        }
        Ok(())
    }

    fn decode(&self, message: &PrioritizedItem) -> Result<NewItem, Status> {
        item::decode(message, |key| self.held.get(&key).map(Arc::clone))
            .map_err(|error| status::of_wire(&error))
    }

    /// Drops every held chunk that `keys` does not list.
    fn keep(&mut self, keys: &[u64]) -> Result<(), Status> {
        let held = std::mem::take(&mut self.held);
        self.held = keys.iter().filter_map(|key| Some((*key, Arc::clone(held.get(key)?)))).collect();
        if self.held.len() == keys.len() {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "keep_chunk_keys lists {} keys, of which this stream holds {}: list each held chunk at most once",
            keys.len(),
            self.held.len()
        )))
    }
}

/// Bytes of chunks that the stream brought and no table has: items to come need them, and one stream is let go on with so
/// many.
fn unheld_bytes(held: &Held) -> u64 {
    let unheld = held.values().take(MAX_UNHELD_CHUNKS).filter(|chunk| !chunk.is_held());
    unheld.map(|chunk| chunk.size_bytes()).sum::<u64>().min(MAX_UNHELD_BYTES)
}
