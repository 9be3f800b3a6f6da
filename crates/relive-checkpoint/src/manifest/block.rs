//! Blocks, the parts of a checkpoint file.

use relive_tensor::{Codec, CodecError};
use thiserror::Error;

use crate::layout::{Cursor, Malformed, Put};

pub(crate) const HEAD_BYTES: usize = 40;

const MAGIC: [u8; 4] = *b"BLCK";

/// The limit on the decoded size of a block, in bytes. Blocks usually take a few MiB, but a block with a single item
/// can be as large as the item's message.
pub(crate) const MAX_BLOCK_BYTES: u32 = 1 << 30;

/// The limit on the number of entries in a block, which bounds the loss from a damaged block, and the memory that the
/// entries of a small compressed block can take.
pub(crate) const MAX_BLOCK_ENTRIES: u32 = 65_536;

const ENCODING_RAW: u32 = 0;
const ENCODING_ZSTD: u32 = 1;

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Description,
    Chunks,
    Items,
    /// A block of a later version that may be skipped.
    Other(u32),
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) kind: Kind,
    /// The position of the block in its file.
    pub(crate) number: u32,
    /// The position of the table for items, the position of the first chunk for chunks, and 0 otherwise.
    pub(crate) subject: u32,
    /// The number of entries in the block.
    pub(crate) count: u32,
    encoding: u32,
    raw_bytes: u32,
    pub(crate) stored_bytes: u32,
    crc: u32,
}

/// The reason why a block is damaged.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum BlockFault {
    #[error("no block starts here")]
    Magic,
    #[error("the header of the block has a wrong checksum")]
    HeadChecksum,
    #[error("the content of the block has a wrong checksum")]
    Checksum,
    #[error("the decoded block has {0} bytes; the limit is {MAX_BLOCK_BYTES}")]
    Large(u64),
    #[error("the block has {0} entries; the limit is {MAX_BLOCK_ENTRIES}")]
    Entries(u32),
    #[error("cannot decompress the content of the block: {0}")]
    Compression(#[from] CodecError),
    #[error("the block is malformed: {0}")]
    Malformed(#[from] Malformed),
}

impl Kind {
    fn code(self) -> u32 {
        match self {
            Self::Description => 1,
            Self::Chunks => 2,
            Self::Items => 3,
            Self::Other(code) => code,
        }
    }

    fn of(code: u32) -> Result<Self, Malformed> {
        match code {
            1 => Ok(Self::Description),
            2 => Ok(Self::Chunks),
            3 => Ok(Self::Items),
            code if code >= 1 << 31 => Ok(Self::Other(code)),
            code => Err(Malformed::Code { what: "the kind of a block", code: code.into() }),
        }
    }
}

impl BlockHead {
    /// Encodes the content of a block, and returns it with the block's head.
    pub(super) fn encode(
        kind: Kind,
        number: u32,
        subject: u32,
        count: u32,
        raw: Vec<u8>,
    ) -> Result<(Self, Vec<u8>), BlockFault> {
        let large = || BlockFault::Large(raw.len() as u64);
        let raw_bytes =
            u32::try_from(raw.len()).ok().filter(|bytes| *bytes <= MAX_BLOCK_BYTES).ok_or_else(large)?;
        let mut stored = Vec::new();
        Codec::Zstd.encode(&raw, &mut stored)?;
        let (encoding, stored) =
            if stored.len() < raw.len() { (ENCODING_ZSTD, stored) } else { (ENCODING_RAW, raw) };
        let stored_bytes = u32::try_from(stored.len()).map_err(|_| BlockFault::Large(stored.len() as u64))?;
        let crc = crc32c::crc32c(&stored);
        Ok((Self { kind, number, subject, count, encoding, raw_bytes, stored_bytes, crc }, stored))
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.put(&MAGIC);
        let Self { kind, number, subject, count, encoding, raw_bytes, stored_bytes, crc } = self;
        for value in [kind.code(), number, subject, count, encoding, raw_bytes, stored_bytes, crc] {
            bytes.put_u32(value);
        }
        bytes.put_u32(crc32c::crc32c(&bytes));
        bytes.try_into().expect("a magic number and nine numbers have 40 bytes")
    }

    pub(super) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, BlockFault> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array()? != MAGIC {
            return Err(BlockFault::Magic);
        }
        let kind = cursor.u32()?;
        let (number, subject, count) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (encoding, raw_bytes, stored_bytes) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let crc = cursor.u32()?;
        if cursor.u32()? != crc32c::crc32c(&bytes[..HEAD_BYTES - 4]) {
            return Err(BlockFault::HeadChecksum);
        }
        Ok(Self { kind: Kind::of(kind)?, number, subject, count, encoding, raw_bytes, stored_bytes, crc })
    }

    /// Checks the stored bytes against the head.
    pub(super) fn check(&self, stored: &[u8]) -> Result<(), BlockFault> {
        if crc32c::crc32c(stored) == self.crc { Ok(()) } else { Err(BlockFault::Checksum) }
    }

    /// Decodes stored bytes, whose checksum has already been verified.
    pub(crate) fn decode(&self, stored: Vec<u8>) -> Result<Vec<u8>, BlockFault> {
        if self.raw_bytes > MAX_BLOCK_BYTES {
            return Err(BlockFault::Large(self.raw_bytes.into()));
        }
        let length = usize::try_from(self.raw_bytes).map_err(|_| BlockFault::Large(self.raw_bytes.into()))?;
        match self.encoding {
            ENCODING_RAW if stored.len() == length => Ok(stored),
            ENCODING_RAW => {
                let (needed, left) = (self.raw_bytes.into(), stored.len() as u64);
                Err(Malformed::Short { needed, left }.into())
            }
            ENCODING_ZSTD => {
                // A first pass checks the lengths, so that memory is allocated only for existing bytes.
                Codec::Zstd.validate(&stored, length)?;
                Ok(Codec::Zstd.decode(&stored, length)?)
            }
            code => Err(Malformed::Code { what: "the encoding of a block", code: code.into() }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_round_trip_compressed_or_not() {
        for raw in [Vec::new(), vec![7; 10_000], (0..=255).collect::<Vec<u8>>()] {
            let (head, stored) = BlockHead::encode(Kind::Items, 3, 1, 9, raw.clone()).unwrap();
            assert_eq!(BlockHead::from_bytes(&head.to_bytes()), Ok(head));
            assert_eq!(head.check(&stored), Ok(()));
            assert!(stored.len() <= raw.len());
            assert_eq!(head.decode(stored), Ok(raw));
        }
    }

    #[test]
    fn a_changed_bit_in_a_block_head_is_detected() {
        let (head, _) = BlockHead::encode(Kind::Chunks, 3, 1, 9, vec![1, 2, 3]).unwrap();
        for bit in 0..HEAD_BYTES * 8 {
            let mut bytes = head.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 32 { BlockFault::Magic } else { BlockFault::HeadChecksum };
            assert_eq!(BlockHead::from_bytes(&bytes), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn announced_sizes_are_limits_not_promises() {
        let (head, stored) = BlockHead::encode(Kind::Items, 0, 0, 0, vec![7; 1000]).unwrap();
        let wrong = |raw_bytes| BlockHead { raw_bytes, ..head }.decode(stored.clone()).unwrap_err();
        assert!(matches!(wrong(999), BlockFault::Compression(_)));
        assert!(matches!(wrong(MAX_BLOCK_BYTES), BlockFault::Compression(_)));
        assert_eq!(wrong(MAX_BLOCK_BYTES + 1), BlockFault::Large(u64::from(MAX_BLOCK_BYTES) + 1));
        let unknown = BlockHead { encoding: 2, ..head }.decode(stored.clone()).unwrap_err();
        assert_eq!(unknown.to_string(), "the block is malformed: the encoding of a block cannot be 2");
    }
}
