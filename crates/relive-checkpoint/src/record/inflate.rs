//! A zlib stream that must be complete.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// Reads the content of a zlib stream. Unlike flate2's own reader, it accepts the end of the file as the end of the
/// content only if the stream ends there and its checksum is correct.
pub(super) struct Inflate<R> {
    input: R,
    state: Decompress,
    is_over: bool,
}

impl<R: BufRead> Inflate<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, state: Decompress::new(true), is_over: false }
    }

    /// Decompresses a part of the input. Returns the numbers of bytes consumed and produced, both of which may be 0.
    fn step(&mut self, out: &mut [u8]) -> io::Result<(usize, usize)> {
        let input = self.input.fill_buf()?;
        let before = (self.state.total_in(), self.state.total_out());
        let status = self.state.decompress(input, out, FlushDecompress::None).map_err(|error| {
            broken(io::ErrorKind::InvalidData, &format!("the compressed stream is corrupt: {error}"))
        })?;
        self.is_over = status == Status::StreamEnd;
        let advanced = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let taken = advanced(self.state.total_in(), before.0);
        let is_empty = input.is_empty();
        self.input.consume(taken);
        let made = advanced(self.state.total_out(), before.1);
        if is_empty && made == 0 && !self.is_over {
            let reason = "the file ends inside its compressed stream";
            return Err(broken(io::ErrorKind::UnexpectedEof, reason));
        }
        Ok((taken, made))
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !out.is_empty() && !self.is_over {
            let (_, made) = self.step(out)?;
            if made > 0 {
                return Ok(made);
            }
        }
        if self.is_over && !self.input.fill_buf()?.is_empty() {
            return Err(broken(io::ErrorKind::InvalidData, "bytes follow the end of the compressed stream"));
        }
        Ok(0)
    }
}

fn broken(kind: io::ErrorKind, reason: &str) -> io::Error {
    io::Error::new(kind, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Write};

    fn zlib(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn inflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        // The buffer is small, so that the parts of the stream arrive one by one.
        Inflate::new(BufReader::with_capacity(3, bytes)).read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn complete_zlib_streams_are_inflated() {
        for content in [b"".as_slice(), b"x", &[7; 100_000]] {
            assert_eq!(inflated(&zlib(content)).unwrap(), content);
        }
    }

    #[test]
    fn a_stream_cut_anywhere_is_an_error() {
        let whole = zlib(&(0..2000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        for end in 0..whole.len() {
            let error = inflated(&whole[..end]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {end}: {error}");
        }
    }

    #[test]
    fn trailing_bytes_and_a_wrong_checksum_are_errors() {
        let mut long = zlib(b"content");
        long.push(0);
        assert!(inflated(&long).unwrap_err().to_string().contains("follow the end"));
        let mut wrong = zlib(b"content");
        *wrong.last_mut().unwrap() ^= 1;
        assert!(inflated(&wrong).unwrap_err().to_string().contains("corrupt"));
    }
}
