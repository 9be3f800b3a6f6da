//! The closed set of codecs.

use std::fmt;

use smallvec::SmallVec;

use super::{CodecError, lz4, snappy, zstd};
use crate::tensor::to_u64;

/// Data that compression makes less than this part of it shorter is stored as it is.
const MIN_SAVED_PART: usize = 16;

/// How the bytes of fixed-size elements are compressed. dm-reverb knows [`Codec::Snappy`] only.
///
/// Strings are never compressed: see [`strings`](super::strings).
///
/// ```
/// use relive_tensor::Codec;
/// let mut payload = Vec::new();
/// Codec::Snappy.encode(b"aaaaaaaaaaaaaaaa", &mut payload)?;
/// Codec::Snappy.validate(&payload, 16)?;
/// assert_eq!(Codec::Snappy.decode(&payload, 16)?, b"aaaaaaaaaaaaaaaa");
/// assert!(Codec::Snappy.validate(&payload, 17).is_err());
/// # Ok::<(), relive_tensor::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// The bytes as they are.
    Raw,
    /// One raw Snappy block: varint length, then elements; no framing, no checksum.
    Snappy,
    /// One raw LZ4 block, without a length.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Name of the codec in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of that [`name`](Self::name).
    ///
    /// ```
    /// use relive_tensor::Codec;
    /// assert_eq!(Codec::from_name("zstd"), Some(Codec::Zstd));
    /// assert_eq!(Codec::from_name("gzip"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Appends the encoded form of `src` to `out`.
    ///
    /// # Errors
    /// [`CodecError::TooLong`] beyond 4 GiB (LZ4 and Snappy), or an error of the library; `out` is then as it was.
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

    /// Appends what `parts` are together as it is, in a form that [`Codec::Snappy`] decodes.
    ///
    /// # Errors
    /// [`CodecError::TooLong`] beyond 4 GiB.
    pub fn store<'a>(
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        snappy::store(parts, out)
    }

    /// What [`store`](Self::store) puts before `len` bytes.
    pub(crate) fn stored_head(len: usize) -> Result<SmallVec<[u8; 10]>, CodecError> {
        snappy::stored_head(len)
    }

    /// Checks that `src` decodes to exactly `expected_len` bytes, without keeping them. Snappy and LZ4 are walked tag by
    /// tag and produce nothing; Zstandard runs through a small buffer.
    ///
    /// # Errors
    /// [`CodecError`] with the place and kind of the damage.
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
    /// [`CodecError`] if `src` is broken or decodes to another length. For untrusted lengths call
    /// [`validate`](Self::validate) first, which does not allocate them.
    pub fn decode(self, src: &[u8], expected_len: usize) -> Result<Vec<u8>, CodecError> {
        if self == Self::Raw {
            self.check_len(src.len(), expected_len)?;
            return Ok(src.to_vec());
        }
        let mut out = vec![0; expected_len];
        self.decode_into(src, &mut out)?;
        Ok(out)
    }

    /// Decodes `src` into all of `dst`, so that a column lands where it is needed without a copy.
    ///
    /// # Errors
    /// [`CodecError`] if `src` is broken or decodes to another length; what `dst` then holds is unspecified.
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

    /// The `expected_len` decoded bytes where they lie, if they are there as they are.
    #[inline]
    pub(crate) fn plain(self, src: &[u8], expected_len: usize) -> Option<&[u8]> {
        match self {
            Self::Raw => (src.len() == expected_len).then_some(src),
            Self::Snappy => snappy::plain(src, expected_len),
            Self::Lz4 | Self::Zstd => None,
        }
    }

    /// The length of so many bytes where they are stored as they are.
    pub(crate) fn plain_len(self, size: u64) -> Option<u64> {
        match self {
            Self::Raw => Some(size),
            Self::Snappy => snappy::plain_len(size),
            Self::Lz4 | Self::Zstd => None,
        }
    }

    /// Whether what was encoded to `encoded` bytes is worth being decoded, instead of being stored as its `len` bytes: whoever
    /// reads stored bytes copies them, or finds them where they lie.
    pub(crate) const fn pays(encoded: usize, len: usize) -> bool {
        encoded <= len - len / MIN_SAVED_PART
    }

    pub(super) fn check_len(self, found: usize, expected: usize) -> Result<(), CodecError> {
        if found == expected {
            return Ok(());
        }
        Err(CodecError::Length { codec: self, expected: to_u64(expected), found: to_u64(found) })
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
