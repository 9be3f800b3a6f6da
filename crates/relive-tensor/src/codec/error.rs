//! The errors of encoding and decoding payloads.

use super::kind::Codec;
use crate::tensor::to_u64;

/// The reason why a payload cannot be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the fields")]
pub enum CodecError {
    /// The size of the payload does not match its dtype and shape.
    #[error("{codec} payload has {found} bytes, but dtype and shape require {expected}")]
    Length { codec: Codec, expected: u64, found: u64 },
    /// The payload is truncated or damaged.
    #[error("{codec} payload is corrupt at byte {at}: {fault}")]
    Broken { codec: Codec, at: usize, fault: BlockFault },
    /// A library's decoder refused the payload. The value is the library's message.
    #[error("{codec} payload is corrupt: {message}")]
    Library { codec: Codec, message: String },
    /// The data is too long for one payload.
    #[error("{codec} cannot encode {len} bytes in one payload; use shorter chunks")]
    TooLong { codec: Codec, len: u64 },
    /// The list of string lengths ends early, or a length is not a 32-bit varint.
    #[error("length of string {element} of {count} is truncated, or not a 32-bit varint")]
    StringLength { element: u64, count: u64 },
    /// The characters after the string lengths do not match the lengths.
    #[error("strings should have {expected} bytes after their lengths, but have {found}")]
    StringBytes { expected: u64, found: u64 },
}

/// A fault in a compressed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// The leading length is truncated or not a 32-bit varint.
    #[error("the leading length is truncated, or not a 32-bit varint")]
    Header,
    /// A tag, or the data that belongs to it, is truncated.
    #[error("a tag is truncated")]
    Tag,
    /// A literal extends beyond the end of the payload.
    #[error("a literal extends beyond the end of the payload")]
    Literal,
    /// A copy starts before the beginning of the output, or has offset 0.
    #[error("a copy starts outside of the bytes decoded so far")]
    Offset,
    /// The output would be longer than announced.
    #[error("the output is longer than announced")]
    Overrun,
}

impl Codec {
    /// Checks the size of a payload in bytes.
    pub(super) fn check_len(self, found: usize, expected: usize) -> Result<(), CodecError> {
        if found == expected {
            return Ok(());
        }
        Err(CodecError::Length { codec: self, expected: to_u64(expected), found: to_u64(found) })
    }
}
