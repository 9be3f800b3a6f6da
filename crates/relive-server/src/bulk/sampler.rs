//! A connection that reads batches from one table.

use std::future::poll_fn;
use std::sync::Arc;

use relive_engine::limits::MAX_SAMPLES_PER_REQUEST;
use relive_engine::{SampleRequest, TableHandle};
use relive_table::Sampled;
use relive_transport::Frames;
use relive_wire::Message;
use relive_wire::bulk::{FrameHeader, FrameKind};
use relive_wire::limits::MAX_BULK_SAMPLES;
use relive_wire::v1::{AskBatches, BatchesWithdrawn, OpenSampler};
use tokio::task::yield_now;
use tonic::Status;

use super::batches::{Rows, Sender};
use super::failure::{Failure, malformed, unexpected, without_body};
use super::slots::Slots;
use crate::limits::MAX_FETCHED_BYTES;
use crate::services::{Services, Stop, status};
use crate::traffic::ConnectionBudget;

/// Sends the batches that a client requests, until the client ends the connection or the server stops.
pub(super) async fn serve(
    frames: &mut Frames,
    open: &OpenSampler,
    services: &Services,
    peer: Arc<str>,
    connection_budget: &ConnectionBudget,
) -> Result<(), Failure> {
    let _count = services.count_sample_stream();
    let mut reader = Reader::new(frames, open, services, peer, connection_budget)?;
    // The future is boxed because it is large and lives as long as its connection.
    Box::pin(reader.run(frames)).await
}

struct Reader {
    table: TableHandle,
    peer: Arc<str>,
    batch_size: usize,
    /// The number of samples that the current batch still needs.
    missing: usize,
    /// The number of batches that the client has requested.
    requested: u64,
    /// Whether the client has withdrawn its requests, and no answer has been sent.
    is_withdrawing: bool,
    /// The number of bytes that may be in flight.
    window_bytes: u64,
    in_flight_bytes: u64,
    sender: Sender,
    /// The layout of batches that the table copies, if it is known.
    rows: Option<Rows>,
    /// After a failed attempt to copy a batch: the number of batches left until the next attempt, and the total length
    /// of the pause in batches.
    pause: (u32, u32),
    stop: Stop,
}

/// The longest pause, in batches, between two attempts to copy from a table that does not copy batches. An attempt
/// costs memory and the table's lock.
const MAX_PAUSE_BATCHES: u32 = 64;

/// The client is gone.
struct ClientGone;

impl Reader {
    fn new(
        frames: &Frames,
        open: &OpenSampler,
        services: &Services,
        peer: Arc<str>,
        connection_budget: &ConnectionBudget,
    ) -> Result<Self, Failure> {
        let table = services.engine().table(&open.table).map_err(|error| status::of_engine(&error))?;
        let batch_size = usize::try_from(open.batch_size).unwrap_or(usize::MAX);
        if batch_size == 0 || batch_size > MAX_BULK_SAMPLES {
            let text = format!("batch_size must be between 1 and {MAX_BULK_SAMPLES}, got {batch_size}");
            return Err(Status::invalid_argument(text).into());
        }
        let slots = (open.shared_memory && frames.socket().is_unix()).then(Slots::default);
        let sender = Sender::new(&table, slots, connection_budget.stream_budget());
        Ok(Self {
            table,
            peer,
            batch_size,
            missing: batch_size.saturating_sub(open.samples_at_hand as usize).max(1),
            requested: 0,
            is_withdrawing: false,
            window_bytes: open.window_bytes,
            in_flight_bytes: 0,
            sender,
            rows: None,
            pause: (0, 0),
            stop: services.stop(),
        })
    }

    async fn run(&mut self, frames: &mut Frames) -> Result<(), Failure> {
        loop {
            if !self.may_send() {
                self.sender.send_held(frames).await?;
            }
            while !self.may_send() {
                self.confirm_withdrawal(frames).await?;
                let stopping = poll_fn(|cx| self.stop.poll(cx));
                let frame = tokio::select! {
                    frame = frames.next() => frame?,
                    () = stopping => return Err(status::stopping().into()),
                };
                if self.handle_frame(frame)?.is_some() {
                    return Ok(());
                }
                // Yields to other connections on this thread, however much this client sends.
                yield_now().await;
            }
            let mut samples = match self.send_rows(frames).await? {
                Ok(sent) => {
                    self.pause = (0, 0);
                    self.in_flight_bytes += sent;
                    self.requested -= 1;
                    if !self.sender.holds() {
                        yield_now().await;
                    }
                    continue;
                }
                Err(samples) => samples,
            };
            self.sender.record_taken(samples.len());
            self.sender.send_held(frames).await?;
            if samples.is_empty() {
                samples = match self.take(frames).await? {
                    Ok(samples) => samples,
                    Err(ClientGone) => return Ok(()),
                };
                self.sender.record_taken(samples.len());
            }
            if samples.is_empty() {
                // The request was withdrawn.
                continue;
            }
            self.in_flight_bytes += self.send(frames, samples).await?;
            self.learn();
            yield_now().await;
        }
    }

    /// Tells the client that its requests are withdrawn, if it has withdrawn them.
    async fn confirm_withdrawal(&mut self, frames: &Frames) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_withdrawing) {
            let reason = self.table.sample_shortfall().map(|missing| missing.to_string());
            let head = BatchesWithdrawn { reason: reason.unwrap_or_default() }.encode_to_vec();
            frames.send_frame(FrameKind::Withdrawn, &head, &[]).await?;
        }
        Ok(())
    }

    /// Returns whether a batch may be sent. A batch that is larger than the window is sent when no other bytes are in
    /// flight.
    fn may_send(&self) -> bool {
        self.requested > 0 && (self.in_flight_bytes == 0 || self.in_flight_bytes < self.window_bytes)
    }

    /// Determines the layout of the next batches after the table failed to copy one. As long as all attempts fail, they
    /// become less frequent.
    fn learn(&mut self) {
        let (left, last) = self.pause;
        if left > 0 {
            self.rows = None;
            self.pause = (left - 1, last);
            return;
        }
        self.rows = Rows::of(&self.table, self.batch_size);
        let next = (last * 2).clamp(1, MAX_PAUSE_BATCHES);
        self.pause = (next, next);
    }

    /// Sends a complete batch of small items if the table copies them; otherwise, returns the samples that the table
    /// took instead.
    async fn send_rows(&mut self, frames: &Frames) -> Result<Result<u64, Vec<Sampled>>, Failure> {
        match &self.rows {
            Some(rows) if self.missing == self.batch_size => {
                self.sender.send_rows(frames, &self.table, rows, self.requested > 1).await
            }
            _ => Ok(Err(Vec::new())),
        }
    }

    /// Sends samples that were taken. If the samples of a batch arrive gradually, they are sent as they arrive, so that
    /// the client has them even if the connection breaks.
    async fn send(&mut self, frames: &Frames, samples: Vec<Sampled>) -> Result<u64, Failure> {
        let is_whole = samples.len() == self.batch_size;
        self.missing -= samples.len().min(self.missing);
        if self.missing == 0 {
            self.missing = self.batch_size;
            // The request may have been withdrawn after its last samples were taken.
            self.requested = self.requested.saturating_sub(1);
        }
        let table = &self.table;
        if is_whole {
            self.sender.send(frames, table, samples).await
        } else {
            self.sender.send_individually(frames, table, &samples).await
        }
    }

    /// Takes some or all of the samples that the batch still needs, and handles messages from the client in the
    /// meantime. If the client ends the connection, no samples are taken; if it withdraws its requests, perhaps none.
    async fn take(&mut self, frames: &mut Frames) -> Result<Result<Vec<Sampled>, ClientGone>, Failure> {
        let who = Arc::clone(&self.peer);
        let limit = self.missing.min(MAX_SAMPLES_PER_REQUEST);
        let max_bytes = if self.table.has_disk_tier() { MAX_FETCHED_BYTES } else { u64::MAX };
        let request = SampleRequest { limit, max_bytes, timeout: None, who };
        let mut samples = self.table.sample(request);
        loop {
            let frame = tokio::select! {
                biased;
                taken = &mut samples => return Ok(Ok(taken.map_err(|error| status::of_sample(&error))?)),
                frame = frames.next() => frame?,
            };
            if self.handle_frame(frame)?.is_some() {
                return Ok(Err(ClientGone));
            }
            if self.requested == 0 {
                return Ok(Ok(samples.withdraw()));
            }
            yield_now().await;
        }
    }

    /// Handles a message from the client.
    fn handle_frame(&mut self, frame: Option<(FrameHeader, Vec<u8>)>) -> Result<Option<ClientGone>, Failure> {
        let Some((header, head)) = frame else { return Ok(Some(ClientGone)) };
        without_body(&header)?;
        if header.kind != FrameKind::Ask {
            return Err(unexpected(header.kind));
        }
        let ask = AskBatches::decode(head.as_slice()).map_err(|error| malformed(header.kind, error))?;
        if ask.withdraw {
            (self.requested, self.is_withdrawing) = (0, true);
        } else {
            self.requested = self.requested.saturating_add(ask.batches);
        }
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(ask.taken_bytes);
        let unknown = ask.free_slots.into_iter().find(|slot| !self.sender.give_back(*slot));
        let unknown = unknown.or_else(|| ask.kept_slots.into_iter().find(|slot| !self.sender.abandon(*slot)));
        match unknown {
            Some(slot) => {
                Err(Status::invalid_argument(format!("the client has no shared memory {slot}")).into())
            }
            None => Ok(None),
        }
    }
}
