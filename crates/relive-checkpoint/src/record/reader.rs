//! Reads records.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use super::frame::{HEAD_BYTES, announced, checksum};
use super::inflate::Inflate;
use crate::Error;
use crate::error::{Place, Reason};
use crate::limits::MAX_RECORD_BYTES;

/// The records of one file, one after the other.
pub(crate) struct RecordReader {
    path: PathBuf,
    content: Box<dyn Read>,
    /// The limit on the size of a record, in bytes.
    limit: u64,
    payload: Vec<u8>,
    /// The number of records started so far.
    begun: u64,
    /// The offset of the last record.
    start: u64,
    /// How many bytes of the content have been read so far.
    read: u64,
}

const BUFFER_BYTES: usize = 256 << 10;

impl RecordReader {
    /// Opens a file of either kind: compressed, or uncompressed as in checkpoints from before 2021.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let broken = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::damaged(path, None, "the file is missing"),
            _ => Error::io("read", path, source),
        };
        let mut file = File::open(path).map_err(broken)?;
        let mut head = Vec::new();
        (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(broken)?;
        file.rewind().map_err(broken)?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        let content: Box<dyn Read> = match kind(&head) {
            Kind::Plain => Box::new(file),
            Kind::Zlib => Box::new(Inflate::new(file)),
            Kind::Neither => {
                let reason = "it begins with neither a zlib stream nor a record with a valid checksum";
                return Err(Error::damaged(path, None, reason));
            }
        };
        let path = path.to_owned();
        Ok(Self { path, content, limit: MAX_RECORD_BYTES, payload: Vec::new(), begun: 0, start: 0, read: 0 })
    }

    /// Sets the limit on the size of a record, in bytes.
    pub(crate) fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Returns the payload of the next record, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        (self.start, self.begun) = (self.read, self.begun + 1);
        self.fill(HEAD_BYTES as u64)?;
        if self.payload.is_empty() {
            self.begun -= 1;
            return Ok(None);
        }
        let length = announced(&self.payload);
        let length =
            length.ok_or_else(|| self.damaged("its length has a wrong checksum, or is truncated"))?;
        if length > self.limit {
            return Err(self.damaged(format!("it has {length} bytes; the limit is {}", self.limit)));
        }
        self.fill(length + 4)?;
        let whole = self.payload.len() as u64 == length + 4;
        let (payload, sum) = self.payload.split_last_chunk().unwrap_or((&[], &[0; 4]));
        if !whole || u32::from_le_bytes(*sum) != checksum(payload) {
            let reason =
                if whole { "its content has a wrong checksum" } else { "the file ends inside the record" };
            return Err(self.damaged(reason));
        }
        Ok(Some(payload))
    }

    /// Returns the damage to the last record read.
    pub(crate) fn damaged(&self, reason: impl Into<Reason>) -> Error {
        let place = Place { record: self.begun.saturating_sub(1), offset: self.start };
        Error::damaged(&self.path, Some(place), reason)
    }

    /// Reads the given number of bytes, or as many as remain. The buffer grows as bytes arrive, and is reused.
    fn fill(&mut self, bytes: u64) -> Result<(), Error> {
        self.payload.clear();
        match (&mut self.content).take(bytes).read_to_end(&mut self.payload) {
            Ok(read) => {
                self.read += read as u64;
                Ok(())
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => self.damaged(error),
                _ => Error::io("read", &self.path, error),
            }),
        }
    }
}

enum Kind {
    Plain,
    Zlib,
    Neither,
}

/// A record's checksum is checked first, because a record length of 40,056 looks like the header of a zlib stream.
fn kind(head: &[u8]) -> Kind {
    let is_zlib =
        |method: u8, flags: u8| method & 0x0f == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31);
    match head {
        [] => Kind::Plain,
        _ if announced(head).is_some() => Kind::Plain,
        [method, flags, ..] if is_zlib(*method, *flags) => Kind::Zlib,
        _ => Kind::Neither,
    }
}
