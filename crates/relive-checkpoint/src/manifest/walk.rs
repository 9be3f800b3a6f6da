//! The bytes around the blocks, and the search for blocks.

use thiserror::Error;

use super::block::{self, BlockFault, BlockHead};
use crate::layout::{Cursor, Malformed, Put};
use crate::storage::Source;

pub(super) const HEADER_BYTES: usize = 16;
pub(super) const END_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"RLVCHKPT";
const END_MAGIC: [u8; 8] = *b"RLVCKEND";
const VERSION: u32 = 1;

/// The number of bytes that are searched at once for the next intact head after a damaged one.
const SCAN_BYTES: usize = 1 << 20;

/// The reason why a file does not start or end like a checkpoint.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum FrameFault {
    #[error("it does not start like a checkpoint")]
    Magic,
    #[error(
        "its version is {0}, but this Relive reads version {VERSION}: a later version wrote it; load it with that version, \
         or a later one"
    )]
    Version(u32),
    #[error("its header has a wrong checksum")]
    Header,
    #[error("it is truncated: it does not end like a checkpoint")]
    End,
    #[error("its end has a wrong checksum")]
    EndChecksum,
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The last bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The offset of the last block.
    pub(super) last: u64,
    pub(super) blocks: u32,
}

pub(super) fn header() -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.put(&MAGIC);
    out.put_u32(VERSION);
    out.put_u32(crc32c::crc32c(&out));
    out
}

pub(super) fn check_header(bytes: &[u8; HEADER_BYTES]) -> Result<(), FrameFault> {
    let mut cursor = Cursor::new(bytes);
    if cursor.array()? != MAGIC {
        return Err(FrameFault::Magic);
    }
    let version = cursor.u32()?;
    match cursor.u32()? == crc32c::crc32c(&bytes[..12]) {
        false => Err(FrameFault::Header),
        true if version != VERSION => Err(FrameFault::Version(version)),
        true => Ok(()),
    }
}

pub(super) fn end(last: u64, blocks: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(END_BYTES);
    out.put(&END_MAGIC);
    out.put_u64(last);
    out.put_u32(blocks);
    out.put_u32(crc32c::crc32c(&out));
    out
}

pub(super) fn read_end(bytes: &[u8; END_BYTES]) -> Result<End, FrameFault> {
    let mut cursor = Cursor::new(bytes);
    if cursor.array()? != END_MAGIC {
        return Err(FrameFault::End);
    }
    let end = End { last: cursor.u64()?, blocks: cursor.u32()? };
    if cursor.u32()? == crc32c::crc32c(&bytes[..20]) { Ok(end) } else { Err(FrameFault::EndChecksum) }
}

/// Returns the offset of the next intact head at or after `from`.
pub(super) fn next_head(source: &dyn Source, from: u64, until: u64) -> std::io::Result<Option<u64>> {
    let mut window = vec![0; SCAN_BYTES];
    let mut at = from;
    loop {
        let left = usize::try_from(until.saturating_sub(at)).unwrap_or(usize::MAX);
        let Some(piece) =
            window.get_mut(..left.min(SCAN_BYTES)).filter(|piece| piece.len() >= block::HEAD_BYTES)
        else {
            return Ok(None);
        };
        source.read_exact_at(piece, at)?;
        let is_whole = |bytes: &[u8]| bytes.try_into().is_ok_and(|head| BlockHead::from_bytes(head).is_ok());
        if let Some(found) = piece.windows(block::HEAD_BYTES).position(is_whole) {
            return Ok(Some(at + found as u64));
        }
        // A head may cross the boundary between two windows of the search.
        at += (piece.len() - block::HEAD_BYTES + 1) as u64;
    }
}

/// Returns the head at this offset.
pub(super) fn read_head(source: &dyn Source, at: u64) -> std::io::Result<Result<BlockHead, BlockFault>> {
    let mut bytes = [0; block::HEAD_BYTES];
    source.read_exact_at(&mut bytes, at)?;
    Ok(BlockHead::from_bytes(&bytes))
}
