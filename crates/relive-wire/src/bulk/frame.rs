//! Headers of frames.

use crate::limits::{MAX_BULK_BODY_BYTES, MAX_BULK_HEAD_BYTES};

/// The number of bytes in a header.
pub const HEADER_BYTES: usize = 16;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Client: the connection reads batches. Head: `OpenSampler`.
    OpenSampler = 1,
    /// Client: requests more batches. Head: `AskBatches`.
    Ask = 2,
    /// Server: a piece of shared memory. Head: `ShareMemory`.
    Share = 3,
    /// Server: a batch. Head: `BatchHead`; body: its data, unless that is in shared memory.
    Batch = 4,
    /// Server: the connection ends. Head: `BulkError`.
    Error = 5,
    /// Client: the connection carries items.
    OpenWriter = 6,
    /// Client: chunks and items. Body: `InsertItems`.
    Insert = 7,
    /// Server: confirms that items are in their tables. Body: the items' keys, as uint64.
    Confirm = 8,
    /// Client: ends the connection. The server confirms the received items and closes it.
    End = 9,
    /// Server: single samples of a batch, because some samples are not available yet, have no common columns, or have
    /// strings. Body: `SampleStreamResponse`s of deepmind.reverb, each with gRPC's header.
    Samples = 10,
    /// Client: opens a connection that reads rows of a trajectory store; the kinds that follow belong to such
    /// connections. Head: a token.
    OpenRows = 11,
    /// Server: describes the store. Head: the store's shape and schema.
    RowsOpened = 12,
    /// Client: pins trajectories in place. Body: their indices.
    PinRows = 13,
    /// Server: the pinned trajectories. Body: 40 bytes for each index.
    PinnedRows = 14,
    /// Client: requests steps. Head: windows; body: trajectories and their current steps.
    ReadRows = 15,
    /// Server: the steps. Body: the steps of the first window, row by row, followed by the steps of the next window,
    /// and so on.
    Rows = 16,
    /// Client: releases trajectories. Head: which of the client's pins to release.
    ReleaseRows = 17,
    /// Server: a request was refused. Head: the kind and text of the error.
    RowsRefused = 18,
    /// Server: the requests for batches are withdrawn. Everything that was taken for them has been sent before. Head:
    /// `BatchesWithdrawn`.
    Withdrawn = 19,
}

/// The fixed part of a frame: kind, three zeros, the length of the head (uint32) and of the body (uint64),
/// little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Its kind.
    pub kind: FrameKind,
    head_len: u32,
    body_len: u64,
}

/// The reason why bytes do not form a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// An unknown kind.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// Reserved bytes that are not zero.
    #[error("a frame with the reserved bytes {0:?}")]
    Reserved([u8; 3]),
    /// A head that exceeds the limit.
    #[error("a frame's head of {got} bytes; the limit is {limit}")]
    Head {
        /// The announced length.
        got: u64,
        /// The limit.
        limit: usize,
    },
    /// A body that exceeds the limit.
    #[error("a frame's body of {got} bytes; the limit is {limit}")]
    Body {
        /// The announced length.
        got: u64,
        /// The limit.
        limit: usize,
    },
}

impl FrameHeader {
    /// Creates the header of a frame.
    ///
    /// # Errors
    /// [`FrameError`] for a head or a body that exceeds its limit.
    pub fn new(kind: FrameKind, head_len: usize, body_len: usize) -> Result<Self, FrameError> {
        let (head, body) = (head_len as u64, body_len as u64);
        check(head, body)?;
        let head_len = u32::try_from(head_len)
            .map_err(|_| FrameError::Head { got: head, limit: MAX_BULK_HEAD_BYTES })?;
        Ok(Self { kind, head_len, body_len: body })
    }

    /// Returns the number of bytes in the head.
    #[must_use]
    pub fn head_len(&self) -> usize {
        self.head_len as usize
    }

    /// Returns the number of bytes in the body.
    #[must_use]
    pub fn body_len(&self) -> usize {
        usize::try_from(self.body_len).unwrap_or(usize::MAX)
    }

    /// Returns the header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let [kind, _, _, _, rest @ ..] = &mut out;
        *kind = self.kind as u8;
        let (head, body) = rest.split_at_mut(size_of::<u32>());
        head.copy_from_slice(&self.head_len.to_le_bytes());
        body.copy_from_slice(&self.body_len.to_le_bytes());
        out
    }

    /// Parses a header.
    ///
    /// # Errors
    /// [`FrameError`] for an invalid header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [kind, reserved @ .., h0, h1, h2, h3, b0, b1, b2, b3, b4, b5, b6, b7] = *bytes;
        let kind = FrameKind::from_byte(kind).ok_or(FrameError::Kind(kind))?;
        if reserved != [0; 3] {
            return Err(FrameError::Reserved(reserved));
        }
        let head_len = u32::from_le_bytes([h0, h1, h2, h3]);
        let body_len = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        check(u64::from(head_len), body_len)?;
        Ok(Self { kind, head_len, body_len })
    }
}

fn check(head: u64, body: u64) -> Result<(), FrameError> {
    if head > MAX_BULK_HEAD_BYTES as u64 {
        return Err(FrameError::Head { got: head, limit: MAX_BULK_HEAD_BYTES });
    }
    if body > MAX_BULK_BODY_BYTES as u64 {
        return Err(FrameError::Body { got: body, limit: MAX_BULK_BODY_BYTES });
    }
    Ok(())
}

impl FrameKind {
    const ALL: [Self; 19] = [
        Self::OpenSampler,
        Self::Ask,
        Self::Share,
        Self::Batch,
        Self::Error,
        Self::OpenWriter,
        Self::Insert,
        Self::Confirm,
        Self::End,
        Self::Samples,
        Self::OpenRows,
        Self::RowsOpened,
        Self::PinRows,
        Self::PinnedRows,
        Self::ReadRows,
        Self::Rows,
        Self::ReleaseRows,
        Self::RowsRefused,
        Self::Withdrawn,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_headers_round_trip() {
        for kind in FrameKind::ALL {
            let header = FrameHeader::new(kind, 300, 5_000_000_000 % MAX_BULK_BODY_BYTES).unwrap();
            assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn invalid_frame_headers_are_refused() {
        let good = FrameHeader::new(FrameKind::Ask, 1, 2).unwrap().encode();
        let changed = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            FrameHeader::decode(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, 0), FrameError::Kind(0));
        assert_eq!(changed(0, 200), FrameError::Kind(200));
        assert_eq!(changed(2, 7), FrameError::Reserved([0, 7, 0]));
        assert!(matches!(changed(7, 0xff), FrameError::Head { got: 0xff00_0001, .. }));
        assert!(matches!(changed(15, 1), FrameError::Body { .. }));
    }
}
