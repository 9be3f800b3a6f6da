//! Zstandard frames.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::stream::raw::{Decoder, Operation};

use super::{BlockFault, Codec, CodecError};

/// The compression level. It is the lowest, because replay data is written once and read only a few times, so the
/// writer's time matters most.
const LEVEL: i32 = 1;

/// The largest decoded size of one block in the format, and the size of the buffer for validation.
const MAX_BLOCK_BYTES: usize = 128 * 1024;

// The library's contexts are kept, because creating one takes about 10 µs, ten times as long as decoding a payload of a
// few hundred bytes.
thread_local! {
    static ENCODER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECODER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    /// The buffer into which validation decodes small payloads.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn encode(src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(src.len()), 0);
    let written = ENCODER.with_borrow_mut(|kept| {
        let encoder = match kept {
            Some(encoder) => encoder,
            None => kept.insert(Compressor::new(LEVEL)?),
        };
        encoder.compress_to_buffer(src, out.get_mut(start..).unwrap_or_default())
    });
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ()).map_err(|error| library(&error))
}

pub(super) fn decode_into(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    check_not_empty(src)?;
    match decode_at_once(src, dst) {
        Ok(found) => Codec::Zstd.check_len(found, dst.len()),
        // The library's one-pass decoder refuses a few unusual frames that its streaming decoder accepts, such as an
        // empty last block in a frame that announces more. Validated payloads must be decodable.
        Err(_) => stream(src, dst.len(), |start, piece| {
            if let Some(place) = dst.get_mut(start..start + piece.len()) {
                place.copy_from_slice(piece);
            }
        }),
    }
}

fn decode_at_once(src: &[u8], dst: &mut [u8]) -> io::Result<usize> {
    DECODER.with_borrow_mut(|kept| {
        let decoder = match kept {
            Some(decoder) => decoder,
            None => kept.insert(Decompressor::new()?),
        };
        decoder.decompress_to_buffer(src, dst)
    })
}

/// Decodes small payloads into a reused buffer, and others in pieces through a small buffer. The library refuses frames
/// with windows above 128 MiB.
pub(super) fn validate(src: &[u8], expected_len: usize) -> Result<(), CodecError> {
    check_not_empty(src)?;
    if expected_len > MAX_BLOCK_BYTES {
        return stream(src, expected_len, |_, _| ());
    }
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(scratch.len().max(expected_len), 0);
        decode_into(src, scratch.get_mut(..expected_len).unwrap_or_default())
    })
}

/// Decodes in pieces. `take` receives each piece with its position in the output.
fn stream(src: &[u8], expected_len: usize, mut take: impl FnMut(usize, &[u8])) -> Result<(), CodecError> {
    let mut decoder = Decoder::new().map_err(|error| library(&error))?;
    let mut buffer = vec![0; MAX_BLOCK_BYTES.min(expected_len.max(1))];
    let (mut rest, mut produced) = (src, 0_usize);
    loop {
        let status = decoder.run_on_buffers(rest, &mut buffer).map_err(|error| library(&error))?;
        rest = rest.get(status.bytes_read..).unwrap_or_default();
        take(produced, buffer.get(..status.bytes_written).unwrap_or_default());
        produced += status.bytes_written;
        // `remaining` is 0 if and only if a frame is complete and has been fully output.
        if produced > expected_len || (rest.is_empty() && status.remaining == 0) {
            return Codec::Zstd.check_len(produced, expected_len);
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(broken(src, rest, BlockFault::Tag));
        }
    }
}

/// The library accepts an empty input as an empty list of frames. Like every other codec, we require at least one
/// frame.
fn check_not_empty(src: &[u8]) -> Result<(), CodecError> {
    if src.is_empty() { Err(broken(src, src, BlockFault::Header)) } else { Ok(()) }
}

fn broken(src: &[u8], rest: &[u8], fault: BlockFault) -> CodecError {
    CodecError::Broken { codec: Codec::Zstd, at: src.len() - rest.len(), fault }
}

fn library(error: &io::Error) -> CodecError {
    CodecError::Library { codec: Codec::Zstd, message: error.to_string() }
}
