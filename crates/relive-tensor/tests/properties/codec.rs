//! Codecs: round trips, damaged data, and agreement of the Snappy walk with decoders.

use crate::strategies::{codecs, data};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::codec::strings;
use relive_tensor::{Codec, CodecError};

/// Returns whether the library decodes a block to exactly `len` bytes.
fn snap_decodes(block: &[u8], len: usize) -> bool {
    let mut out = vec![0; len];
    snap::raw::Decoder::new().decompress(block, &mut out) == Ok(len)
}

/// Returns a naive Snappy decoder that follows the format's description, for blocks without the leading length.
fn naive_snappy(mut src: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((&tag, after)) = src.split_first() {
        src = after;
        let number = |src: &[u8], len: usize| {
            let bytes = src.get(..len)?;
            Some(bytes.iter().rev().fold(0_usize, |n, &b| n << 8 | usize::from(b)))
        };
        let upper = usize::from(tag >> 2);
        let (offset, extra, len) = match tag & 3 {
            0 if upper < 60 => (0, 0, upper + 1),
            0 => (0, upper - 59, number(src, upper - 59)? + 1),
            1 => (usize::from(tag >> 5) << 8 | number(src, 1)?, 1, (upper & 7) + 4),
            2 => (number(src, 2)?, 2, upper + 1),
            _ => (number(src, 4)?, 4, upper + 1),
        };
        src = &src[extra..];
        if tag & 3 == 0 {
            out.extend_from_slice(src.get(..len)?);
            src = &src[len..];
        } else {
            for _ in 0..len {
                out.push(*out.get(out.len().checked_sub(offset).filter(|_| offset > 0)?)?);
            }
        }
    }
    Some(out)
}

/// Returns elements of all kinds, mostly valid, so that walks are long.
fn snappy_elements() -> impl Strategy<Value = Vec<u8>> {
    let literal = vec(any::<u8>(), 1..70).prop_flat_map(|text| {
        let len = u32::try_from(text.len() - 1).expect("short");
        (if len < 60 { 0..5_usize } else { 1..5_usize }).prop_map(move |extra| {
            let mut element = match extra {
                0 => vec![u8::try_from(len << 2).expect("below 60")],
                _ => vec![u8::try_from((59 + extra) << 2).expect("61..=63")],
            };
            element.extend_from_slice(&len.to_le_bytes()[..extra]);
            element.extend_from_slice(&text);
            element
        })
    });
    let copy1 =
        (0..8_u8, 0..2_u8, any::<u8>()).prop_map(|(len, high, low)| vec![high << 5 | len << 2 | 1, low]);
    let copy2 = (0..64_u8, 0..300_u16).prop_map(|(len, offset)| {
        let mut element = vec![len << 2 | 2];
        element.extend_from_slice(&offset.to_le_bytes());
        element
    });
    let copy4 = (0..64_u8, 0..300_u32).prop_map(|(len, offset)| {
        let mut element = vec![len << 2 | 3];
        element.extend_from_slice(&offset.to_le_bytes());
        element
    });
    vec(prop_oneof![4 => literal, 1 => copy1, 1 => copy2, 1 => copy4], 0..12)
        .prop_map(|elements| elements.concat())
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
    out
}

/// Damage to a payload: truncation, a changed byte, or an additional byte.
fn damage() -> impl Strategy<Value = (usize, usize, u8, Option<u8>)> {
    (0..100_usize, any::<usize>(), any::<u8>(), any::<Option<u8>>())
}

fn damaged(mut payload: Vec<u8>, (keep, place, change, extra): (usize, usize, u8, Option<u8>)) -> Vec<u8> {
    if keep < 50 {
        payload.truncate(payload.len() * keep / 50);
    }
    let len = payload.len().max(1);
    if let Some(byte) = payload.get_mut(place % len) {
        *byte ^= change;
    }
    payload.extend(extra);
    payload
}

/// Validation and decoding agree. Zstandard's one-pass decoder may accept more, such as frames with a huge window.
fn check_agreement(codec: Codec, payload: &[u8], len: usize) -> Result<(), TestCaseError> {
    let (valid, decoded) = (codec.validate(payload, len), codec.decode(payload, len));
    prop_assert_eq!(decoded.as_ref().map_or(len, Vec::len), len);
    if valid.is_ok() || codec != Codec::Zstd {
        prop_assert_eq!(valid.is_ok(), decoded.is_ok(), "{:?} but {:?}", valid, decoded);
    }
    Ok(())
}

proptest! {
    #[test]
    fn encoded_data_round_trips(codec in codecs(), data in data(), before in vec(any::<u8>(), 0..4)) {
        let mut out = before.clone();
        codec.encode(&data, &mut out).unwrap();
        let payload = out.strip_prefix(before.as_slice()).expect("encoding appends");
        prop_assert_eq!(codec.validate(payload, data.len()), Ok(()));
        prop_assert_eq!(&codec.decode(payload, data.len()).unwrap(), &data);
        for wrong in [data.len() + 1, data.len().wrapping_sub(1), 0] {
            if wrong != data.len() && wrong < usize::MAX {
                prop_assert!(codec.validate(payload, wrong).is_err());
                prop_assert!(codec.decode(payload, wrong).is_err());
            }
        }
    }

    #[test]
    fn damage_is_refused_or_harmless(codec in codecs(), data in data(), damage in damage()) {
        let mut payload = Vec::new();
        codec.encode(&data, &mut payload).unwrap();
        check_agreement(codec, &damaged(payload, damage), data.len())?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(codec in codecs(), src in vec(any::<u8>(), 0..60), len in 0..200_usize) {
        check_agreement(codec, &src, len)?;
    }

    #[test]
    fn snappy_walk_agrees_with_the_library(data in data(), damage in damage()) {
        let mut block = Vec::new();
        Codec::Snappy.encode(&data, &mut block).unwrap();
        prop_assert!(snap_decodes(&block, data.len()));
        let block = damaged(block, damage);
        for len in [data.len(), snap::raw::decompress_len(&block).unwrap_or(0).min(1 << 20)] {
            prop_assert_eq!(Codec::Snappy.validate(&block, len).is_ok(), snap_decodes(&block, len));
        }
    }

    #[test]
    fn snappy_walk_agrees_with_a_naive_decoder(elements in snappy_elements(), damage in damage(), break_it: bool) {
        let elements = if break_it { damaged(elements, damage) } else { elements };
        let naive = naive_snappy(&elements);
        let len = naive.as_ref().map_or(64, Vec::len);
        let block = [varint(len), elements].concat();
        prop_assert_eq!(Codec::Snappy.validate(&block, len).is_ok(), naive.is_some());
        prop_assert_eq!(Codec::Snappy.decode(&block, len).ok(), naive);
    }

    #[test]
    fn strings_round_trip(values in vec(vec(any::<u8>(), 0..200).prop_map(Bytes::from), 0..20)) {
        let mut payload = Vec::new();
        strings::encode(&values, &mut payload).unwrap();
        let count = u64::try_from(values.len()).unwrap();
        let total: usize = values.iter().map(Bytes::len).sum();
        prop_assert_eq!(strings::validate(&payload, count), Ok(u64::try_from(total).unwrap()));
        prop_assert_eq!(strings::decode(&payload, count), Ok(values));
    }

    #[test]
    fn arbitrary_strings_never_panic(src in vec(prop_oneof![0..8_u8, any::<u8>()], 0..40), count in 0..12_u64) {
        match (strings::validate(&src, count), strings::decode(&src, count)) {
            (Ok(total), Ok(values)) => {
                prop_assert_eq!(u64::try_from(values.len()).unwrap(), count);
                let sum: usize = values.iter().map(Bytes::len).sum();
                prop_assert_eq!(u64::try_from(sum).unwrap(), total);
                // The rest of the payload consists of the lengths, with at most five bytes each.
                prop_assert!(src.len() >= sum && src.len() - sum <= 5 * values.len());
            }
            (Err(one), Err(other)) => prop_assert_eq!(one, other),
            (one, other) => prop_assert!(false, "{:?} but {:?}", one, other),
        }
    }
}

#[test]
fn large_data_round_trips() {
    let noise = (0_u32..300_000).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes());
    let data: Vec<u8> = noise.chain(std::iter::repeat_n(3, 900_000)).collect();
    for codec in Codec::ALL {
        let mut payload = Vec::new();
        codec.encode(&data, &mut payload).unwrap();
        assert_eq!(codec.validate(&payload, data.len()), Ok(()), "{codec}");
        assert!(codec.decode(&payload, data.len()).unwrap() == data, "{codec}");
        payload.truncate(payload.len() - 1);
        assert!(codec.validate(&payload, data.len()).is_err(), "{codec}");
    }
}

#[test]
fn a_false_length_is_refused_without_an_allocation() {
    let mut block = varint(0xffff_ffff);
    block.extend_from_slice(&[0, b'a']);
    assert_eq!(
        Codec::Snappy.validate(&block, 0xffff_ffff),
        Err(CodecError::Length { codec: Codec::Snappy, expected: 0xffff_ffff, found: 1 })
    );
    assert!(Codec::Zstd.validate(&[1, 2, 3], usize::MAX).is_err());
    assert!(Codec::Lz4.validate(&[0x10], usize::MAX).is_err());
}

#[test]
fn zstd_frames_that_only_the_streaming_decoder_takes_still_decode() {
    let mut payload = Vec::new();
    Codec::Zstd.encode(&[], &mut payload).unwrap();
    // The announced length follows the magic number and the descriptor. An empty last block does not cause it to be
    // checked.
    assert_eq!(payload[4..6], [0x20, 0]);
    payload[5] = 2;
    assert_eq!(Codec::Zstd.validate(&payload, 0), Ok(()));
    assert_eq!(Codec::Zstd.decode(&payload, 0).unwrap(), []);
}

#[test]
fn zstd_accepts_consecutive_frames() {
    let mut payload = Vec::new();
    Codec::Zstd.encode(b"first ", &mut payload).unwrap();
    Codec::Zstd.encode(b"second", &mut payload).unwrap();
    assert_eq!(Codec::Zstd.validate(&payload, 12), Ok(()));
    assert_eq!(Codec::Zstd.decode(&payload, 12).unwrap(), b"first second");
    assert!(Codec::Zstd.validate(&[], 0).is_err());
}
