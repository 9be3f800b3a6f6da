//! The codecs.

use std::fmt;

/// The compression of fixed-size elements. dm-reverb supports only [`Codec::Snappy`].
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
    /// Uncompressed.
    Raw,
    /// One raw Snappy block: a varint length followed by the elements, without framing or a checksum.
    Snappy,
    /// One raw LZ4 block, without a length.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Returns the name of the codec in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the codec with the given [`name`](Self::name).
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
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
