//! Names of segments.

use std::fmt;
use std::io;

use rand::TryRng;
use rand::rngs::SysRng;

/// The folder of the segments.
pub(crate) const FOLDER: &str = "segments";

const SUFFIX: &str = ".chunks";

/// The permanent, globally unique name of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) [u8; 16]);

impl SegmentId {
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// Returns the name of the segment's file.
    pub(crate) fn file_name(self) -> String {
        format!("{FOLDER}/{self}{SUFFIX}")
    }

    /// Returns the segment whose file has this name, which includes the folder.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(SUFFIX)?;
        let is_ours =
            digits.len() == 32 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_ours.then(|| u128::from_str_radix(digits, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_file_names_are_segments() {
        let id = SegmentId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.file_name(), "segments/000102030405060708090a0b0c0d0eff.chunks");
        assert_eq!(SegmentId::from_file_name(&id.file_name()), Some(id));
        for name in [
            "segments/000102030405060708090A0B0C0D0EFF.chunks",
            "segments/+00102030405060708090a0b0c0d0eff.chunks",
            "segments/00102030405060708090a0b0c0d0eff.chunks",
            "segments/.000102030405060708090a0b0c0d0eff.chunks.tmp",
            "000102030405060708090a0b0c0d0eff.chunks",
            "segments/notes.chunks",
        ] {
            assert_eq!(SegmentId::from_file_name(name), None, "{name}");
        }
    }
}
