//! Raw Snappy blocks.
//!
//! A block consists of the varint of its decoded length, followed by elements. The two low bits of an element's first
//! byte are its kind:
//!
//! | bits | element | length | what follows |
//! |---|---|---|---|
//! | 00 | literal | upper six bits + 1 up to 60; 60..=63: in the next 1..=4 bytes, + 1 | the literal |
//! | 01 | copy | bits 2..5 + 4 | 1 byte: low part of the offset, whose bits 8..11 are bits 5..8 of the tag |
//! | 10 | copy | upper six bits + 1 | 2 bytes: offset |
//! | 11 | copy | upper six bits + 1 | 4 bytes: offset |

use smallvec::SmallVec;

use super::strings::read_varint32;
use super::{BlockFault, Codec, CodecError};
use crate::tensor::to_u64;

/// The number of bytes in a block in addition to its only literal: the length (stored twice) and a tag.
const MAX_STORED_OVERHEAD: usize = 10;

pub(super) fn encode(src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    let bound = snap::raw::max_compress_len(src.len());
    let too_long = || CodecError::TooLong { codec: Codec::Snappy, len: to_u64(src.len()) };
    if bound == 0 {
        return Err(too_long());
    }
    out.resize(start + bound, 0);
    let written = snap::raw::Encoder::new().compress(src, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    let written = written.map_err(|_| too_long())?;
    let block = out.get(start..).unwrap_or_default();
    if Codec::is_worthwhile(written, src.len()) || plain(block, src.len()).is_some() {
        return Ok(());
    }
    out.truncate(start);
    store([src].into_iter(), out)
}

/// Appends a block that consists of a single literal, the concatenation of `parts`.
pub(super) fn store<'a>(
    parts: impl Iterator<Item = &'a [u8]> + Clone,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let len = parts.clone().map(<[u8]>::len).sum::<usize>();
    out.reserve(len + MAX_STORED_OVERHEAD);
    out.extend_from_slice(&stored_head(len)?);
    parts.for_each(|part| out.extend_from_slice(part));
    Ok(())
}

/// Returns the bytes that come before a block's only literal, which has `len` bytes.
pub(super) fn stored_head(len: usize) -> Result<SmallVec<[u8; MAX_STORED_OVERHEAD]>, CodecError> {
    let announced = u32::try_from(len);
    let mut rest = announced.map_err(|_| CodecError::TooLong { codec: Codec::Snappy, len: to_u64(len) })?;
    let mut head = SmallVec::new();
    while rest >= 0x80 {
        head.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    head.push(rest.to_le_bytes()[0]);
    let Some(last) = len.checked_sub(1) else { return Ok(head) };
    let [a, b, c, d, ..] = last.to_le_bytes();
    match last {
        0..60 => head.push(a << 2),
        60..0x100 => head.extend_from_slice(&[60 << 2, a]),
        0x100..0x1_0000 => head.extend_from_slice(&[61 << 2, a, b]),
        0x1_0000..0x100_0000 => head.extend_from_slice(&[62 << 2, a, b, c]),
        _ => head.extend_from_slice(&[63 << 2, a, b, c, d]),
    }
    Ok(head)
}

/// Returns the data in place if the block is a single literal of `expected_len` bytes.
#[inline]
pub(super) fn plain(src: &[u8], expected_len: usize) -> Option<&[u8]> {
    let (announced, body) = read_varint32(src)?;
    let (&tag, after) = body.split_first()?;
    if tag & 3 != 0 || u64::from(announced) != to_u64(expected_len) {
        return None;
    }
    let (data, rest) = literal(tag, after)?;
    (rest.is_empty() && data.len() == expected_len).then_some(data)
}

/// Returns the length of a block that is a single literal of `size` bytes.
pub(super) fn plain_len(size: u64) -> Option<u64> {
    let last = u32::try_from(size.checked_sub(1)?).ok()?;
    let announced = u64::from(size.ilog2() / 7) + 1;
    let tag = if last < 60 { 1 } else { u64::from(last.ilog2() / 8) + 2 };
    Some(announced + tag + size)
}

pub(super) fn decode_into(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    if let Some(data) = plain(src, dst.len()) {
        dst.copy_from_slice(data);
        return Ok(());
    }
    match snap::raw::Decoder::new().decompress(src, dst) {
        Ok(found) => Codec::Snappy.check_len(found, dst.len()),
        // The walk finds the position and the reason; the library's message is only used if the walk finds no fault.
        Err(error) => {
            validate(src, dst.len())?;
            Err(CodecError::Library { codec: Codec::Snappy, message: error.to_string() })
        }
    }
}

/// Walks the elements of the block and performs all checks that a decoder performs, without producing output.
pub(super) fn validate(src: &[u8], expected_len: usize) -> Result<(), CodecError> {
    let broken = |(rest, fault): (&[u8], BlockFault)| CodecError::Broken {
        codec: Codec::Snappy,
        at: src.len() - rest.len(),
        fault,
    };
    let (announced, body) = read_varint32(src).ok_or_else(|| broken((src, BlockFault::Header)))?;
    let expected = to_u64(expected_len);
    if u64::from(announced) != expected {
        let found = u64::from(announced);
        return Err(CodecError::Length { codec: Codec::Snappy, expected, found });
    }
    let found = walk(body, expected).map_err(broken)?;
    if found != expected {
        return Err(CodecError::Length { codec: Codec::Snappy, expected, found });
    }
    Ok(())
}

/// Returns the output length of the elements, or, if there is a bad element, the rest of the block starting with it.
fn walk(mut rest: &[u8], limit: u64) -> Result<u64, (&[u8], BlockFault)> {
    let mut produced = 0_u64;
    while let [tag, after @ ..] = rest {
        let (len, next) = if tag & 3 == 0 {
            let (data, next) = literal(*tag, after).ok_or((rest, BlockFault::Literal))?;
            (to_u64(data.len()), next)
        } else {
            let (len, offset, next) = copy(*tag, after).ok_or((rest, BlockFault::Tag))?;
            // An offset of 0 wraps to the greatest value, so a single comparison also rejects it.
            if offset.wrapping_sub(1) >= produced {
                return Err((rest, BlockFault::Offset));
            }
            (len, next)
        };
        // This cannot overflow: each element of an input in memory yields at most 2^32 bytes.
        produced += len;
        if produced > limit {
            return Err((rest, BlockFault::Overrun));
        }
        rest = next;
    }
    Ok(produced)
}

/// Returns a literal and the rest of the block.
#[inline]
fn literal(tag: u8, after: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, body) = match tag >> 2 {
        short @ 0..60 => (u64::from(short), after),
        60 => after.split_first_chunk().map(|(b, body)| (u64::from(u8::from_le_bytes(*b)), body))?,
        61 => after.split_first_chunk().map(|(b, body)| (u64::from(u16::from_le_bytes(*b)), body))?,
        62 => {
            let ([a, b, c], body) = after.split_first_chunk()?;
            (u64::from(u32::from_le_bytes([*a, *b, *c, 0])), body)
        }
        _ => after.split_first_chunk().map(|(b, body)| (u64::from(u32::from_le_bytes(*b)), body))?,
    };
    body.split_at_checked(usize::try_from(len + 1).ok()?)
}

/// Returns the length and offset of a copy, and the rest of the block.
#[inline]
fn copy(tag: u8, after: &[u8]) -> Option<(u64, u64, &[u8])> {
    let len = u64::from(tag >> 2) + 1;
    match tag & 3 {
        1 => {
            let (low, next) = after.split_first()?;
            let offset = (u64::from(tag >> 5) << 8) | u64::from(*low);
            Some((u64::from((tag >> 2) & 7) + 4, offset, next))
        }
        2 => after.split_first_chunk().map(|(b, next)| (len, u64::from(u16::from_le_bytes(*b)), next)),
        _ => after.split_first_chunk().map(|(b, next)| (len, u64::from(u32::from_le_bytes(*b)), next)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(src: &[u8], expected_len: usize) -> (usize, BlockFault) {
        match validate(src, expected_len) {
            Err(CodecError::Broken { at, fault, .. }) => (at, fault),
            other => panic!("expected a broken block, got {other:?}"),
        }
    }

    #[test]
    fn empty_data_is_a_single_zero_byte() {
        let mut out = Vec::new();
        encode(&[], &mut out).unwrap();
        assert_eq!(out, [0]);
        assert_eq!(validate(&out, 0), Ok(()));
    }

    #[test]
    fn each_fault_is_distinguished() {
        assert_eq!(fault(&[], 0), (0, BlockFault::Header));
        assert_eq!(fault(&[0x80], 0), (0, BlockFault::Header));
        assert_eq!(fault(&[0xff, 0xff, 0xff, 0xff, 0x1f], 0), (0, BlockFault::Header));
        assert_eq!(fault(&[2, 1 << 2, b'a'], 2), (1, BlockFault::Literal));
        assert_eq!(fault(&[9, 61 << 2, 1], 9), (1, BlockFault::Literal));
        assert_eq!(fault(&[5, 0, b'a', 2, 1], 5), (3, BlockFault::Tag));
        assert_eq!(fault(&[5, 0, b'a', 1, 0], 5), (3, BlockFault::Offset));
        assert_eq!(fault(&[5, 0, b'a', 1, 2], 5), (3, BlockFault::Offset));
        assert_eq!(fault(&[4, 0, b'a', 1, 1], 4), (3, BlockFault::Overrun));
        assert_eq!(validate(&[5, 0, b'a', 1, 1], 5), Ok(()));
    }

    #[test]
    fn announced_and_produced_lengths_are_both_checked() {
        let length = |expected, found| Err(CodecError::Length { codec: Codec::Snappy, expected, found });
        assert_eq!(validate(&[1, 0, b'a'], 2), length(2, 1));
        assert_eq!(validate(&[2, 0, b'a'], 2), length(2, 1));
        assert_eq!(
            validate(&[0, 0, b'a'], 0),
            Err(CodecError::Broken { codec: Codec::Snappy, at: 1, fault: BlockFault::Overrun })
        );
    }

    #[test]
    fn incompressible_data_is_one_literal_of_any_length() {
        let noise = |len: u32| -> Vec<u8> {
            (0..len).flat_map(|i| i.wrapping_mul(0x9e37_79b9).rotate_left(i % 31).to_le_bytes()).collect()
        };
        for len in [1, 59, 60, 61, 255, 256, 257, 65_535, 65_536, 65_537, 100_000, 1 << 24, (1 << 24) + 1] {
            let mut src = noise(len / 4 + 1);
            src.truncate(usize::try_from(len).unwrap());
            let mut block = Vec::new();
            encode(&src, &mut block).unwrap();
            assert_eq!(plain(&block, src.len()), Some(src.as_slice()), "{len}");
            assert_eq!(plain_len(src.len() as u64), Some(block.len() as u64), "{len}");
            assert!(block.len() <= src.len() + 9);
            assert_eq!(validate(&block, src.len()), Ok(()));
            // The library can decode the block as well.
            assert_eq!(snap::raw::Decoder::new().decompress_vec(&block).unwrap(), src);
            assert_eq!(plain(&block, src.len() + 1), None);
        }
    }

    #[test]
    fn compressible_data_is_compressed() {
        let mut block = Vec::new();
        encode(&[7; 1000], &mut block).unwrap();
        assert!(block.len() < 100 && plain(&block, 1000).is_none());
    }

    #[test]
    fn encoding_appends() {
        let mut out = b"before".to_vec();
        encode(b"data", &mut out).unwrap();
        assert_eq!(out, [b"before".as_slice(), &[4, 3 << 2], b"data"].concat());
    }
}
