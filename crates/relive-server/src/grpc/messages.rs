//! Decodes the messages of a request as their bytes arrive.
//!
//! A message begins with its length. Memory is allocated only for bytes that have arrived, not for bytes that are only
//! announced, so a client cannot make the server allocate much memory by sending five bytes. Most messages are
//! contained in one HTTP/2 frame, from which they are read without a copy.

use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use relive_wire::framing::{Deframer, FramingError};
use relive_wire::{Message, WireError};
use tonic::Status;

use super::arrival::Arrival;
use crate::services::status;

/// Validates an encoded message before it is decoded.
pub(super) type Check = fn(&[u8]) -> Result<(), WireError>;

/// The messages in one request.
#[derive(Debug)]
pub(super) struct Messages<Q> {
    body: Arrival,
    deframer: Deframer,
    max_message_bytes: usize,
    check: Check,
    kind: PhantomData<fn() -> Q>,
}

impl<Q: Message + Default> Messages<Q> {
    pub(super) fn new(body: Arrival, max_message_bytes: usize) -> Self {
        let check = |_: &[u8]| Ok(());
        let deframer = Deframer::new(max_message_bytes, 0);
        Self { body, deframer, max_message_bytes, check, kind: PhantomData }
    }

    /// Validates each message with `check` before it is decoded.
    pub(super) fn checked(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Waits until the next message has begun. Returns its size including its header, or `None` once the client has
    /// closed its side. The bytes stay buffered.
    pub(super) fn poll_message_size(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<u64, Status>>> {
        loop {
            match self.deframer.next_message_bytes() {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes as u64))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(self.unreadable(error)))),
            }
            match ready!(self.poll_more(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
    }

    /// Returns the number of buffered bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.deframer.held_bytes() as u64
    }

    /// Returns the next message, or `None` once the client has closed its side.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Q, Status>>> {
        loop {
            if let Some(whole) = self.take_whole() {
                return Poll::Ready(Some(whole));
            }
            match ready!(self.poll_more(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
    }

    /// Returns the next message if it has arrived completely.
    pub(super) fn take_whole(&mut self) -> Option<Result<Q, Status>> {
        match self.deframer.take_message() {
            Ok(message) => message.map(|message| self.decode(message)),
            Err(error) => Some(Err(self.unreadable(error))),
        }
    }

    /// Reads more data if no message is complete. Returns whether there was any.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        Poll::Ready(match ready!(self.poll_frame(cx)) {
            Some(frame) => frame.map(|frame| {
                self.deframer.push(frame);
                true
            }),
            None if self.deframer.held_bytes() == 0 => Ok(false),
            None => Err(ended_inside()),
        })
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let frame = ready!(self.body.poll_data(cx));
        let broken = |error| Status::cancelled(format!("the stream broke: {error}"));
        Poll::Ready(frame.map(|frame| frame.map_err(broken)))
    }

    fn unreadable(&self, error: FramingError) -> Status {
        match error {
            FramingError::Compressed => Status::unimplemented(
                "compressed messages are not supported; send messages without compression",
            ),
            FramingError::TooLong { bytes } => Status::out_of_range(format!(
                "a message has {bytes} bytes; the limit is {}; send less data per message, in shorter chunks",
                self.max_message_bytes
            )),
        }
    }

    fn decode(&self, message: Bytes) -> Result<Q, Status> {
        (self.check)(&message).map_err(|error| status::of_wire(&error))?;
        Q::decode(message).map_err(|error| Status::internal(format!("cannot read a message: {error}")))
    }
}

fn ended_inside() -> Status {
    Status::internal("the stream ended inside a message")
}
