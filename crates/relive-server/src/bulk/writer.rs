//! A connection that receives chunks and items.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use relive_transport::Frames;
use relive_wire::Message;
use relive_wire::bulk::{FrameHeader, FrameKind};
use relive_wire::limits::MAX_MESSAGE_BYTES;
use relive_wire::request::check_items;
use relive_wire::v1::InsertItems;
use tokio::task::yield_now;
use tokio::time::sleep;
use tonic::Status;

use super::failure::{Failure, unexpected, without_body};
use crate::insert::Inserter;
use crate::limits::{
    BYTES_PER_TURN, KEEP_ALIVE_INTERVAL, KEYS_PER_CONFIRMATION, MAX_REQUEST_PIECE_BYTES,
    MIN_REQUEST_PIECE_BYTES, REQUEST_COST_BYTES, REQUESTS_PER_CONFIRMATION, TRUSTED_REQUEST_BYTES,
};
use crate::services::{Services, Stop, status};
use crate::traffic::ConnectionBudget;

/// Inserts and confirms a client's items, until either side ends the connection or the server stops.
pub(super) async fn serve(
    frames: &mut Frames,
    services: &Services,
    peer: &Arc<str>,
    connection_budget: &ConnectionBudget,
) -> Result<(), Failure> {
    let _count = services.count_insert_stream();
    let inserter = Inserter::new(services, peer, connection_budget);
    let mut writer = Writer { inserter, stop: services.stop(), unconfirmed: 0, turn_bytes: 0 };
    let ended = writer.run(frames).await;
    // Items that are in a table are confirmed even if a later item failed.
    writer.confirm(frames).await?;
    ended
}

struct Writer {
    inserter: Inserter,
    stop: Stop,
    /// The number of requests since the last confirmation.
    unconfirmed: usize,
    /// The number of bytes received, or decoded to validate chunks, in this turn.
    turn_bytes: usize,
}

/// The next event.
enum Event {
    Frame(Option<(FrameHeader, Vec<u8>)>),
    /// No data is ready to be read.
    Idle,
    /// Deferred inserts are settled.
    Settled,
    /// Nothing was read for a long time because an insert is waiting.
    Quiet,
    Stopping,
}

impl Writer {
    async fn run(&mut self, frames: &mut Frames) -> Result<(), Failure> {
        loop {
            if self.turn_bytes >= BYTES_PER_TURN {
                // Yields to other connections on this thread, however much this client sends.
                yield_now().await;
                self.turn_bytes = 0;
            }
            let is_over = self.unconfirmed >= REQUESTS_PER_CONFIRMATION
                || self.inserter.arrivals().num_confirmed() >= KEYS_PER_CONFIRMATION;
            match self.event(frames, !is_over).await? {
                Event::Idle | Event::Settled => self.confirm(frames).await?,
                // While nothing is read, only a write shows whether the client is still connected.
                Event::Quiet => frames.send_frame(FrameKind::Confirm, &[], &[]).await?,
                Event::Stopping => return Err(status::stopping().into()),
                Event::Frame(None) => return Ok(()),
                Event::Frame(Some((header, _))) => match header.kind {
                    FrameKind::Insert => self.insert(frames, &header).await?,
                    FrameKind::End => {
                        without_body(&header)?;
                        return Ok(());
                    }
                    kind => return Err(unexpected(kind)),
                },
            }
        }
    }

    /// Returns the next event. While a confirmation is pending, the absence of further data also counts as an event.
    async fn event(&mut self, frames: &mut Frames, may_read: bool) -> Result<Event, Failure> {
        if self.unconfirmed > 0 && !may_read {
            return Ok(Event::Idle);
        }
        let (inserter, stop) = (&mut self.inserter, &mut self.stop);
        let (is_paused, is_owed) = (inserter.arrivals().is_paused(), self.unconfirmed > 0);
        let idle = async {
            if !is_owed {
                std::future::pending::<()>().await;
            }
        };
        let quiet = async { sleep(KEEP_ALIVE_INTERVAL).await };
        tokio::select! {
            biased;
            frame = frames.next(), if !is_paused => Ok(Event::Frame(frame?)),
            () = idle => Ok(Event::Idle),
            settled = poll_fn(|cx| inserter.arrivals().poll_settled(cx)) => {
                settled?;
                Ok(Event::Settled)
            }
            () = poll_fn(|cx| stop.poll(cx)) => Ok(Event::Stopping),
            () = quiet, if is_paused => Ok(Event::Quiet),
        }
    }

    /// Handles a request, once memory is available for it.
    async fn insert(&mut self, frames: &mut Frames, header: &FrameHeader) -> Result<(), Failure> {
        let len = header.body_len();
        if len > MAX_MESSAGE_BYTES {
            let text = format!("an insert request has {len} bytes; the limit is {MAX_MESSAGE_BYTES}");
            return Err(Status::resource_exhausted(text).into());
        }
        self.pass(frames, |inserter, cx| inserter.poll_reserve(len as u64, cx)).await?;
        let body = self.body(frames, len).await?;
        check_items(&body).map_err(|error| status::of_wire(&error))?;
        let request = InsertItems::decode(Bytes::from(body));
        let request = request
            .map_err(|error| Status::invalid_argument(format!("cannot read an insert request: {error}")))?;
        let handled = match self.hold(&request.chunks).await {
            Ok(()) => self.inserter.handle_runs(&request),
            Err(status) => Err(status),
        };
        self.inserter.unreserve();
        self.unconfirmed += 1;
        self.turn_bytes += len + REQUEST_COST_BYTES;
        Ok(handled?)
    }

    /// Stores the chunks of a request, and yields to other connections while much has to be decoded.
    async fn hold(&mut self, mut chunks: &[Bytes]) -> Result<(), Status> {
        loop {
            let handled = self.inserter.hold(chunks, &mut self.turn_bytes)?;
            chunks = chunks.get(handled..).unwrap_or_default();
            if chunks.is_empty() {
                return Ok(());
            }
            yield_now().await;
            self.turn_bytes = 0;
        }
    }

    /// Reads a request into memory that is used and counted only as the bytes arrive.
    async fn body(&mut self, frames: &mut Frames, len: usize) -> Result<Vec<u8>, Failure> {
        // Memory that has not been written to does not cost the system anything.
        let mut body = Vec::with_capacity(len.min(TRUSTED_REQUEST_BYTES));
        while body.len() < len {
            let piece = body.len().clamp(MIN_REQUEST_PIECE_BYTES, MAX_REQUEST_PIECE_BYTES);
            let piece = piece.min(len - body.len());
            frames.append_some(&mut body, piece).await?;
            if body.len() < len {
                let bytes = body.len() as u64;
                self.pass(frames, |inserter, cx| inserter.poll_grow(bytes, cx).map(Ok)).await?;
            }
        }
        Ok(body)
    }

    /// Waits for memory and room. In the meantime, inserts that are waiting in tables are settled and confirmed,
    /// because other clients may depend on them.
    async fn pass(
        &mut self,
        frames: &Frames,
        mut attempt: impl FnMut(&mut Inserter, &mut Context<'_>) -> Poll<Result<(), Status>>,
    ) -> Result<(), Failure> {
        loop {
            let inserter = &mut self.inserter;
            let has_passed = poll_fn(|cx| match attempt(inserter, cx) {
                Poll::Ready(passed) => Poll::Ready(passed.map(|()| true)),
                Poll::Pending => inserter.arrivals().poll_settled(cx).map(|settled| settled.map(|()| false)),
            });
            if has_passed.await? {
                return Ok(());
            }
            self.confirm(frames).await?;
        }
    }

    async fn confirm(&mut self, frames: &Frames) -> Result<(), Failure> {
        self.unconfirmed = 0;
        let keys = self.inserter.arrivals().take_confirmed();
        if keys.is_empty() {
            return Ok(());
        }
        let body: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        Ok(frames.send_frame(FrameKind::Confirm, &[], &body).await?)
    }
}
