//! Raw LZ4 blocks.
//!
//! A block is a list of sequences. A sequence consists of a token, the literals, and the 16-bit offset of the match.
//! The token contains the number of literals in its upper four bits and the match length minus 4 in its lower four
//! bits. If either is 15, the bytes that follow are added to it; each of these bytes except the last is 255. The last
//! sequence ends after its literals.

use super::{BlockFault, Codec, CodecError};
use crate::tensor::to_u64;

/// The largest content of one LZ4 block, in bytes.
const MAX_INPUT_BYTES: usize = 0x7e00_0000;

pub(super) fn encode(src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let too_long = || CodecError::TooLong { codec: Codec::Lz4, len: to_u64(src.len()) };
    if src.len() > MAX_INPUT_BYTES {
        return Err(too_long());
    }
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(src.len()), 0);
    let written = lz4_flex::block::compress_into(src, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ()).map_err(|_| too_long())
}

pub(super) fn decode_into(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    match lz4_flex::block::decompress_into(src, dst) {
        Ok(found) => Codec::Lz4.check_len(found, dst.len()),
        // The walk finds the position and the reason; the library's message is only used if the walk finds no fault.
        Err(error) => {
            validate(src, dst.len())?;
            Err(CodecError::Library { codec: Codec::Lz4, message: error.to_string() })
        }
    }
}

/// Walks the sequences of the block and performs all checks that a decoder performs, without producing output.
pub(super) fn validate(src: &[u8], expected_len: usize) -> Result<(), CodecError> {
    let found = walk(src, expected_len).map_err(|(rest, fault)| CodecError::Broken {
        codec: Codec::Lz4,
        at: src.len() - rest.len(),
        fault,
    })?;
    Codec::Lz4.check_len(found, expected_len)
}

/// Returns the output length of the sequences, or, if there is a bad sequence, the rest of the block starting with it.
fn walk(mut rest: &[u8], limit: usize) -> Result<usize, (&[u8], BlockFault)> {
    let mut produced = 0_usize;
    loop {
        let (token, after) = rest.split_first().ok_or((rest, BlockFault::Tag))?;
        let (literals, after) = length(token >> 4, after).ok_or((rest, BlockFault::Tag))?;
        let after = after.get(literals..).ok_or((rest, BlockFault::Literal))?;
        produced = advance(produced, literals, limit).ok_or((rest, BlockFault::Overrun))?;
        if after.is_empty() {
            return Ok(produced);
        }
        let (offset, after) = after.split_first_chunk().ok_or((rest, BlockFault::Tag))?;
        let (matched, after) = length(token & 15, after).ok_or((rest, BlockFault::Tag))?;
        if usize::from(u16::from_le_bytes(*offset)).wrapping_sub(1) >= produced {
            return Err((rest, BlockFault::Offset));
        }
        produced = advance(produced, matched.saturating_add(4), limit).ok_or((rest, BlockFault::Overrun))?;
        rest = after;
    }
}

fn advance(produced: usize, len: usize, limit: usize) -> Option<usize> {
    produced.checked_add(len).filter(|&sum| sum <= limit)
}

/// Returns the length that starts in four bits of the token, and the rest of the bytes.
fn length(nibble: u8, mut after: &[u8]) -> Option<(usize, &[u8])> {
    let mut len = usize::from(nibble);
    if nibble == 15 {
        loop {
            let (byte, next) = after.split_first()?;
            len = len.checked_add(usize::from(*byte))?;
            after = next;
            if *byte != 255 {
                break;
            }
        }
    }
    Some((len, after))
}
