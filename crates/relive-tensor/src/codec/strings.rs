//! Payloads of string columns: the varint32 length of each element in row-major order, then all characters.
//!
//! ```
//! use bytes::Bytes;
//! use relive_tensor::codec::strings;
//!
//! let mut payload = Vec::new();
//! strings::encode(&["x", "yz", ""].map(Bytes::from), &mut payload)?;
//! assert_eq!(payload, [1, 2, 0, b'x', b'y', b'z']);
//! assert_eq!(strings::validate(&payload, 3)?, 3);
//! assert_eq!(strings::decode(&payload, 3)?, ["x", "yz", ""]);
//! # Ok::<(), relive_tensor::CodecError>(())
//! ```

use bytes::Bytes;

use super::{Codec, CodecError};
use crate::tensor::to_u64;

/// Appends the payload of `values` to `out`.
///
/// # Errors
/// [`CodecError::TooLong`] if an element is 4 GiB or longer. `out` is then unchanged.
pub fn encode(values: &[Bytes], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let long = values.iter().find(|value| u32::try_from(value.len()).is_err());
    if let Some(value) = long {
        return Err(CodecError::TooLong { codec: Codec::Raw, len: to_u64(value.len()) });
    }
    values.iter().for_each(|value| write_varint(value.len(), out));
    values.iter().for_each(|value| out.extend_from_slice(value));
    Ok(())
}

/// Checks that `src` is the payload of exactly `count` strings and returns the sum of their lengths in bytes.
///
/// # Errors
/// [`CodecError`] if a length is damaged or the characters do not match the lengths.
pub fn validate(src: &[u8], count: u64) -> Result<u64, CodecError> {
    let mut rest = src;
    let mut expected = 0_u64;
    for element in 0..count {
        let (len, after) = read_varint32(rest).ok_or(CodecError::StringLength { element, count })?;
        // This cannot overflow: every length takes at least a byte of an input in memory.
        expected += u64::from(len);
        rest = after;
    }
    let found = to_u64(rest.len());
    if found == expected { Ok(found) } else { Err(CodecError::StringBytes { expected, found }) }
}

/// Decodes the `count` strings of a payload. They share one copy of the characters.
///
/// # Errors
/// The errors of [`validate`]. All errors are detected before anything is allocated.
pub fn decode(src: &[u8], count: u64) -> Result<Vec<Bytes>, CodecError> {
    let total = validate(src, count)?;
    let (mut lengths, characters) =
        src.split_at_checked(src.len() - usize::try_from(total).unwrap_or(0)).unwrap_or_default();
    let mut characters = Bytes::copy_from_slice(characters);
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    while let Some((len, after)) = read_varint32(lengths) {
        lengths = after;
        values.push(characters.split_to(usize::try_from(len).unwrap_or(0).min(characters.len())));
    }
    Ok(values)
}

/// Reads a varint of at most five bytes that fits into 32 bits. Returns its value and the rest of the bytes.
#[inline]
pub(super) fn read_varint32(src: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u64;
    for (position, &byte) in src.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some((u32::try_from(value).ok()?, src.get(position + 1..)?));
        }
    }
    None
}

pub(super) fn write_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits fit a byte") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("less than 128 fits a byte"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_have_long_lengths() {
        let values = [Bytes::from(vec![7; 300]), Bytes::from(vec![8; 127]), Bytes::from(vec![9; 128])];
        let mut payload = Vec::new();
        encode(&values, &mut payload).unwrap();
        assert_eq!(payload[..5], [0xac, 0x02, 0x7f, 0x80, 0x01]);
        assert_eq!(decode(&payload, 3).unwrap(), values);
    }

    #[test]
    fn an_empty_list_of_strings_has_no_bytes() {
        assert_eq!(validate(&[], 0), Ok(0));
        assert_eq!(decode(&[], 0), Ok(vec![]));
        assert_eq!(validate(&[0], 0), Err(CodecError::StringBytes { expected: 0, found: 1 }));
    }

    #[test]
    fn damage_names_the_element() {
        assert_eq!(validate(&[1, 1, b'a'], 2), Err(CodecError::StringBytes { expected: 2, found: 1 }));
        assert_eq!(validate(&[1], 2), Err(CodecError::StringLength { element: 1, count: 2 }));
        let wide = [0xff, 0xff, 0xff, 0xff, 0x10];
        assert_eq!(validate(&wide, 1), Err(CodecError::StringLength { element: 0, count: 1 }));
        assert_eq!(decode(&[], u64::MAX), Err(CodecError::StringLength { element: 0, count: u64::MAX }));
    }
}
