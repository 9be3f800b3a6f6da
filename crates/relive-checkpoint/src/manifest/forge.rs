//! For tests: checkpoint files with modified content and correct checksums.

use super::block::HEAD_BYTES;
use super::walk::{self, END_BYTES, HEADER_BYTES};
use super::{BlockHead, Description, Kind, Totals, decode_chunks, encode_chunks};

/// Returns the head and decoded content of each block.
fn blocks(file: &[u8]) -> Vec<(BlockHead, Vec<u8>)> {
    let mut rest = &file[HEADER_BYTES..file.len() - END_BYTES];
    let mut blocks = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let head = BlockHead::from_bytes(head).unwrap();
        let (stored, after) = after.split_at(head.stored_bytes as usize);
        blocks.push((head, head.decode(stored.to_vec()).unwrap()));
        rest = after;
    }
    blocks
}

fn write(blocks: Vec<(BlockHead, Vec<u8>)>) -> Vec<u8> {
    let (mut out, mut last) = (walk::header(), 0);
    let count = u32::try_from(blocks.len()).unwrap();
    for (BlockHead { kind, number, subject, count, .. }, raw) in blocks {
        last = out.len() as u64;
        let (head, stored) = BlockHead::encode(kind, number, subject, count, raw).unwrap();
        out.extend(head.to_bytes());
        out.extend(stored);
    }
    out.extend(walk::end(last, count));
    out
}

pub(crate) fn count(file: &[u8]) -> usize {
    blocks(file).len()
}

/// Returns the file with one block modified.
pub(crate) fn with_block(file: &[u8], number: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut blocks = blocks(file);
    change(&mut blocks[number].1);
    write(blocks)
}

/// Returns the file with a different number of entries in a block.
pub(crate) fn with_count(file: &[u8], number: usize, count: u32) -> Vec<u8> {
    let mut blocks = blocks(file);
    blocks[number].0.count = count;
    write(blocks)
}

/// Returns the file with different totals.
pub(crate) fn with_totals(file: &[u8], change: impl FnOnce(&mut Totals)) -> Vec<u8> {
    with_block(file, count(file) - 1, |content| {
        let mut description = Description::decode(content).unwrap();
        change(description.totals.as_mut().unwrap());
        *content = description.encode();
    })
}

/// Returns the file with a different checksum for the chunk at a position; the chunk must be in the first block of
/// chunks.
pub(crate) fn with_crc(file: &[u8], position: usize, crc: u32) -> Vec<u8> {
    let mut blocks = blocks(file);
    let (head, raw) = blocks.iter_mut().find(|(head, _)| head.kind == Kind::Chunks).unwrap();
    let mut places = decode_chunks(raw, head.count).unwrap();
    places[position].crc = crc;
    *raw = encode_chunks(&places);
    write(blocks)
}
