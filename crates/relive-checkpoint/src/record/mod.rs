//! TensorFlow's TFRecord files: records with checksums, the whole in one zlib stream or as it is.
//!
//! | Bytes of a record | Content |
//! |---|---|
//! | 8 | length of the payload, little endian |
//! | 4 | masked checksum of these 8 bytes, little endian |
//! | length | payload |
//! | 4 | masked checksum of the payload, little endian |
//!
//! A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8 modulo 2^32. TFRecord is documented at
//! <https://www.tensorflow.org/tutorials/load_data/tfrecord>.

mod inflate;
mod reader;
mod writer;

pub(crate) use reader::RecordReader;
pub(crate) use writer::RecordWriter;

/// Length and its checksum.
const HEAD_BYTES: usize = 12;

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The length that a record's first bytes announce, if their checksum is right.
fn announced(head: &[u8]) -> Option<u64> {
    let (length, rest) = head.split_first_chunk::<8>()?;
    let sum = u32::from_le_bytes(*rest.first_chunk()?);
    (sum == checksum(length)).then(|| u64::from_le_bytes(*length))
}
