//! A chunk as a record in a segment.

use relive_tensor::{Chunk, ChunkError, ChunkParts, ColumnHeader, SequenceRange, Shape};
use smallvec::SmallVec;
use thiserror::Error;

use crate::layout::{Cursor, Malformed, Put, codec_code, codec_of, dtype_code, dtype_of};

/// The length and checksum of the content.
pub(crate) const HEAD_BYTES: usize = 8;

/// The number of bytes in the content before the headers of the columns.
const FIXED_BYTES: u64 = 32;

/// The number of bytes in a column's header before its sizes.
const COLUMN_BYTES: u64 = 12;

const SPARSE: u32 = 1;
const DELTA: u32 = 2;
const VERBATIM: u32 = 4;

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The length of the content.
    pub(crate) length: u32,
    /// The CRC-32C of the content.
    pub(crate) crc: u32,
}

/// The reason why a record is not the expected chunk.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum RecordFault {
    #[error("the record has {found} bytes, but the checkpoint expects {expected}")]
    Length { expected: u32, found: u32 },
    #[error("the checksum of the record differs from the checkpoint's")]
    OtherChecksum,
    #[error("the record has a wrong checksum")]
    Checksum,
    #[error("the record is not a chunk: {0}")]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Chunk(#[from] ChunkError),
}

/// Returns the size of a chunk's record, without its head.
pub(crate) fn content_bytes(chunk: &Chunk) -> u64 {
    let columns = chunk.columns().iter().map(|column| COLUMN_BYTES + 4 * column.shape.rank() as u64);
    FIXED_BYTES + columns.sum::<u64>() + chunk.size_bytes()
}

/// Returns the size of a chunk's record.
pub(crate) fn record_bytes(chunk: &Chunk) -> u64 {
    HEAD_BYTES as u64 + content_bytes(chunk)
}

/// Appends everything in the record except the frame, which must follow it in the file.
pub(crate) fn put_head(chunk: &Chunk, frame: &[u8], out: &mut Vec<u8>) -> Head {
    let start = out.len();
    out.put(&[0; HEAD_BYTES]);
    put_headers(chunk, out);
    let headers = out.get(start + HEAD_BYTES..).unwrap_or_default();
    let crc = crc32c::crc32c_append(crc32c::crc32c(headers), frame);
    let length =
        u32::try_from(headers.len() + frame.len()).expect("a frame has 2 GiB at most, headers 70 MB");
    let head = Head { length, crc };
    if let Some(place) = out.get_mut(start..start + HEAD_BYTES) {
        place.copy_from_slice(&head.to_bytes());
    }
    head
}

fn put_headers(chunk: &Chunk, out: &mut Vec<u8>) {
    let SequenceRange { episode_id, start, end, sparse } = chunk.range();
    out.put_u64(chunk.key());
    out.put_u64(episode_id);
    out.put_i32(start);
    out.put_i32(end);
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags =
        flag(sparse, SPARSE) | flag(chunk.is_delta_encoded(), DELTA) | flag(chunk.is_verbatim(), VERBATIM);
    out.put_u32(flags);
    out.put_count(chunk.num_columns());
    for column in chunk.columns() {
        out.put_u8(dtype_code(column.dtype));
        out.put_u8(codec_code(column.codec));
        out.put_u8(u8::try_from(column.shape.rank()).expect("a chunk's tensors have at most 254 dimensions"));
        out.put_u8(0);
        out.put_u32(column.span.start);
        out.put_u32(column.span.end);
        column.shape.dims().iter().for_each(|size| out.put_u32(*size));
    }
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let ([a, b, c, d], [e, f, g, h]) = (self.length.to_le_bytes(), self.crc.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    pub(crate) fn from_bytes([a, b, c, d, e, f, g, h]: [u8; HEAD_BYTES]) -> Self {
        Self { length: u32::from_le_bytes([a, b, c, d]), crc: u32::from_le_bytes([e, f, g, h]) }
    }
}

/// Returns the chunk of a record, including its head, which must match the expected one.
pub(crate) fn read(record: &[u8], expected: Head) -> Result<Chunk, RecordFault> {
    let short = Malformed::Short { needed: HEAD_BYTES as u64, left: record.len() as u64 };
    let (head, content) = record.split_first_chunk().ok_or(short)?;
    let found = Head::from_bytes(*head);
    if found.length != expected.length {
        return Err(RecordFault::Length { expected: expected.length, found: found.length });
    }
    if found.crc != expected.crc {
        return Err(RecordFault::OtherChecksum);
    }
    if crc32c::crc32c(content) != expected.crc {
        return Err(RecordFault::Checksum);
    }
    parse(content)
}

/// Returns the chunk of a record's content, whose checksum is not checked.
fn parse(content: &[u8]) -> Result<Chunk, RecordFault> {
    let mut cursor = Cursor::new(content);
    let key = cursor.u64()?;
    let (episode_id, start, end) = (cursor.u64()?, cursor.i32()?, cursor.i32()?);
    let flags = cursor.u32()?;
    if flags & !(SPARSE | DELTA | VERBATIM) != 0 {
        return Err(Malformed::Code { what: "the flags of a chunk", code: flags.into() }.into());
    }
    let count = cursor.count(COLUMN_BYTES)?;
    let mut columns = SmallVec::with_capacity(count);
    for _ in 0..count {
        columns.push(column(&mut cursor)?);
    }
    let range = SequenceRange { episode_id, start, end, sparse: flags & SPARSE != 0 };
    let (delta_encoded, verbatim) = (flags & DELTA != 0, flags & VERBATIM != 0);
    let frame = cursor.rest().into();
    Ok(Chunk::new(ChunkParts { key, range, columns, delta_encoded, frame, verbatim })?)
}

fn column(cursor: &mut Cursor<'_>) -> Result<ColumnHeader, Malformed> {
    let (dtype, codec) = (dtype_of(cursor.u8()?)?, codec_of(cursor.u8()?)?);
    let (rank, reserved) = (cursor.u8()?, cursor.u8()?);
    if reserved != 0 {
        return Err(Malformed::Code { what: "the fourth byte of a column", code: reserved.into() });
    }
    let span = cursor.u32()?..cursor.u32()?;
    let sizes = cursor.bytes(4 * u64::from(rank))?;
    let sizes = sizes.as_chunks().0.iter().map(|size| u32::from_le_bytes(*size).into());
    let too_many = Malformed::Code { what: "the rank of a tensor", code: rank.into() };
    let shape = Shape::from_signed(sizes).map_err(|_| too_many)?;
    Ok(ColumnHeader { dtype, codec, shape, span })
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_tensor::{Codec, Tensor, encode_chunk};

    fn chunk() -> Chunk {
        let columns = [
            Tensor::from_slice(&[1_i32, 2, 3, 4], [2, 2]).unwrap(),
            Tensor::from_slice(&[0.5_f32], [1]).unwrap(),
        ];
        let range = SequenceRange { episode_id: 1 << 60, start: -3, end: 7, sparse: true };
        Chunk::new(encode_chunk(u64::MAX, range, &columns, true, Codec::Snappy).unwrap()).unwrap()
    }

    fn record(chunk: &Chunk) -> (Vec<u8>, Head) {
        let mut bytes = Vec::new();
        let head = put_head(chunk, &chunk.frame(), &mut bytes);
        bytes.extend_from_slice(&chunk.frame());
        (bytes, head)
    }

    #[test]
    fn a_chunk_record_round_trips() {
        let chunk = chunk();
        let (bytes, head) = record(&chunk);
        assert_eq!(u64::from(head.length), content_bytes(&chunk));
        assert_eq!(bytes.len(), HEAD_BYTES + head.length as usize);
        let again = read(&bytes, head).unwrap();
        assert_eq!((again.key(), again.range(), again.is_verbatim()), (chunk.key(), chunk.range(), false));
        assert_eq!((again.columns(), again.is_delta_encoded()), (chunk.columns(), true));
        assert_eq!(*again.frame(), *chunk.frame());
    }

    #[test]
    fn a_record_is_checked_against_its_head() {
        let (bytes, head) = record(&chunk());
        let refusal = |bytes: &[u8], head| read(bytes, head).map(drop).unwrap_err();
        let longer = Head { length: head.length + 1, ..head };
        assert_eq!(
            refusal(&bytes, longer),
            RecordFault::Length { expected: longer.length, found: head.length }
        );
        assert_eq!(refusal(&bytes, Head { crc: !head.crc, ..head }), RecordFault::OtherChecksum);
        assert_eq!(refusal(&bytes[..bytes.len() - 1], head), RecordFault::Checksum);
        assert!(matches!(refusal(&bytes[..7], head), RecordFault::Malformed(Malformed::Short { .. })));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            refusal(&bytes, head);
        }
    }

    #[test]
    fn invalid_chunks_with_a_valid_checksum_are_refused() {
        let (bytes, _) = record(&chunk());
        for (place, value) in [(24, 8), (28, 255), (32, 0), (33, 9), (34, 0), (34, 255), (35, 1), (40, 200)] {
            let mut content = bytes[HEAD_BYTES..].to_vec();
            content[place] = value;
            assert!(parse(&content).is_err(), "byte {place}");
        }
    }
}
