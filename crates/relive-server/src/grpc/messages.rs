//! Decodes the messages of a request as their bytes arrive.
//!
//! A message begins with its length. Memory is allocated only for bytes that have arrived, not for bytes that are only
//! announced, so a client cannot make the server allocate much memory by sending five bytes. Most messages are
//! contained in one HTTP/2 frame, from which they are read without a copy.

use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use relive_wire::{Message, WireError};
use tonic::Status;

use super::arrival::Arrival;
use crate::services::status;

/// The number of bytes before a message: a flag (1 if compressed) and the length in big endian.
const HEADER_BYTES: usize = 5;

/// Validates an encoded message before it is decoded.
pub(super) type Check = fn(&[u8]) -> Result<(), WireError>;

/// The messages in one request.
#[derive(Debug)]
pub(super) struct Messages<Q> {
    body: Arrival,
    /// The unread remainder of the last frame.
    frame: Bytes,
    /// The beginning of a message that spans frames, with its header.
    partial: BytesMut,
    max_message_bytes: usize,
    check: Check,
    kind: PhantomData<fn() -> Q>,
}

impl<Q: Message + Default> Messages<Q> {
    pub(super) fn new(body: Arrival, max_message_bytes: usize) -> Self {
        let check = |_: &[u8]| Ok(());
        Self {
            body,
            frame: Bytes::new(),
            partial: BytesMut::new(),
            max_message_bytes,
            check,
            kind: PhantomData,
        }
    }

    /// Validates each message with `check` before it is decoded.
    pub(super) fn checked(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Waits until the next message has begun. Returns its size including its header, or `None` once the client has
    /// closed its side. The bytes stay buffered.
    pub(super) fn poll_message_size(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<u64, Status>>> {
        loop {
            if !self.partial.is_empty() && self.partial.len() < HEADER_BYTES {
                self.set_aside(HEADER_BYTES - self.partial.len());
            }
            let head = if self.partial.is_empty() { &self.frame[..] } else { &self.partial[..] };
            match self.end_of_message(head) {
                Ok(Some(end)) => return Poll::Ready(Some(Ok(end as u64))),
                Ok(None) => {}
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
            self.set_aside(usize::MAX);
            match ready!(self.poll_more(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
    }

    /// Returns the number of buffered bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        (self.partial.len() + self.frame.len()) as u64
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
        match self.take_message() {
            Ok(message) => message.map(|message| self.decode(message)),
            Err(status) => Some(Err(status)),
        }
    }

    /// Reads more data if no message is complete. Returns whether there was any.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        Poll::Ready(match ready!(self.poll_frame(cx)) {
            Some(frame) => frame.map(|frame| {
                self.frame = frame;
                true
            }),
            None if self.partial.is_empty() => Ok(false),
            None => Err(ended_inside()),
        })
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let frame = ready!(self.body.poll_data(cx));
        let broken = |error| Status::cancelled(format!("the stream broke: {error}"));
        Poll::Ready(frame.map(|frame| frame.map_err(broken)))
    }

    /// Returns a complete message without its header, if there is one.
    fn take_message(&mut self) -> Result<Option<Bytes>, Status> {
        if self.partial.is_empty() {
            let Some(end) = self.end_of_message(&self.frame)? else { return Ok(self.set_aside(usize::MAX)) };
            if self.frame.len() < end {
                return Ok(self.set_aside(usize::MAX));
            }
            let mut message = self.frame.split_to(end);
            message.advance(HEADER_BYTES);
            return Ok(Some(message));
        }
        if self.partial.len() < HEADER_BYTES {
            self.set_aside(HEADER_BYTES - self.partial.len());
        }
        let Some(end) = self.end_of_message(&self.partial)? else { return Ok(None) };
        self.set_aside(end - self.partial.len());
        if self.partial.len() < end {
            return Ok(None);
        }
        let mut message = std::mem::take(&mut self.partial).freeze();
        message.advance(HEADER_BYTES);
        Ok(Some(message))
    }

    /// Moves up to `most` bytes from the frame to the end of the begun message.
    fn set_aside(&mut self, most: usize) -> Option<Bytes> {
        let part = self.frame.split_to(most.min(self.frame.len()));
        self.partial.extend_from_slice(&part);
        None
    }

    /// Returns the end of the first message in `bytes`, or `None` if its header is incomplete.
    fn end_of_message(&self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        let Some(([flag, length @ ..], _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if *flag != 0 {
            return Err(Status::unimplemented(
                "compressed messages are not supported; send messages without compression",
            ));
        }
        if length > self.max_message_bytes {
            return Err(Status::out_of_range(format!(
                "a message has {length} bytes; the limit is {}; send less data per message, in shorter chunks",
                self.max_message_bytes
            )));
        }
        Ok(Some(HEADER_BYTES + length))
    }

    fn decode(&self, message: Bytes) -> Result<Q, Status> {
        (self.check)(&message).map_err(|error| status::of_wire(&error))?;
        Q::decode(message).map_err(|error| Status::internal(format!("cannot read a message: {error}")))
    }
}

fn ended_inside() -> Status {
    Status::internal("the stream ended inside a message")
}
