//! Writes numbers as bytes, and reads them from bytes that may be truncated or damaged.

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

    /// Reads the first bytes of a record, which must be `magic`.
    pub(crate) fn expect_magic(&mut self, magic: [u8; 8]) -> Result<()> {
        let found = self.take(magic.len())?;
        if found == magic {
            return Ok(());
        }
        let [found, expected] = [found, &magic].map(|bytes| bytes.escape_ascii().to_string());
        Err(Error::corrupt(format!("{} starts with {found}, not with {expected}", self.what)))
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

    /// Reads the next `N` numbers.
    pub(crate) fn words<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }

    /// Reads the number of records of `bytes_each` bytes that follow. Checks that there are bytes for them, before
    /// memory is allocated for the records.
    pub(crate) fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.u64()?;
        let available = self.left() / bytes_each;
        match usize::try_from(count) {
            Ok(count) if count <= available => Ok(count),
            _ => Err(Error::corrupt(format!(
                "{} announces {count} records, but has bytes for {available}",
                self.what
            ))),
        }
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

    /// Checks that no bytes are left after the last part of the record, which is `last`.
    pub(crate) fn finish(&self, last: &str) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            extra => Err(Error::corrupt(format!("{} has {extra} extra bytes after {last}", self.what))),
        }
    }
}

/// Appends numbers.
pub(crate) fn put(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
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
