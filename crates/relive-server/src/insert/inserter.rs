//! The state of an insert stream on any transport: chunks that are kept for later items, and items that are being
//! inserted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use relive_engine::MemoryGate;
use relive_tensor::{Chunk, Codec, Ledger, SharedHeaders, TrajectoryBuilder};
use relive_wire::chunk::Description;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::InsertItems;
use relive_wire::{item, item_run};
use tonic::Status;

use super::items::ItemsInFlight;
use crate::limits::{
    ANNOUNCED_BYTES, BYTES_PER_TURN, MAX_HELD_CHUNKS_PER_STREAM, MAX_UNHELD_BYTES, MAX_UNHELD_CHUNKS,
};
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
            Poll::Ready(Err(error)) => Poll::Ready(Err(status::of_engine(&error))),
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

    /// Handles a complete request, whose chunks are [held](Self::hold).
    pub(crate) fn handle(&mut self, request: &InsertStreamRequest) -> Result<(), Status> {
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

    /// Handles a complete request with items in columns, whose chunks are [held](Self::hold).
    pub(crate) fn handle_runs(&mut self, request: &InsertItems) -> Result<(), Status> {
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

    /// Stores the chunks that are not held yet. If a key is sent repeatedly, its first content is kept, and the others
    /// are not validated.
    ///
    /// Adds the bytes that the validation decodes to `turn_bytes`, and stops once these are [`BYTES_PER_TURN`]. Returns
    /// the number of chunks that were handled. The caller lets other connections have their turn before the rest.
    pub(crate) fn hold(&mut self, chunks: &[Bytes], turn_bytes: &mut usize) -> Result<usize, Status> {
        for (handled, message) in chunks.iter().enumerate() {
            if *turn_bytes >= BYTES_PER_TURN {
                return Ok(handled);
            }
            let described = Description::read(message).map_err(|error| status::of_wire(&error))?;
            if let Entry::Vacant(vacant) = self.held.entry(described.key()) {
                let chunk = described.into_chunk(message).map_err(|error| status::of_wire(&error))?;
                *turn_bytes += decoded_bytes(&chunk);
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
        Ok(chunks.len())
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

/// Returns the number of bytes that validating a chunk has decoded. Other codecs than Zstandard are validated without
/// decoding, in a time proportional to their encoded size.
fn decoded_bytes(chunk: &Chunk) -> usize {
    let is_decoded = !chunk.is_plain() && chunk.columns().iter().any(|column| column.codec == Codec::Zstd);
    if is_decoded { usize::try_from(chunk.uncompressed_size_bytes()).unwrap_or(usize::MAX) } else { 0 }
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

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::TableConfig;
    use relive_tensor::{SequenceRange, Tensor, encode_chunk};
    use relive_wire::chunk;
    use tokio::sync::watch;

    use super::*;
    use crate::services::LocalSocket;

    fn inserter() -> Inserter {
        let engine = Engine::builder().table(TableConfig::new("t")).build().unwrap();
        let (_stop, stopping) = watch::channel(false);
        let services = Services::new(engine, LocalSocket::default(), stopping, 1_000);
        let peer = Arc::from("10.0.0.1:1");
        Inserter::new(&services, &peer, &services.traffic().enter(&peer))
    }

    fn chunk_of(key: u64, size: usize, codec: Codec) -> Bytes {
        let column = Tensor::from_slice(&vec![0_u8; size], [1, u32::try_from(size).unwrap()]).unwrap();
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        chunk::encode(&Chunk::new(encode_chunk(key, range, &[column], false, codec).unwrap()).unwrap())
    }

    #[test]
    fn a_turn_ends_with_the_chunk_whose_decoded_bytes_fill_it() {
        let mut inserter = inserter();
        let half = BYTES_PER_TURN / 2;
        let chunks: Vec<Bytes> = (1..=3).map(|key| chunk_of(key, half, Codec::Zstd)).collect();
        let mut turn_bytes = 0;
        assert_eq!(inserter.hold(&chunks, &mut turn_bytes).unwrap(), 2);
        assert_eq!(inserter.hold(&chunks[2..], &mut turn_bytes).unwrap(), 0);
        turn_bytes = 0;
        assert_eq!(inserter.hold(&chunks[2..], &mut turn_bytes).unwrap(), 1);
        assert_eq!((turn_bytes, inserter.held.len()), (half, 3));
    }

    #[test]
    fn chunks_that_are_not_decoded_do_not_end_a_turn() {
        let mut inserter = inserter();
        let codecs = [Codec::Raw, Codec::Snappy, Codec::Lz4];
        let chunks: Vec<Bytes> =
            (1..).zip(codecs).map(|(key, codec)| chunk_of(key, BYTES_PER_TURN, codec)).collect();
        let mut turn_bytes = 0;
        assert_eq!(inserter.hold(&chunks, &mut turn_bytes).unwrap(), 3);
        assert_eq!(turn_bytes, 0);
    }

    #[test]
    fn a_repeated_key_keeps_its_first_content_and_is_not_validated() {
        let mut inserter = inserter();
        let first = chunk_of(1, 1_000, Codec::Zstd);
        let second = chunk_of(1, 2_000, Codec::Zstd);
        let mut turn_bytes = 0;
        assert_eq!(inserter.hold(&[first, second.clone(), second], &mut turn_bytes).unwrap(), 3);
        assert_eq!((turn_bytes, inserter.held[&1].uncompressed_size_bytes()), (1_000, 1_000));
    }
}
