//! TensorFlow's TFRecord files: records with checksums. The whole file is either one zlib stream or uncompressed.
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

mod frame;
mod inflate;
mod reader;
mod writer;

pub(crate) use reader::RecordReader;
pub(crate) use writer::RecordWriter;
