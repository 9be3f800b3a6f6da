//! Items whose data is one run of bytes.

use super::{OnlySlice, Trajectory};
use crate::{DType, Shape};

/// The data of an item of one column, as a run of bytes in memory: its rows, stored as they are.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// Type of the elements: of a fixed size, with every pattern of bits allowed.
    pub dtype: DType,
    /// Sizes of the dimensions of one row.
    pub cell_dims: &'a [u32],
    /// Number of rows.
    pub rows: u32,
    /// Whether the leading dimension, which is then 1, is dropped.
    pub squeeze: bool,
    /// The elements, little endian, row-major.
    pub bytes: &'a [u8],
}

/// What such an item is like, whatever its elements are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlainLayout {
    /// Type of the elements.
    pub dtype: DType,
    /// Shape of one row.
    pub cell_shape: Shape,
    /// Number of rows.
    pub rows: u32,
    /// Whether the leading dimension, which is then 1, is dropped.
    pub squeeze: bool,
}

impl Trajectory {
    /// The data as it lies in memory, where it stays for as long as the trajectory lives. `None` for more than one column or slice, for strings and
    /// bools, for what is compressed or coded as differences, and for chunks that a disk tier may move.
    #[must_use]
    pub fn plain(&self) -> Option<Plain<'_>> {
        if self.num_columns() != 1 {
            return None;
        }
        let OnlySlice { chunk, index, offset, length: rows, squeeze } = self.only_slice(0)?;
        let header = chunk.column(index)?;
        let bytes = chunk.encoded(index)?.plain_rows_in_place(offset, rows)?;
        Some(Plain { dtype: header.dtype, cell_dims: header.cell_dims(), rows, squeeze, bytes })
    }
}

impl Plain<'_> {
    /// Whether it is one of those.
    #[must_use]
    pub fn is_like(&self, layout: &PlainLayout) -> bool {
        let PlainLayout { dtype, cell_shape, rows, squeeze } = layout;
        self.dtype == *dtype
            && self.rows == *rows
            && self.squeeze == *squeeze
            && self.cell_dims == cell_shape.dims()
    }

    /// What it is like.
    #[must_use]
    pub fn layout(&self) -> PlainLayout {
        let Self { dtype, rows, squeeze, .. } = *self;
        PlainLayout { dtype, cell_shape: Shape::from(self.cell_dims), rows, squeeze }
    }
}

impl PlainLayout {
    /// Bytes of such an item; none beyond the address space.
    #[must_use]
    pub fn size_bytes(&self) -> Option<usize> {
        let elements = self.cell_shape.num_elements()?.checked_mul(u64::from(self.rows))?;
        usize::try_from(elements).ok()?.checked_mul(self.dtype.size_bytes()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chunk::Chunk;
    use crate::{Codec, Ledger, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk};

    fn chunk(values: &[f32], codec: Codec) -> Chunk {
        let range = SequenceRange { episode_id: 1, start: 0, end: 2, sparse: false };
        let rows = Tensor::from_slice(values, [3, 2]).unwrap();
        Chunk::new(encode_chunk(1, range, &[rows], false, codec).unwrap()).unwrap()
    }

    fn item(chunk: Chunk, slices: &[(u32, u32)]) -> Trajectory {
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(Arc::new(chunk));
        builder.begin_column(false);
        for &(offset, length) in slices {
            builder.slice(Slice { chunk, offset, length, index: 0 });
        }
        builder.build().unwrap()
    }

    const VALUES: [f32; 6] = [0.1, 7.2, -2.3, 3.4e9, 4.5, -5.6e-7];

    #[test]
    fn rows_that_are_stored_as_they_are_lie_where_they_are() {
        for codec in [Codec::Raw, Codec::Snappy] {
            let item = item(chunk(&VALUES, codec), &[(1, 2)]);
            let plain = item.plain().unwrap();
            assert_eq!(plain.bytes, bytemuck::cast_slice::<f32, u8>(&VALUES[2..]));
            let layout = plain.layout();
            assert!(plain.is_like(&layout) && layout.size_bytes() == Some(plain.bytes.len()));
            assert_eq!((layout.rows, layout.cell_shape.dims()), (2, &[2][..]));
            for other in [
                PlainLayout { rows: 1, ..layout.clone() },
                PlainLayout { dtype: DType::Int32, ..layout.clone() },
                PlainLayout { squeeze: true, ..layout.clone() },
                PlainLayout { cell_shape: Shape::from([2, 1]), ..layout },
            ] {
                assert!(!plain.is_like(&other), "{other:?}");
            }
        }
    }

    #[test]
    fn what_has_to_be_decoded_or_may_move_is_not_plain() {
        let same = [0.0; 6];
        for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            assert!(item(chunk(&same, codec), &[(0, 3)]).plain().is_none(), "{codec}");
        }
        assert!(item(chunk(&VALUES, Codec::Raw), &[(0, 1), (2, 1)]).plain().is_none(), "two slices");
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        let bools = Tensor::new(DType::Bool, Shape::from([1]), bytes::Bytes::from_static(&[1])).unwrap();
        let bools = Chunk::new(encode_chunk(1, range, &[bools], false, Codec::Raw).unwrap()).unwrap();
        assert!(item(bools, &[(0, 1)]).plain().is_none(), "bools");
        let large = Tensor::from_slice(&[1_u8; 4_096], [1, 4_096]).unwrap();
        let large = || {
            Chunk::new(encode_chunk(1, range, std::slice::from_ref(&large), false, Codec::Raw).unwrap())
                .unwrap()
        };
        assert!(item(large(), &[(0, 1)]).plain().is_some());
        let movable = large().with_ledger(Arc::new(Ledger::of_movable_chunks()));
        assert!(movable.is_movable() && item(movable, &[(0, 1)]).plain().is_none());
    }
}
