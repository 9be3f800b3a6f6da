//! Sets of codecs.

use std::fmt;

use super::Codec;

/// A set of codecs.
///
/// ```
/// use relive_tensor::{Codec, CodecSet};
/// let some = CodecSet::from_iter([Codec::Snappy, Codec::Zstd]);
/// assert!(some.contains(Codec::Zstd) && !some.contains(Codec::Raw));
/// assert!(CodecSet::ALL.includes(some) && !some.includes(CodecSet::ALL));
/// assert_eq!(some.to_string(), "snappy, zstd");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodecSet(u8);

impl CodecSet {
    /// No codec.
    pub const NONE: Self = Self(0);

    /// Every codec.
    pub const ALL: Self = Self((1 << Codec::ALL.len()) - 1);

    /// The codec that every peer supports, including dm-reverb: [`Codec::Snappy`].
    pub const REVERB: Self = Self::NONE.with(Codec::Snappy);

    /// Returns a set with the given codecs and `codec`.
    #[must_use]
    pub const fn with(self, codec: Codec) -> Self {
        Self(self.0 | 1 << codec as u8)
    }

    /// Returns whether the set contains `codec`.
    #[must_use]
    pub const fn contains(self, codec: Codec) -> bool {
        self.0 & 1 << codec as u8 != 0
    }

    /// Returns whether the set contains all of `others`.
    #[must_use]
    pub const fn includes(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Iterates over the codecs, in the order of [`Codec::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Codec> {
        Codec::ALL.into_iter().filter(move |codec| self.contains(*codec))
    }
}

impl FromIterator<Codec> for CodecSet {
    fn from_iter<I: IntoIterator<Item = Codec>>(codecs: I) -> Self {
        codecs.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for CodecSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, codec) in self.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            codec.fmt(f)?;
        }
        Ok(())
    }
}
