//! Columns of numbers, stored byte plane by byte plane.

use super::{Cursor, Malformed};

/// Appends numbers: first the lowest byte of each number, then the next byte of each, and so on.
fn put<const W: usize, T: Copy>(out: &mut Vec<u8>, numbers: &[T], bytes_of: impl Fn(T) -> [u8; W]) {
    for plane in 0..W {
        out.extend(numbers.iter().map(|number| bytes_of(*number)[plane]));
    }
}

/// Reads `count` numbers.
fn take<const W: usize>(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<[u8; W]>, Malformed> {
    let bytes = cursor.bytes((count as u64).saturating_mul(W as u64))?;
    let mut numbers = vec![[0; W]; count];
    // The size of a plane is at least 1 even if there are no numbers, because chunks of 0 bytes are invalid.
    for (place, plane) in bytes.chunks_exact(count.max(1)).enumerate() {
        for (number, byte) in numbers.iter_mut().zip(plane) {
            number[place] = *byte;
        }
    }
    Ok(numbers)
}

pub(crate) fn put_u32s(out: &mut Vec<u8>, numbers: &[u32]) {
    put(out, numbers, u32::to_le_bytes);
}

pub(crate) fn take_u32s(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>, Malformed> {
    Ok(take(cursor, count)?.into_iter().map(u32::from_le_bytes).collect())
}

pub(crate) fn put_u64s(out: &mut Vec<u8>, numbers: &[u64]) {
    put(out, numbers, u64::to_le_bytes);
}

pub(crate) fn take_u64s(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u64>, Malformed> {
    Ok(take(cursor, count)?.into_iter().map(u64::from_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_group_bytes_by_significance() {
        let mut out = Vec::new();
        put_u32s(&mut out, &[0x0403_0201, 0x1413_1211]);
        assert_eq!(out, [1, 0x11, 2, 0x12, 3, 0x13, 4, 0x14]);
        assert_eq!(take_u32s(&mut Cursor::new(&out), 2), Ok(vec![0x0403_0201, 0x1413_1211]));
        assert_eq!(take_u32s(&mut Cursor::new(&out), 3), Err(Malformed::Short { needed: 12, left: 8 }));
        assert_eq!(take_u64s(&mut Cursor::new(&[]), 0), Ok(vec![]));
    }
}
