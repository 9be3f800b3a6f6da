//! InsertStream: chunks and items come in, confirmations go out.
//!
//! A session is one state machine that is polled by its connection's task; it holds no task and no channel of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use relive_engine::{Confirmations, MemoryGate, Outcome};
use relive_table::NewItem;
use relive_tensor::Chunk;
use relive_wire::reverb::{InsertStreamRequest, InsertStreamResponse, PrioritizedItem};
use relive_wire::{chunk, item};
use tokio_stream::Stream;
use tonic::Status;

use super::messages::Messages;
use super::services::StreamCount;
use super::stop::Stop;
use super::{Services, status};
use crate::limits::{
    MAX_HELD_CHUNKS_PER_STREAM, MAX_UNHELD_BYTES, MAX_UNHELD_CHUNKS, REQUESTS_PER_CONFIRMATION,
};

/// One insert stream.
#[derive(Debug)]
pub(super) struct InsertSession {
    services: Services,
    peer: Arc<str>,
    requests: Messages<InsertStreamRequest>,
    held: HashMap<u64, Arc<Chunk>>,
    /// Where the stream waits before it reads more than there is memory for.
    gate: MemoryGate,
    confirmations: Arc<Confirmations>,
    /// Keys to confirm with the next response.
    confirmed: Vec<u64>,
    /// Whether a table asked the stream to wait until one of its inserts is settled.
    is_paused: bool,
    reading: Reading,
    stop: Stop,
    _count: StreamCount,
}

#[derive(Debug)]
enum Reading {
    Open,
    /// The stream ends, with an error if there is one, once the confirmations so far are sent.
    Ended(Option<Status>),
    Over,
}

impl InsertSession {
    pub(super) fn new(services: &Services, peer: &Arc<str>, requests: Messages<InsertStreamRequest>) -> Self {
        Self {
            peer: Arc::clone(peer),
            requests,
            held: HashMap::new(),
            gate: services.engine().memory_gate(peer),
            confirmations: Arc::default(),
            confirmed: Vec::new(),
            is_paused: false,
            reading: Reading::Open,
            stop: services.stop(),
            _count: services.count_insert_stream(),
            services: services.clone(),
        }
    }

    /// Handles what lies ready, up to a number of requests, so that confirmations go out together.
    fn read(&mut self, cx: &mut Context<'_>) {
        for _ in 0..REQUESTS_PER_CONFIRMATION {
            if self.is_paused || !matches!(self.reading, Reading::Open) {
                return;
            }
            match self.poll_request(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => self.reading = Reading::Ended(None),
                Poll::Ready(Some(Err(status))) => self.reading = Reading::Ended(Some(status)),
                Poll::Ready(Some(Ok(request))) => {
                    if let Err(status) = self.handle(&request) {
                        self.reading = Reading::Ended(Some(status));
                    }
                }
            }
            self.gate.unreserve();
        }
        // More requests may lie ready: come back for them.
        cx.waker().wake_by_ref();
    }

    /// The next request, once there is memory for it: it is decoded only then. A stream that brings nothing does not wait.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<InsertStreamRequest, Status>>> {
        if !self.gate.has_reserved() {
            let size_bytes = match ready!(self.requests.poll_begun(cx)) {
                Some(Ok(size_bytes)) => size_bytes,
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            };
            if let Err(error) = ready!(self.gate.poll_open(cx, || unheld_bytes(&self.held))) {
                return Poll::Ready(Some(Err(status::of_insert(&error))));
            }
            self.gate.reserve(size_bytes);
        }
        self.requests.poll_next(cx)
    }

    fn handle(&mut self, request: &InsertStreamRequest) -> Result<(), Status> {
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
            let table = self
                .services
                .engine()
                .table(&first.table)
                .map_err(|error| status::of_engine(&error))?
                .clone();
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

    /// Collects the outcomes of inserts that had to wait.
    fn settle(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            self.is_paused = false;
            match outcome {
                Ok(key) => self.confirmed.push(key),
                Err(error) => self.reading = Reading::Ended(Some(status::of_insert(&error))),
            }
        }
    }
}

/// Bytes of chunks that the stream brought and no table has: items to come need them, and one stream is let go on with so
/// many.
fn unheld_bytes(held: &HashMap<u64, Arc<Chunk>>) -> u64 {
    let unheld = held.values().take(MAX_UNHELD_CHUNKS).filter(|chunk| !chunk.is_held());
    unheld.map(|chunk| chunk.size_bytes()).sum::<u64>().min(MAX_UNHELD_BYTES)
}

impl Stream for InsertSession {
    type Item = Result<InsertStreamResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let mut outcomes = Vec::new();
            let settled = this.confirmations.poll_settled(cx, &mut outcomes);
            this.settle(outcomes);
            this.read(cx);
            if !this.confirmed.is_empty() {
                let keys = std::mem::take(&mut this.confirmed);
                return Poll::Ready(Some(Ok(InsertStreamResponse { keys })));
            }
            if let Reading::Ended(end) = &mut this.reading {
                let end = end.take();
                this.reading = Reading::Over;
                return Poll::Ready(end.map(Err));
            }
            if matches!(this.reading, Reading::Over) {
                return Poll::Ready(None);
            }
            if settled.is_pending() {
                break;
            }
        }
        if this.stop.poll(cx).is_ready() {
            this.reading = Reading::Over;
            return Poll::Ready(Some(Err(status::stopping())));
        }
        Poll::Pending
    }
}
