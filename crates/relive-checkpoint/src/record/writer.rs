//! Writing records.

use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::frame::checksum;

/// Writes records as one zlib stream.
pub(crate) struct RecordWriter<W: Write> {
    stream: ZlibEncoder<BufWriter<W>>,
}

const BUFFER_BYTES: usize = 256 << 10;

impl<W: Write> RecordWriter<W> {
    pub(crate) fn new(file: W, level: Compression) -> Self {
        Self { stream: ZlibEncoder::new(BufWriter::with_capacity(BUFFER_BYTES, file), level) }
    }

    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let length = (payload.len() as u64).to_le_bytes();
        self.stream.write_all(&length)?;
        self.stream.write_all(&checksum(&length).to_le_bytes())?;
        self.stream.write_all(payload)?;
        self.stream.write_all(&checksum(payload).to_le_bytes())
    }

    /// Ends the stream and returns the file to which everything has been written.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.stream.finish()?.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
