//! The task that keeps a connection on the bulk path open and reads its batches.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use relive_batch::{BatchMemory, Pool};
use relive_connection::{
    Backoff, Connection, Dialer, Error, ErrorKind, Result, SilentConnections, is_transient_status, refusal,
    status_error,
};
use relive_table::ItemStructure;
use relive_transport::shared::SharedMemory;
use relive_transport::{Frames, ReadError, Socket};
use relive_wire::bulk::{BatchView, FrameHeader, FrameKind, MAGIC};
use relive_wire::framing::Deframer;
use relive_wire::sample::Assembler;
use relive_wire::v1::{BatchHead, BatchesWithdrawn, OpenSampler, ShareMemory};
use relive_wire::{Message, structure};
use tokio::time::{Instant, sleep};

use super::arrived::arrived;
use super::request_sender::SendHalf;
use super::shared::{End, Ready, Shared};
use super::shared_piece::{Freed, batch_in_shared_memory};
use crate::samples::Sample;
use crate::samples::SampleBatch;

/// The number of bytes of batches that a server may send in advance, in addition to the first batch.
const WINDOW_BYTES: u64 = 256 << 20;

/// The reason why a connection ended.
enum ConnectionEnd {
    /// The connection may be restored.
    Io(String),
    /// No server is reachable at the moment.
    Away(String),
    /// A permanent error.
    Permanent(Error),
    /// The server supports only gRPC.
    BulkUnavailable,
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> ConnectionEnd {
        ConnectionEnd::Io(error.to_string())
    }
}

impl From<ReadError> for ConnectionEnd {
    fn from(error: ReadError) -> ConnectionEnd {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Frame(error) => protocol(&error),
        }
    }
}

fn protocol(error: &dyn std::fmt::Display) -> ConnectionEnd {
    ConnectionEnd::Permanent(Error::new(ErrorKind::Protocol, format!("sample: the server sent {error}")))
}

fn out_of_memory(error: &relive_batch::BatchError) -> Error {
    Error::new(ErrorKind::ResourceExhausted, format!("sample: {error}"))
}

/// Keeps connections open until all batches have arrived, a permanent error occurs, or the task is aborted.
pub(super) async fn run(shared: Arc<Shared>, connection: Connection, batch_size: u32) {
    let mut backoff = Backoff::default();
    let pool = Arc::default();
    let mut silent = SilentConnections::default();
    while !shared.is_done() {
        let started = Instant::now();
        let mut has_answered = false;
        let ended = one_connection(&shared, &connection, batch_size, &pool, &mut has_answered).await;
        connection.forget_dialer();
        match ended {
            Ok(()) => return,
            Err(ConnectionEnd::BulkUnavailable) => return shared.end(End::BulkUnavailable),
            Err(ConnectionEnd::Permanent(error)) if has_answered || error.is_refusal() => {
                return shared.end(End::Failed(error));
            }
            Err(ConnectionEnd::Away(text)) => shared.note_outage(text),
            Err(ConnectionEnd::Io(text)) => {
                // Without an answer, the server is shutting down, or a proxy forwards only gRPC.
                silent.note(has_answered);
                if silent.are_too_many() {
                    connection.use_grpc_only(&SilentConnections::REASON);
                    return shared.end(End::BulkUnavailable);
                }
                shared.note_outage(text);
            }
            Err(ConnectionEnd::Permanent(error)) => {
                connection.use_grpc_only(&error);
                return shared.end(End::BulkUnavailable);
            }
        }
        connection.watch_for_return(shared.take_known_inserts());
        sleep(backoff.wait_after(started.elapsed())).await;
    }
}

/// Runs one connection from its opening to its end.
async fn one_connection(
    shared: &Shared,
    connection: &Connection,
    batch_size: u32,
    pool: &Arc<Pool>,
    has_answered: &mut bool,
) -> Result<(), ConnectionEnd> {
    let dialer = match connection.dialer().await {
        Ok(dialer) => dialer.ok_or(ConnectionEnd::BulkUnavailable)?,
        Err(error) if error.is_refusal() => return Err(ConnectionEnd::Permanent(error)),
        Err(error) => return Err(ConnectionEnd::Away(error.to_string())),
    };
    let socket = dialer.dial().await.map_err(|error| ConnectionEnd::Away(error.to_string()))?;
    let mut bulk = BulkConnection::open(socket, &dialer, shared, batch_size, pool).await?;
    shared.note_connected();
    let ended = bulk.run(shared).await;
    shared.requests().disconnect();
    *has_answered |= bulk.has_answered;
    ended
}

struct BulkConnection {
    frames: Frames,
    pieces: HashMap<u32, Arc<SharedMemory>>,
    freed: Arc<Freed>,
    pool: Arc<Pool>,
    batch_size: u32,
    /// The last received structure of items.
    structure: Option<Arc<ItemStructure>>,
    /// Whether any frame has arrived.
    has_answered: bool,
}

impl BulkConnection {
    async fn open(
        socket: Socket,
        dialer: &Dialer,
        shared: &Shared,
        batch_size: u32,
        pool: &Arc<Pool>,
    ) -> io::Result<BulkConnection> {
        let frames = Frames::new(socket);
        let open = OpenSampler {
            table: shared.table().to_string(),
            batch_size,
            window_bytes: WINDOW_BYTES,
            shared_memory: dialer.shared_memory,
            samples_at_hand: u32::try_from(shared.samples_at_hand()).unwrap_or(0),
            token: dialer.token(),
        };
        frames.send(&mut [IoSlice::new(MAGIC)]).await?;
        frames.send_frame(FrameKind::OpenSampler, &open.encode_to_vec(), &[]).await?;
        Ok(BulkConnection {
            frames,
            pieces: HashMap::new(),
            freed: Arc::default(),
            pool: Arc::clone(pool),
            batch_size,
            structure: None,
            has_answered: false,
        })
    }

    /// Sends requests and reads concurrently, because the server may stop reading until its output is read.
    async fn run(&mut self, shared: &Shared) -> Result<(), ConnectionEnd> {
        let send_half = SendHalf::new(self.frames.writer(), Arc::clone(&self.freed));
        let mut requests = pin!(shared.requests().over(send_half, || shared.ask()));
        while !shared.is_done() {
            tokio::select! {
                biased;
                Err(error) = requests.as_mut() => return Err(error.into()),
                frame = self.frames.next() => {
                    let Some((header, head)) = frame? else {
                        return Err(ConnectionEnd::Io("the server ended the connection".to_owned()));
                    };
                    self.has_answered = true;
                    self.take_in(shared, &header, &head).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_in(
        &mut self,
        shared: &Shared,
        header: &FrameHeader,
        head: &[u8],
    ) -> Result<(), ConnectionEnd> {
        match header.kind {
            FrameKind::Batch => self.batch(shared, header, head).await,
            FrameKind::Samples => self.samples(shared, header).await,
            FrameKind::Share => self.share(head),
            FrameKind::Withdrawn => withdrawn(shared, head),
            FrameKind::Error => Err(refused(head)),
            kind => Err(protocol(&format!("an unexpected frame {kind:?}"))),
        }
    }

    async fn batch(
        &mut self,
        shared: &Shared,
        header: &FrameHeader,
        head: &[u8],
    ) -> Result<(), ConnectionEnd> {
        let head = BatchHead::decode(head).map_err(|error| protocol(&error))?;
        let view = BatchView::new(&head).map_err(|error| protocol(&error))?;
        if view.samples != self.batch_size as usize {
            return Err(protocol(&format!(
                "a batch of {} samples, but {} were requested",
                view.samples, self.batch_size
            )));
        }
        let memory = match head.slot {
            Some(slot) => self.piece(slot)?,
            None if header.body_len() == view.data_bytes => {
                let memory = self.pool.take(view.data_bytes);
                let mut memory = memory.map_err(|error| ConnectionEnd::Permanent(out_of_memory(&error)))?;
                self.frames.read_body(memory.bytes_mut()).await?;
                memory
            }
            None => return Err(protocol(&"a batch whose data does not match its header")),
        };
        for dropped in head.dropped_slots.iter().copied().chain(self.freed.take_mapped()) {
            self.pieces.remove(&dropped);
        }
        let bytes = view.data_bytes as u64;
        let batch = arrived(Arc::clone(shared.table()), &view, memory).map_err(ConnectionEnd::Permanent)?;
        if let Some(message) = &head.structure {
            self.structure = structure::items_of(message).map_err(|error| protocol(&error))?;
        }
        deliver(shared, SampleBatch::gathered(batch).of_items_like(self.structure.clone()), bytes)
    }

    fn piece(&self, slot: u32) -> Result<BatchMemory, ConnectionEnd> {
        let memory =
            self.pieces.get(&slot).ok_or_else(|| protocol(&"a batch in memory that was not shared"))?;
        Ok(batch_in_shared_memory(memory, slot, &self.freed))
    }

    async fn samples(&mut self, shared: &Shared, header: &FrameHeader) -> Result<(), ConnectionEnd> {
        let body = self.frames.read_bytes(header.body_len()).await?;
        let (bytes, mut received) = (body.len() as u64, Vec::new());
        let mut assembler = Assembler::of_items_like(self.structure.take());
        let mut deframer = Deframer::new(usize::MAX, 0);
        deframer.push(Bytes::from(body));
        while let Some(message) = deframer.take_message().map_err(|error| protocol(&error))? {
            assembler.push(&message, &mut received).map_err(|error| protocol(&error))?;
        }
        if deframer.held_bytes() > 0 {
            return Err(protocol(&"samples that end inside a message"));
        }
        self.structure = assembler.structure().cloned();
        let samples = received.into_iter().map(Sample::received);
        if shared.deliver_part(samples, bytes, self.batch_size as usize) {
            Ok(())
        } else {
            Err(protocol(&"more samples than requested"))
        }
    }

    fn share(&mut self, head: &[u8]) -> Result<(), ConnectionEnd> {
        let head = ShareMemory::decode(head).map_err(|error| protocol(&error))?;
        let len = usize::try_from(head.bytes).unwrap_or(usize::MAX);
        let descriptor = self.frames.take_descriptor();
        let descriptor = descriptor.ok_or_else(|| protocol(&"shared memory without a descriptor"))?;
        let memory = SharedMemory::open(descriptor, len).map_err(|error| protocol(&error))?;
        self.pieces.insert(head.slot, Arc::new(memory));
        Ok(())
    }
}

fn withdrawn(shared: &Shared, head: &[u8]) -> Result<(), ConnectionEnd> {
    let reason = BatchesWithdrawn::decode(head).map_err(|error| protocol(&error))?.reason;
    if shared.note_withdrawn(reason) { Ok(()) } else { Err(protocol(&"a withdrawal that was not requested")) }
}

fn deliver(shared: &Shared, batch: SampleBatch, bytes: u64) -> Result<(), ConnectionEnd> {
    if shared.deliver(Ready { batch, bytes }) {
        Ok(())
    } else {
        Err(protocol(&"more batches than requested"))
    }
}

fn refused(head: &[u8]) -> ConnectionEnd {
    let status = refusal(head);
    if is_transient_status(&status) {
        ConnectionEnd::Io(status.message().to_owned())
    } else {
        ConnectionEnd::Permanent(status_error("sample", status))
    }
}
