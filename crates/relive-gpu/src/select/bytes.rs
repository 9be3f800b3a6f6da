//! Writes and reads the small records of this module: little endian, fixed widths.

use crate::{Error, ErrorKind, Result};

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(magic: [u8; 8]) -> Self {
        Self(magic.to_vec())
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64s(mut self, values: impl Iterator<Item = u64>) -> Self {
        for value in values {
            self = self.u64(value);
        }
        self
    }

    pub(crate) fn f32s(mut self, values: &[f32]) -> Self {
        self.0.reserve(values.len() * 4);
        for value in values {
            self.0.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the output of a [`Writer`]; errors refer to the record as `what`.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], magic: [u8; 8], what: &'static str) -> Result<Self> {
        let mut reader = Self { rest: bytes, what };
        let found = reader.take(8)?;
        if found != magic {
            let [found, wanted] = [found, &magic].map(|bytes| bytes.escape_ascii().to_string());
            return Err(reader.corrupt(&format!("it starts with {found}, not with {wanted}")));
        }
        Ok(reader)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    pub(crate) fn u32(&mut self, name: &str) -> Result<u32> {
        let value = self.u64()?;
        u32::try_from(value)
            .map_err(|_| self.corrupt(&format!("{name} is {value}, but it must fit in 32 bits")))
    }

    /// Returns a count of records of `bytes_each` bytes. Checks that the records exist before memory is allocated for
    /// them.
    pub(crate) fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.u64()?;
        let available = self.rest.len() / bytes_each;
        match usize::try_from(count) {
            Ok(count) if count <= available => Ok(count),
            _ => Err(self.corrupt(&format!("it announces {count} records, but has bytes for {available}"))),
        }
    }

    pub(crate) fn f32s(&mut self, count: usize) -> Result<Vec<f32>> {
        let bytes = self.take(count * 4)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| f32::from_bits(u32::from_le_bytes(*word))).collect())
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(self.corrupt(&format!("{extra} bytes follow its end"))),
        }
    }

    pub(crate) fn corrupt(&self, text: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("cannot read {}: {text}", self.what))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            self.corrupt(&format!("{count} bytes are needed at its end, but {} are left", self.rest.len()))
        })?;
        self.rest = rest;
        Ok(taken)
    }
}
