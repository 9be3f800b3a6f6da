//! The codecs.

use std::fmt;
use std::str::FromStr;

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

impl FromStr for Codec {
    type Err = String;

    /// Like [`from_name`](Self::from_name). The error lists the names.
    fn from_str(name: &str) -> Result<Self, String> {
        Self::from_name(name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{name:?} is not a codec; the codecs are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for codec in Codec::ALL {
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        let error = "gzip".parse::<Codec>().unwrap_err();
        assert_eq!(error, "\"gzip\" is not a codec; the codecs are raw, snappy, lz4, zstd");
    }
}
