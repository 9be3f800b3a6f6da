//! Measures the minimum cost of encryption: a stream of records as in TLS 1.3, with AES-128-GCM, but without the rest
//! of TLS.

use std::io::{self, Read, Write};
use std::ops::Range;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The maximum plaintext bytes of a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;

/// The number of bytes of the length that precedes each record; this length includes the tag.
const LENGTH_BYTES: usize = 4;

const TAG_BYTES: usize = 16;
const SEALED_BYTES: usize = LENGTH_BYTES + RECORD_BYTES + TAG_BYTES;

/// The number of records per system call.
const RECORDS_AT_ONCE: usize = 8;

/// A stream whose bytes are encrypted with a publicly known key.
pub(crate) struct Records<S> {
    stream: S,
    key: LessSafeKey,
    sealed: u64,
    opened: u64,
    out: Vec<u8>,
    came: Vec<u8>,
    /// The range of `came` that is still encrypted.
    encrypted: Range<usize>,
    /// The range of `came` that is decrypted but not read yet.
    plain: Range<usize>,
}

impl<S: Read + Write> Records<S> {
    pub(crate) fn new(stream: S) -> io::Result<Self> {
        let key = UnboundKey::new(&AES_128_GCM, &[1; 16]).map_err(io::Error::other)?;
        Ok(Self {
            stream,
            key: LessSafeKey::new(key),
            sealed: 0,
            opened: 0,
            out: Vec::new(),
            came: vec![0; RECORDS_AT_ONCE * SEALED_BYTES],
            encrypted: 0..0,
            plain: 0..0,
        })
    }

    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        let length = u32::try_from(plain.len() + TAG_BYTES).map_err(io::Error::other)?;
        self.out.extend_from_slice(&length.to_le_bytes());
        let start = self.out.len();
        self.out.extend_from_slice(plain);
        let nonce = next(&mut self.sealed);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut self.out[start..]);
        self.out.extend_from_slice(tag.map_err(io::Error::other)?.as_ref());
        Ok(())
    }

    /// Decrypts the next record in place.
    fn open(&mut self) -> io::Result<()> {
        self.have(LENGTH_BYTES)?;
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(&self.came[self.encrypted.start..][..LENGTH_BYTES]);
        let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
        self.have(LENGTH_BYTES + length)?;
        let start = self.encrypted.start + LENGTH_BYTES;
        let record = &mut self.came[start..start + length];
        let nonce = next(&mut self.opened);
        let plain = self.key.open_in_place(nonce, Aad::empty(), record).map_err(io::Error::other)?;
        self.plain = start..start + plain.len();
        self.encrypted.start = start + length;
        Ok(())
    }

    /// Reads until at least `bytes` encrypted bytes are available.
    fn have(&mut self, bytes: usize) -> io::Result<()> {
        while self.encrypted.len() < bytes {
            if self.came.len() - self.encrypted.start < SEALED_BYTES {
                self.came.copy_within(self.encrypted.clone(), 0);
                self.encrypted = 0..self.encrypted.len();
            }
            match self.stream.read(&mut self.came[self.encrypted.end..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.encrypted.end += read,
            }
        }
        Ok(())
    }
}

/// Returns the next record number as a nonce, which is never used twice.
fn next(number: &mut u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    *number += 1;
    Nonce::assume_unique_for_key(nonce)
}

impl<S: Read + Write> Write for Records<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(RECORDS_AT_ONCE * RECORD_BYTES)];
        self.out.clear();
        for record in taken.chunks(RECORD_BYTES) {
            self.seal(record)?;
        }
        self.stream.write_all(&self.out)?;
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<S: Read + Write> Read for Records<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.plain.is_empty() {
            self.open()?;
        }
        let read = (&self.came[self.plain.clone()]).read(buffer)?;
        self.plain.start += read;
        Ok(read)
    }
}
