//! gRPC's framing: before each message, a flag (1 if compressed) and the message's length.
//!
//! A message that is contained in one part of a stream, which is usual for small messages, is read without a copy.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::limits::GRPC_HEADER_BYTES;

/// The reason why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The message is compressed.
    #[error("the message is compressed")]
    Compressed,
    /// The message is longer than the limit.
    #[error("the message has {bytes} bytes")]
    TooLong {
        /// The message's length, without its header.
        bytes: usize,
    },
}

/// Separates the messages of a stream that arrives in parts.
#[derive(Debug)]
pub struct Deframer {
    /// The unread remainder of the last part.
    part: Bytes,
    /// The beginning of a message that spans parts, with its header.
    begun: BytesMut,
    max_message_bytes: usize,
    max_reserved_bytes: usize,
}

impl Deframer {
    /// Creates a deframer that refuses messages with more than `max_message_bytes`.
    ///
    /// For a message that spans parts, it allocates as much memory as the message's header announces, but at most
    /// `max_reserved_bytes` before the bytes arrive.
    #[must_use]
    pub fn new(max_message_bytes: usize, max_reserved_bytes: usize) -> Self {
        Self { part: Bytes::new(), begun: BytesMut::new(), max_message_bytes, max_reserved_bytes }
    }

    /// Adds the next part of the stream.
    ///
    /// # Panics
    ///
    /// [`take_message`](Self::take_message) has not returned `None` since the previous part.
    pub fn push(&mut self, part: Bytes) {
        assert!(self.part.is_empty(), "all messages of the previous part have been taken");
        self.part = part;
    }

    /// Takes the next message, without its header, if it has arrived completely.
    ///
    /// # Errors
    ///
    /// The message is compressed or too long.
    pub fn take_message(&mut self) -> Result<Option<Bytes>, FramingError> {
        if self.begun.is_empty() {
            let whole = self.end_of_message(&self.part)?.filter(|end| *end <= self.part.len());
            let Some(end) = whole else {
                self.set_aside(usize::MAX);
                return Ok(None);
            };
            return Ok(Some(without_header(self.part.split_to(end))));
        }
        self.set_aside(GRPC_HEADER_BYTES.saturating_sub(self.begun.len()));
        let Some(end) = self.end_of_message(&self.begun)? else { return Ok(None) };
        self.set_aside(end - self.begun.len());
        if self.begun.len() < end {
            return Ok(None);
        }
        Ok(Some(without_header(std::mem::take(&mut self.begun).freeze())))
    }

    /// Returns the size of the next message with its header, if its header has arrived. The message is not taken.
    ///
    /// # Errors
    ///
    /// The message is compressed or too long.
    pub fn next_message_bytes(&mut self) -> Result<Option<usize>, FramingError> {
        if !self.begun.is_empty() {
            self.set_aside(GRPC_HEADER_BYTES.saturating_sub(self.begun.len()));
        }
        let head = if self.begun.is_empty() { &self.part[..] } else { &self.begun[..] };
        let end = self.end_of_message(head)?;
        if end.is_none() {
            self.set_aside(usize::MAX);
        }
        Ok(end)
    }

    /// Returns the number of bytes that have arrived and were not taken.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.begun.len() + self.part.len()
    }

    /// Appends up to `most` bytes of the part to the message that has begun.
    fn set_aside(&mut self, most: usize) {
        let part = self.part.split_to(most.min(self.part.len()));
        if self.begun.is_empty() && !part.is_empty() {
            let announced = self.end_of_message(&part).ok().flatten().unwrap_or(0);
            self.begun.reserve(announced.min(self.max_reserved_bytes).max(part.len()));
        }
        self.begun.extend_from_slice(&part);
    }

    /// Returns the end of the message at the beginning of `bytes`, or `None` if its header is incomplete.
    fn end_of_message(&self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        let Some(([flag, length @ ..], _)) = bytes.split_first_chunk::<GRPC_HEADER_BYTES>() else {
            return Ok(None);
        };
        if *flag != 0 {
            return Err(FramingError::Compressed);
        }
        let bytes = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if bytes > self.max_message_bytes {
            return Err(FramingError::TooLong { bytes });
        }
        Ok(Some(bytes.saturating_add(GRPC_HEADER_BYTES)))
    }
}

fn without_header(mut message: Bytes) -> Bytes {
    message.advance(GRPC_HEADER_BYTES);
    message
}

/// Returns a message with its header.
#[must_use]
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(GRPC_HEADER_BYTES + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_slice(&message.encode_to_vec());
    out.freeze()
}
