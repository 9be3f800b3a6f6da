//! Reads numbers from bytes that may be truncated.

use crate::error::{Error, Result};

/// Reads consecutive little-endian numbers, and reports the position at which the bytes end too early.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'a str,
}

impl<'a> Cursor<'a> {
    /// Creates a reader at the start of `bytes`; errors refer to the bytes as `what`.
    pub(crate) fn new(bytes: &'a [u8], what: &'a str) -> Self {
        Self { bytes, at: 0, what }
    }

    /// Reads the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return Err(Error::corrupt(format!(
                "{} ends at byte {}, but {count} bytes were expected from byte {}",
                self.what,
                self.bytes.len(),
                self.at
            )));
        };
        let found = &self.bytes[self.at..end];
        self.at = end;
        Ok(found)
    }

    /// Reads the next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("`take` returns as many bytes as requested"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32> {
        self.array().map(f32::from_le_bytes)
    }

    /// Reads `count` consecutive numbers. A count that exceeds the remaining bytes allocates nothing.
    pub(crate) fn u64s(&mut self, count: u64) -> Result<Vec<u64>> {
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(8)).unwrap_or(usize::MAX);
        let bytes = self.take(bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of remaining bytes.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
}

/// Converts a `usize` to 64 bits.
pub(crate) fn wide(value: usize) -> u64 {
    value as u64
}

/// Returns a 64-bit number as a `usize`. All platforms that this crate supports have 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the crate builds for 64 bits only")]
pub(crate) fn narrow(value: u64) -> usize {
    value as usize
}
