//! Parses untrusted bytes.

use super::Malformed;

/// Bytes, consumed from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next `count` bytes, which must exist.
    pub(crate) fn bytes(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let short = || Malformed::Short { needed: count, left: self.rest.len() as u64 };
        let split = usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count));
        let (taken, rest) = split.ok_or_else(short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let short = || Malformed::Short { needed: N as u64, left: self.rest.len() as u64 };
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Malformed> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a byte that is 0 or 1.
    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(Malformed::Code { what, code: code.into() }),
        }
    }

    /// Reads a length, followed by that many bytes.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.bytes(length.into())
    }

    /// Reads a length, followed by a text.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.sized()?).map_err(|_| Malformed::Text)
    }

    /// Reads a count of elements of at least `least_bytes` bytes each. Refuses a count of more elements than the
    /// remaining bytes can hold, so that it is safe to allocate memory for the elements.
    pub(crate) fn count(&mut self, least_bytes: u64) -> Result<usize, Malformed> {
        let count = u64::from(self.u32()?);
        let (needed, left) = (count.saturating_mul(least_bytes), self.rest.len() as u64);
        match usize::try_from(count) {
            Ok(count) if needed <= left => Ok(count),
            _ => Err(Malformed::Short { needed, left }),
        }
    }

    /// All remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that no bytes remain.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(Malformed::Long { bytes: bytes as u64 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_does_not_read_beyond_the_end() {
        let mut cursor = Cursor::new(&[1, 0, 0, 0, 7, 9]);
        assert_eq!(cursor.sized(), Ok([7].as_slice()));
        assert_eq!(cursor.u16(), Err(Malformed::Short { needed: 2, left: 1 }));
        assert_eq!(cursor.finish(), Err(Malformed::Long { bytes: 1 }));
        assert_eq!(cursor.bytes(u64::MAX), Err(Malformed::Short { needed: u64::MAX, left: 1 }));
    }

    #[test]
    fn a_count_is_checked_against_the_remaining_bytes() {
        let mut bytes = 3_u32.to_le_bytes().to_vec();
        bytes.extend([0; 12]);
        assert_eq!(Cursor::new(&bytes).count(4), Ok(3));
        assert_eq!(Cursor::new(&bytes).count(5), Err(Malformed::Short { needed: 15, left: 12 }));
    }
}
