//! Delta coding: each row is replaced by its difference to the row before.
//!
//! Only tensors of plain integers with at least two dimensions are touched. They are taken as `[N, M]` numbers of the
//! unsigned type of the same width: `out[0] = in[0]`, `out[i] = in[i] - in[i-1]`, wrapping.
//!
//! ```
//! use relive_tensor::{DType, Shape, codec::delta};
//! let shape = Shape::from([3, 2]);
//! let mut rows = [1, 2, 3, 5, 2, 5];
//! delta::encode(DType::UInt8, &shape, &mut rows);
//! assert_eq!(rows, [1, 2, 2, 3, 255, 0]);
//! delta::decode(DType::UInt8, &shape, &mut rows);
//! assert_eq!(rows, [1, 2, 3, 5, 2, 5]);
//! ```

use crate::{DType, Shape};

/// Whether delta coding changes tensors of this type and shape at all.
#[must_use]
pub fn applies(dtype: DType, shape: &Shape) -> bool {
    dtype.delta_codable() && shape.rank() >= 2
}

/// Replaces every row but the first by its difference to the row before; does nothing where [`applies`] is false.
pub fn encode(dtype: DType, shape: &Shape, data: &mut [u8]) {
    let Some((rows, row_len)) = layout(dtype, shape, data.len()) else { return };
    // Backwards, so that the row before is still the original one.
    for row in (1..rows).rev() {
        let (before, row) = row_pair(data, row, row_len);
        match dtype.size_bytes() {
            Some(1) => combine(row, before, |[a], [b]| [a.wrapping_sub(b)]),
            Some(2) => combine(row, before, |a, b| {
                u16::from_le_bytes(a).wrapping_sub(u16::from_le_bytes(b)).to_le_bytes()
            }),
            Some(4) => combine(row, before, |a, b| {
                u32::from_le_bytes(a).wrapping_sub(u32::from_le_bytes(b)).to_le_bytes()
            }),
            _ => combine(row, before, |a, b| {
                u64::from_le_bytes(a).wrapping_sub(u64::from_le_bytes(b)).to_le_bytes()
            }),
        }
    }
}

/// Undoes [`encode`].
pub fn decode(dtype: DType, shape: &Shape, data: &mut [u8]) {
    let Some((rows, row_len)) = layout(dtype, shape, data.len()) else { return };
    for row in 1..rows {
        let (before, row) = row_pair(data, row, row_len);
        match dtype.size_bytes() {
            Some(1) => combine(row, before, |[a], [b]| [a.wrapping_add(b)]),
            Some(2) => combine(row, before, |a, b| {
                u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes()
            }),
            Some(4) => combine(row, before, |a, b| {
                u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()
            }),
            _ => combine(row, before, |a, b| {
                u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()
            }),
        }
    }
}

/// Number of rows and bytes of a row, `None` if nothing is to be done.
fn layout(dtype: DType, shape: &Shape, len: usize) -> Option<(usize, usize)> {
    let rows = usize::try_from(shape.rows().filter(|_| applies(dtype, shape))?).ok()?;
    let row_len = len.checked_div(rows)?;
    (row_len > 0).then_some((rows, row_len))
}

/// Row `row - 1` and row `row`.
fn row_pair(data: &mut [u8], row: usize, row_len: usize) -> (&[u8], &mut [u8]) {
    let (head, tail) = data.split_at_mut(row * row_len);
    (head.get((row - 1) * row_len..).unwrap_or_default(), tail.get_mut(..row_len).unwrap_or_default())
}

/// `row[i] = op(row[i], before[i])` over elements of `W` bytes, in a form that compiles to vector instructions.
#[inline]
fn combine<const W: usize>(row: &mut [u8], before: &[u8], op: impl Fn([u8; W], [u8; W]) -> [u8; W]) {
    let (row, _) = row.as_chunks_mut::<W>();
    let (before, _) = before.as_chunks::<W>();
    for (element, previous) in row.iter_mut().zip(before) {
        *element = op(*element, *previous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_bools_and_single_columns_are_left_alone() {
        for (dtype, shape) in [
            (DType::Float32, Shape::from([2, 1])),
            (DType::Bool, Shape::from([4, 2])),
            (DType::QInt8, Shape::from([4, 2])),
            (DType::Int32, Shape::from([2])),
            (DType::Int32, Shape::scalar()),
        ] {
            assert!(!applies(dtype, &shape));
            let mut data = [1, 2, 3, 4, 5, 6, 7, 8];
            encode(dtype, &shape, &mut data);
            assert_eq!(data, [1, 2, 3, 4, 5, 6, 7, 8]);
        }
    }

    #[test]
    fn differences_wrap_in_the_width_of_the_element() {
        let mut data = bytemuck::cast::<[i16; 4], [u8; 8]>([1, i16::MIN, -1, i16::MAX]);
        encode(DType::Int16, &Shape::from([2, 2]), &mut data);
        assert_eq!(bytemuck::cast::<[u8; 8], [i16; 4]>(data), [1, i16::MIN, -2, -1]);
    }

    #[test]
    fn empty_rows_are_nothing_to_do() {
        encode(DType::Int64, &Shape::from([0, 3]), &mut []);
        decode(DType::Int64, &Shape::from([3, 0]), &mut []);
    }
}
