//! The codecs of chunks, and their numbers on the wire.
//!
//! dm-reverb's chunks are compressed with Snappy and do not record their codec. In Relive, each tensor may have a
//! different codec, which is recorded in a field that is unknown to dm-reverb. A peer receives only codecs that it has
//! declared: servers in their response to Describe, readers in their requests.

use relive_tensor::{Codec, CodecSet};

use crate::v1;

/// The number of the field of a `TensorProto` that holds the codec.
pub(crate) const TENSOR_FIELD: u64 = 1000;

/// Returns the number of a codec.
#[must_use]
pub fn to_wire(codec: Codec) -> i32 {
    match codec {
        Codec::Snappy => v1::Codec::Snappy,
        Codec::Raw => v1::Codec::Raw,
        Codec::Lz4 => v1::Codec::Lz4,
        Codec::Zstd => v1::Codec::Zstd,
    }
    .into()
}

/// Returns the codec with a number, if this version supports it.
#[must_use]
pub fn from_wire(number: u64) -> Option<Codec> {
    let known = v1::Codec::try_from(i32::try_from(number).ok()?).ok()?;
    Some(match known {
        v1::Codec::Snappy => Codec::Snappy,
        v1::Codec::Raw => Codec::Raw,
        v1::Codec::Lz4 => Codec::Lz4,
        v1::Codec::Zstd => Codec::Zstd,
    })
}

/// Returns the codecs that this version supports, as declared to peers.
#[must_use]
pub fn known() -> Vec<i32> {
    Codec::ALL.map(to_wire).to_vec()
}

/// Returns the codecs that a peer has declared and this version supports. Always includes Snappy.
#[must_use]
pub fn known_to_peer(numbers: &[i32]) -> CodecSet {
    let named = numbers.iter().filter_map(|number| from_wire(u64::try_from(*number).ok()?));
    named.collect::<CodecSet>().with(Codec::Snappy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_numbers_round_trip() {
        for codec in Codec::ALL {
            assert_eq!(from_wire(u64::try_from(to_wire(codec)).unwrap()), Some(codec));
        }
        assert_eq!((from_wire(4), from_wire(u64::MAX)), (None, None));
        assert_eq!(to_wire(Codec::Snappy), 0, "Snappy is the default");
    }

    #[test]
    fn unknown_and_missing_codec_announcements_are_tolerated() {
        assert_eq!(known_to_peer(&known()), CodecSet::ALL);
        assert_eq!(known_to_peer(&[]), CodecSet::REVERB);
        assert_eq!(known_to_peer(&[2, 99, -1]), CodecSet::REVERB.with(Codec::Lz4));
    }
}
