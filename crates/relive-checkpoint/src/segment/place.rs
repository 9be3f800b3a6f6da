//! Where a chunk is stored.

use super::SegmentId;

/// A record of a segment, by what a checkpoint says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    /// Where the record begins.
    pub(crate) offset: u32,
    /// Length of the record's content.
    pub(crate) length: u32,
    /// CRC-32C of the content.
    pub(crate) crc: u32,
}

impl Place {
    /// Where the record ends.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + self.record_bytes()
    }

    /// Size of the record, its head included.
    pub(crate) fn record_bytes(&self) -> u64 {
        super::record::HEAD_BYTES as u64 + u64::from(self.length)
    }
}
