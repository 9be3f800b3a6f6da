//! Encoding, decoding and validation with any codec.

use smallvec::SmallVec;

use super::error::CodecError;
use super::kind::Codec;
use super::{lz4, snappy, zstd};

/// Data that compression does not shrink by at least this fraction is stored uncompressed.
const MIN_SAVED_PART: usize = 16;

impl Codec {
    /// Appends the encoded form of `src` to `out`.
    ///
    /// # Errors
    /// [`CodecError::TooLong`] beyond 4 GiB (LZ4 and Snappy), or an error from the library. `out` is then unchanged.
    pub fn encode(self, src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Raw => {
                out.extend_from_slice(src);
                Ok(())
            }
            Self::Snappy => snappy::encode(src, out),
            Self::Lz4 => lz4::encode(src, out),
            Self::Zstd => zstd::encode(src, out),
        }
    }

    /// Appends the concatenation of `parts` uncompressed, in a form that [`Codec::Snappy`] decodes.
    ///
    /// # Errors
    /// [`CodecError::TooLong`] beyond 4 GiB.
    pub fn store<'a>(
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        snappy::store(parts, out)
    }

    /// Returns the header that [`store`](Self::store) puts before `len` bytes.
    pub(crate) fn stored_head(len: usize) -> Result<SmallVec<[u8; 10]>, CodecError> {
        snappy::stored_head(len)
    }

    /// Checks that `src` decodes to exactly `expected_len` bytes, without storing them. Snappy and LZ4 payloads are
    /// walked tag by tag without output; Zstandard payloads are decoded through a small buffer.
    ///
    /// # Errors
    /// [`CodecError`] with the position and kind of the damage.
    pub fn validate(self, src: &[u8], expected_len: usize) -> Result<(), CodecError> {
        match self {
            Self::Raw => self.check_len(src.len(), expected_len),
            Self::Snappy => snappy::validate(src, expected_len),
            Self::Lz4 => lz4::validate(src, expected_len),
            Self::Zstd => zstd::validate(src, expected_len),
        }
    }

    /// Decodes `src` to exactly `expected_len` bytes, in one allocation of that size.
    ///
    /// # Errors
    /// [`CodecError`] if `src` is broken or decodes to a different length. For untrusted lengths, call
    /// [`validate`](Self::validate) first, which does not allocate memory of that length.
    pub fn decode(self, src: &[u8], expected_len: usize) -> Result<Vec<u8>, CodecError> {
        if self == Self::Raw {
            self.check_len(src.len(), expected_len)?;
            return Ok(src.to_vec());
        }
        let mut out = vec![0; expected_len];
        self.decode_into(src, &mut out)?;
        Ok(out)
    }

    /// Decodes `src` into all of `dst`, so that a column can be decoded directly to its destination.
    ///
    /// # Errors
    /// [`CodecError`] if `src` is broken or decodes to a different length. The content of `dst` is then unspecified.
    pub fn decode_into(self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        match self {
            Self::Raw => {
                self.check_len(src.len(), dst.len())?;
                dst.copy_from_slice(src);
                Ok(())
            }
            Self::Snappy => snappy::decode_into(src, dst),
            Self::Lz4 => lz4::decode_into(src, dst),
            Self::Zstd => zstd::decode_into(src, dst),
        }
    }

    /// Returns the `expected_len` decoded bytes in place if `src` contains them uncompressed.
    #[inline]
    pub(crate) fn plain(self, src: &[u8], expected_len: usize) -> Option<&[u8]> {
        match self {
            Self::Raw => (src.len() == expected_len).then_some(src),
            Self::Snappy => snappy::plain(src, expected_len),
            Self::Lz4 | Self::Zstd => None,
        }
    }

    /// Returns the encoded length of `size` uncompressed bytes.
    pub(crate) fn plain_len(self, size: u64) -> Option<u64> {
        match self {
            Self::Raw => Some(size),
            Self::Snappy => snappy::plain_len(size),
            Self::Lz4 | Self::Zstd => None,
        }
    }

    /// Returns whether compressing `len` bytes to `encoded` bytes pays off. Uncompressed bytes are cheaper to read:
    /// readers copy them or use them in place.
    pub(crate) const fn is_worthwhile(encoded: usize, len: usize) -> bool {
        encoded <= len - len / MIN_SAVED_PART
    }
}
