//! InsertStream: receives chunks and items, and sends confirmations.
//!
//! A session is one state machine, polled by its connection's task; it has neither its own task nor its own channel.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use relive_wire::reverb::{InsertStreamRequest, InsertStreamResponse};
use tokio::task::yield_now;
use tokio_stream::Stream;
use tonic::Status;

use super::messages::Messages;
use crate::insert::Inserter;
use crate::limits::REQUESTS_PER_CONFIRMATION;
use crate::services::{Services, Stop, StreamCount, status};
use crate::traffic::ConnectionBudget;

/// One insert stream.
#[derive(Debug)]
pub(super) struct InsertSession {
    requests: Messages<InsertStreamRequest>,
    inserter: Inserter,
    reading: Reading,
    /// The request whose chunks are being stored, and the number of those that have been.
    begun: Option<(InsertStreamRequest, usize)>,
    stop: Stop,
    _count: StreamCount,
}

#[derive(Debug)]
enum Reading {
    Open,
    /// The stream ends once all confirmations so far have been sent. If there is an error, the stream ends with it.
    Ended(Option<Status>),
    Over,
}

impl InsertSession {
    pub(super) fn new(
        services: &Services,
        peer: &Arc<str>,
        connection_budget: &ConnectionBudget,
        requests: Messages<InsertStreamRequest>,
    ) -> Self {
        Self {
            requests,
            inserter: Inserter::new(services, peer, connection_budget),
            reading: Reading::Open,
            begun: None,
            stop: services.stop(),
            _count: services.count_insert_stream(),
        }
    }

    /// Handles requests that are ready, up to a maximum, so that their confirmations are sent together.
    fn read(&mut self, cx: &mut Context<'_>) {
        let mut turn_bytes = 0;
        for _ in 0..REQUESTS_PER_CONFIRMATION {
            if self.inserter.arrivals().is_paused() || !matches!(self.reading, Reading::Open) {
                return;
            }
            let begun = match self.begun.take() {
                Some(begun) => Some(Ok(begun)),
                None => match self.poll_request(cx) {
                    Poll::Pending => return,
                    Poll::Ready(next) => next.map(|next| next.map(|request| (request, 0))),
                },
            };
            match begun {
                None => self.reading = Reading::Ended(None),
                Some(Err(status)) => self.reading = Reading::Ended(Some(status)),
                Some(Ok((request, held))) => match self.handle(&request, held, &mut turn_bytes) {
                    Ok(held) if held < request.chunks.len() => {
                        self.begun = Some((request, held));
                        return yield_turn(cx);
                    }
                    Ok(_) => {}
                    Err(status) => self.reading = Reading::Ended(Some(status)),
                },
            }
            self.inserter.unreserve();
        }
        // More requests may be ready, so this stream must be polled again.
        cx.waker().wake_by_ref();
    }

    /// Stores the chunks of a request after the first `held`. Once all are stored, handles the request. Returns the
    /// number of stored chunks.
    fn handle(
        &mut self,
        request: &InsertStreamRequest,
        held: usize,
        turn_bytes: &mut usize,
    ) -> Result<usize, Status> {
        let rest = request.chunks.get(held..).unwrap_or_default();
        let held = held + self.inserter.hold(rest, turn_bytes)?;
        if held == request.chunks.len() {
            self.inserter.handle(request)?;
        }
        Ok(held)
    }

    /// Returns the next request once memory is available for it; the request is not decoded before that. An idle stream
    /// does not wait for memory.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<InsertStreamRequest, Status>>> {
        if !self.inserter.has_reserved() {
            let size_bytes = match ready!(self.requests.poll_message_size(cx)) {
                Some(Ok(size_bytes)) => size_bytes,
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            };
            if let Err(status) = ready!(self.inserter.poll_reserve(size_bytes, cx)) {
                return Poll::Ready(Some(Err(status)));
            }
        }
        loop {
            if let Some(whole) = self.requests.take_whole() {
                return Poll::Ready(Some(whole));
            }
            ready!(self.inserter.poll_grow(self.requests.held_bytes(), cx));
            match ready!(self.requests.poll_more(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
    }
}

/// Wakes the stream again after the sockets and other streams of its thread have had their turn.
fn yield_turn(cx: &mut Context<'_>) {
    // Its first poll is always pending.
    let _ = std::pin::pin!(yield_now()).poll(cx);
}

impl Stream for InsertSession {
    type Item = Result<InsertStreamResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let settled = this.inserter.arrivals().poll_settled(cx);
            if let Poll::Ready(Err(status)) = &settled {
                this.reading = Reading::Ended(Some(status.clone()));
            }
            this.read(cx);
            let keys = this.inserter.arrivals().take_confirmed();
            if !keys.is_empty() {
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
            if this.begun.is_some() {
                return Poll::Pending;
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
