//! Delta coding: each row is replaced by its difference from the previous row.
//!
//! Delta coding applies only to tensors of plain integers with at least two dimensions. They are treated as `[N, M]`
//! arrays of the unsigned type of the same width: `out[0] = in[0]`, `out[i] = in[i] - in[i-1]`, wrapping.
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

use crate::dtype::DType;
use crate::shape::Shape;

/// Returns whether delta coding applies to tensors with the given type and shape.
#[must_use]
pub fn applies(dtype: DType, shape: &Shape) -> bool {
    dtype.delta_codable() && shape.rank() >= 2
}

/// Replaces every row except the first with its difference from the previous row. Does nothing if [`applies`] is false.
pub fn encode(dtype: DType, shape: &Shape, data: &mut [u8]) {
    // Works backwards, so that the previous row still has its original values.
    match dtype.size_bytes().zip(layout(dtype, shape, data.len())) {
        Some((1, rows)) => rows.backwards(data, |[a], [b]| [a.wrapping_sub(b)]),
        Some((2, rows)) => rows
            .backwards(data, |a, b| u16::from_le_bytes(a).wrapping_sub(u16::from_le_bytes(b)).to_le_bytes()),
        Some((4, rows)) => rows
            .backwards(data, |a, b| u32::from_le_bytes(a).wrapping_sub(u32::from_le_bytes(b)).to_le_bytes()),
        Some((_, rows)) => rows
            .backwards(data, |a, b| u64::from_le_bytes(a).wrapping_sub(u64::from_le_bytes(b)).to_le_bytes()),
        None => {}
    }
}

/// Undoes [`encode`].
pub fn decode(dtype: DType, shape: &Shape, data: &mut [u8]) {
    match dtype.size_bytes().zip(layout(dtype, shape, data.len())) {
        Some((1, rows)) => rows.forwards(data, |[a], [b]| [a.wrapping_add(b)]),
        Some((2, rows)) => rows
            .forwards(data, |a, b| u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes()),
        Some((4, rows)) => rows
            .forwards(data, |a, b| u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()),
        Some((_, rows)) => rows
            .forwards(data, |a, b| u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()),
        None => {}
    }
}

/// A run of bytes that consists of rows of equal length.
#[derive(Clone, Copy)]
struct Rows {
    count: usize,
    /// The number of bytes in a row, which is not 0.
    len: usize,
}

impl Rows {
    /// Applies `op` to each row except the first, together with the previous row, from the first row to the last.
    fn forwards<const W: usize>(self, data: &mut [u8], op: impl Fn([u8; W], [u8; W]) -> [u8; W]) {
        (1..self.count).for_each(|row| self.combine(data, row, &op));
    }

    /// Applies `op` to each row except the first, together with the previous row, from the last row to the first.
    fn backwards<const W: usize>(self, data: &mut [u8], op: impl Fn([u8; W], [u8; W]) -> [u8; W]) {
        (1..self.count).rev().for_each(|row| self.combine(data, row, &op));
    }

    /// `row[i] = op(row[i], before[i])` over elements of `W` bytes, in a form that compiles to vector instructions.
    #[inline]
    fn combine<const W: usize>(self, data: &mut [u8], row: usize, op: &impl Fn([u8; W], [u8; W]) -> [u8; W]) {
        let (head, tail) = data.split_at_mut(row * self.len);
        let (before, _) = head.get(head.len() - self.len..).unwrap_or_default().as_chunks::<W>();
        let (row, _) = tail.get_mut(..self.len).unwrap_or_default().as_chunks_mut::<W>();
        for (element, previous) in row.iter_mut().zip(before) {
            *element = op(*element, *previous);
        }
    }
}

/// Returns the rows of the data, or `None` if there is nothing to do.
fn layout(dtype: DType, shape: &Shape, len: usize) -> Option<Rows> {
    let count = usize::try_from(shape.rows().filter(|_| applies(dtype, shape))?).ok()?;
    let len = len.checked_div(count)?;
    (len > 0).then_some(Rows { count, len })
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
    fn empty_rows_are_left_unchanged() {
        encode(DType::Int64, &Shape::from([0, 3]), &mut []);
        decode(DType::Int64, &Shape::from([3, 0]), &mut []);
    }
}
