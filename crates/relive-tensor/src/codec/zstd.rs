//! Zstandard frames.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::stream::raw::{Decoder, Operation};

use super::{BlockFault, Codec, CodecError};

/// Compression level. The lowest: replay data is written once and read a few times, so a writer's time counts most.
const LEVEL: i32 = 1;

/// Size of the buffer that validation decodes through, one block of the format.
const BUFFER_BYTES: usize = 128 * 1024;

pub(super) fn encode(src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(src.len()), 0);
    let written = Compressor::new(LEVEL)
        .and_then(|mut encoder| encoder.compress_to_buffer(src, out.get_mut(start..).unwrap_or_default()));
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ()).map_err(|error| library(&error))
}

pub(super) fn decode_into(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    check_not_empty(src)?;
    match Decompressor::new().and_then(|mut decoder| decoder.decompress_to_buffer(src, dst)) {
        Ok(found) => Codec::Zstd.check_len(found, dst.len()),
        // The library's one-pass decoder refuses a few odd frames that its streaming one takes, such as an empty last
        // block in a frame that announces more. What passed validation must decode.
        Err(_) => stream(src, dst.len(), |start, piece| {
            if let Some(place) = dst.get_mut(start..start + piece.len()) {
                place.copy_from_slice(piece);
            }
        }),
    }
}

/// Decodes through a small buffer and counts. Frames whose window is over 128 MiB are refused by the library.
pub(super) fn validate(src: &[u8], expected_len: usize) -> Result<(), CodecError> {
    check_not_empty(src)?;
    stream(src, expected_len, |_, _| ())
}

/// Decodes piece by piece; `take` gets the place of each piece in the output, and the piece.
fn stream(src: &[u8], expected_len: usize, mut take: impl FnMut(usize, &[u8])) -> Result<(), CodecError> {
    let mut decoder = Decoder::new().map_err(|error| library(&error))?;
    let mut buffer = vec![0; BUFFER_BYTES.min(expected_len.max(1))];
    let (mut rest, mut produced) = (src, 0_usize);
    loop {
        let status = decoder.run_on_buffers(rest, &mut buffer).map_err(|error| library(&error))?;
        rest = rest.get(status.bytes_read..).unwrap_or_default();
        take(produced, buffer.get(..status.bytes_written).unwrap_or_default());
        produced += status.bytes_written;
        // `remaining` is 0 exactly when a frame is complete and all of it was handed out.
        if produced > expected_len || (rest.is_empty() && status.remaining == 0) {
            return Codec::Zstd.check_len(produced, expected_len);
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(broken(src, rest, BlockFault::Tag));
        }
    }
}

/// The library takes no bytes at all for an empty list of frames; we want at least one, as in every other codec.
fn check_not_empty(src: &[u8]) -> Result<(), CodecError> {
    if src.is_empty() { Err(broken(src, src, BlockFault::Header)) } else { Ok(()) }
}

fn broken(src: &[u8], rest: &[u8], fault: BlockFault) -> CodecError {
    CodecError::Broken { codec: Codec::Zstd, at: src.len() - rest.len(), fault }
}

fn library(error: &io::Error) -> CodecError {
    CodecError::Library { codec: Codec::Zstd, message: error.to_string() }
}
