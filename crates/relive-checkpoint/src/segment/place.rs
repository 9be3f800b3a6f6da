//! The place of a chunk.

use super::SegmentId;

/// The place of a record in a segment, as recorded in the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    /// The offset of the record.
    pub(crate) offset: u32,
    /// The length of the record's content.
    pub(crate) length: u32,
    /// The CRC-32C of the content.
    pub(crate) crc: u32,
}

impl Place {
    /// Returns the end of the record.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + self.record_bytes()
    }

    /// Returns the size of the record, including its head.
    pub(crate) fn record_bytes(&self) -> u64 {
        super::record::HEAD_BYTES as u64 + u64::from(self.length)
    }
}
