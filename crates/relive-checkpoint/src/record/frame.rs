//! The bytes around a record's payload.

/// The number of bytes in a record's length and its checksum.
pub(super) const HEAD_BYTES: usize = 12;

/// The masked checksum.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the length in a record's first bytes if their checksum is correct.
pub(super) fn announced(head: &[u8]) -> Option<u64> {
    let (length, rest) = head.split_first_chunk::<8>()?;
    let sum = u32::from_le_bytes(*rest.first_chunk()?);
    (sum == checksum(length)).then(|| u64::from_le_bytes(*length))
}
