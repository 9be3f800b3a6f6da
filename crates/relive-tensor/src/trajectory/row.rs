//! Items as rows: small items with their columns in one block of memory.
//!
//! Reading any other item follows pointers to its description, its chunks and their descriptions. A row is only the
//! location of the item's bytes, which takes two numbers; the rest of its description is stored once for many rows.

use std::sync::Arc;

use smallvec::SmallVec;

use super::row_layout::{Row, RowColumn, RowLayout, RowPart};
use super::{OnlySlice, Trajectory};
use crate::chunk::EncodedTensor;
use crate::dtype::DType;
use crate::layout::ColumnLayout;
use crate::tensor::check_bytes;

/// The largest size of an item that can be a row: the number of bytes in all its columns. For larger items, following
/// the pointers is only a small part of the cost.
pub const MAX_ROW_BYTES: usize = 4_096;

/// The largest size, in bytes, of an item that is copied to form a row because it is compressed or in several chunks. A
/// copy of this size is no larger than the item's description.
pub const MAX_PACKED_BYTES: usize = 512;

/// The most bytes that are decoded to copy an item: of all tensors of which it has rows. Tensors are decoded whole, for
/// each item and under the lock of its table, so this bounds how long other callers wait: for about 10 µs.
const MAX_DECODED_BYTES: u64 = 16 << 10;

/// A column in the item's only chunk.
struct InPlaceColumn<'a> {
    slice: OnlySlice<'a>,
    tensor: EncodedTensor<'a>,
    /// The offset in the frame of the chunk's first row.
    start: u32,
    row_bytes: u32,
}

impl<'a> InPlaceColumn<'a> {
    fn of(trajectory: &'a Trajectory, column: usize) -> Option<Self> {
        let slice = trajectory.only_slice(column)?;
        let tensor = slice.chunk.encoded(slice.index)?;
        let all = tensor.plain_in_place(tensor.shape.rows()?)?;
        let frame = slice.chunk.fixed_frame()?;
        let start = all.as_ptr().addr().checked_sub(frame.as_ptr().addr())?;
        let row_bytes = all.len().checked_div(tensor.shape.rows()? as usize)?;
        Some(Self {
            slice,
            tensor,
            start: u32::try_from(start).ok()?,
            row_bytes: u32::try_from(row_bytes).ok()?,
        })
    }

    fn bytes(&self) -> u32 {
        self.row_bytes.saturating_mul(self.slice.length)
    }

    /// Returns the column's offset relative to `first`, a column of the same item.
    fn start_beside(&self, first: &InPlaceColumn<'_>) -> i64 {
        let rows = i64::from(self.slice.offset) - i64::from(first.slice.offset);
        i64::from(self.start) - i64::from(first.start) + rows * i64::from(self.row_bytes)
    }

    fn is(&self, column: &RowColumn, first: &InPlaceColumn<'_>) -> bool {
        let OnlySlice { length, squeeze, .. } = self.slice;
        let cell_dims = self.tensor.shape.cell_dims();
        column.layout.is(self.tensor.dtype, squeeze, length, cell_dims) && column.part == self.part(first)
    }

    fn part(&self, first: &InPlaceColumn<'_>) -> RowPart {
        RowPart { start: self.start_beside(first), stride: self.row_bytes, bytes: self.bytes() }
    }

    fn describe(&self, first: &InPlaceColumn<'_>) -> RowColumn {
        let OnlySlice { length, squeeze, .. } = self.slice;
        let layout = ColumnLayout::new(self.tensor.dtype, squeeze, length, self.tensor.shape.cell_dims());
        RowColumn { layout, part: self.part(first) }
    }
}

impl Trajectory {
    /// Returns the item as a row. The returned layout is `None` if `known` describes the item.
    ///
    /// Returns `None` for large items, strings, movable chunks, invalid bools, items above [`MAX_PACKED_BYTES`] that are
    /// in several chunks or compressed, and compressed items of large chunks.
    #[must_use]
    pub fn row(&self, known: Option<&RowLayout>) -> Option<(Row, Option<RowLayout>)> {
        self.in_place_row(known).or_else(|| self.packed_row(known))
    }

    /// Returns the row in place, in the item's only chunk.
    fn in_place_row(&self, known: Option<&RowLayout>) -> Option<(Row, Option<RowLayout>)> {
        let [chunk] = self.chunks() else { return None };
        let mut in_place: SmallVec<[InPlaceColumn<'_>; 8]> = SmallVec::with_capacity(self.num_columns());
        let mut size = 0_usize;
        for column in 0..self.num_columns() {
            let column = InPlaceColumn::of(self, column)?;
            size = size.saturating_add(column.bytes() as usize);
            if size > MAX_ROW_BYTES {
                return None;
            }
            in_place.push(column);
        }
        let first = in_place.first()?;
        let is_known = known.is_some_and(|known| {
            known.columns.len() == in_place.len()
                && known.columns.iter().zip(&in_place).all(|(column, in_place)| in_place.is(column, first))
        });
        let layout = || RowLayout::new(in_place.iter().map(|column| column.describe(first)).collect());
        let layout = (!is_known).then(layout);
        let row =
            Row { frame: Arc::clone(chunk.fixed_frame()?), origin: first.start, first: first.slice.offset };
        let is_right = |column: usize, in_place: &InPlaceColumn<'_>| {
            let layout = layout.as_ref().or(known)?;
            check_bytes(in_place.tensor.dtype, layout.column(&row, column)?).ok()
        };
        let are_right = in_place.iter().enumerate().all(|(column, in_place)| {
            in_place.tensor.dtype != DType::Bool || is_right(column, in_place).is_some()
        });
        are_right.then_some((row, layout))
    }

    /// Returns the row as a copy of its consecutive columns.
    fn packed_row(&self, known: Option<&RowLayout>) -> Option<(Row, Option<RowLayout>)> {
        if self.chunks().iter().any(|chunk| chunk.is_movable()) {
            return None;
        }
        let mut columns = SmallVec::with_capacity(self.num_columns());
        let mut size = 0_usize;
        for column in self.columns() {
            let described =
                ColumnLayout::new(column.dtype(), column.squeeze(), column.rows(), column.cell_shape());
            let bytes = described.size_bytes(1)?;
            let (start, stride) = (i64::try_from(size).ok()?, 0);
            size = size.checked_add(bytes).filter(|&size| size <= MAX_PACKED_BYTES)?;
            let part = RowPart { start, stride, bytes: u32::try_from(bytes).ok()? };
            columns.push(RowColumn { layout: described, part });
        }
        let frame = self.packed_plain(size).or_else(|| self.packed_decoded(size))?;
        let (row, layout) = (Row { frame, origin: 0, first: 0 }, RowLayout::new(columns));
        Some((row, (known != Some(&layout)).then_some(layout)))
    }

    /// Returns the `size` bytes of the columns if all of them are uncompressed.
    fn packed_plain(&self, size: usize) -> Option<Arc<[u8]>> {
        let mut packed: SmallVec<[u8; MAX_PACKED_BYTES]> = SmallVec::from_elem(0, size);
        let mut left = packed.as_mut_slice();
        for column in self.columns() {
            for slice in column.slices() {
                let tensor = column.chunk_of(&slice)?.encoded(slice.index as usize)?;
                let bytes = tensor.size_bytes()?.checked_div(u64::from(tensor.shape.rows()?))?;
                let bytes = usize::try_from(bytes).ok()?.checked_mul(slice.length as usize)?;
                let (rows, rest) = left.split_at_mut_checked(bytes)?;
                tensor.copy_plain_rows(slice.offset, rows)?.ok()?;
                left = rest;
            }
        }
        left.is_empty().then(|| Arc::from(packed.as_slice()))
    }

    /// Returns the `size` bytes of the columns after decoding them, unless that takes too long.
    fn packed_decoded(&self, size: usize) -> Option<Arc<[u8]>> {
        let mut cost = 0_u64;
        for column in self.columns() {
            for slice in column.slices() {
                let tensor = column.chunk_of(&slice)?.encoded(slice.index as usize)?;
                cost = cost.checked_add(tensor.size_bytes()?).filter(|&cost| cost <= MAX_DECODED_BYTES)?;
            }
        }
        let mut packed: SmallVec<[u8; MAX_PACKED_BYTES]> = SmallVec::with_capacity(size);
        for tensor in self.decode().ok()? {
            packed.extend_from_slice(tensor.bytes()?);
        }
        Some(Arc::from(packed.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::accounts::Ledger;
    use crate::chunk::{Chunk, SequenceRange, encode_chunk};
    use crate::codec::Codec;
    use crate::tensor::Tensor;
    use crate::trajectory::{Slice, TrajectoryBuilder};

    fn chunk(key: u64, columns: &[Tensor], codec: Codec) -> Chunk {
        let range = SequenceRange { episode_id: 1, start: 0, end: 2, sparse: false };
        Chunk::new(encode_chunk(key, range, columns, false, codec).unwrap()).unwrap()
    }

    /// Returns columns with three rows each, which differ in size.
    fn columns() -> [Tensor; 3] {
        [
            Tensor::from_slice(&[0.1_f32, 7.2, -2.3, 3.4e9, 4.5, -5.6e-7], [3, 2]).unwrap(),
            Tensor::from_bools(&[true, false, true], [3]).unwrap(),
            Tensor::from_slice(&[1_i64, -2, 3], [3]).unwrap(),
        ]
    }

    /// Returns two columns with many different rows.
    fn columns_of(rows: u32) -> [Tensor; 2] {
        let numbers: Vec<i64> = (0..i64::from(rows)).collect();
        let bools: Vec<bool> = numbers.iter().map(|number| number % 3 == 0).collect();
        [Tensor::from_slice(&numbers, [rows]).unwrap(), Tensor::from_bools(&bools, [rows]).unwrap()]
    }

    /// Returns an item of slices of chunks. Each column is a list of pieces: chunk, first row, number of rows and
    /// tensor.
    fn item(chunks: &[Chunk], columns: &[&[(u32, u32, u32, u32)]]) -> Trajectory {
        let mut builder = TrajectoryBuilder::new();
        for chunk in chunks {
            let copy = chunk.recoded(chunk.column(0).unwrap().codec).unwrap();
            builder.chunk(Arc::new(copy));
        }
        for slices in columns {
            builder.begin_column(false);
            for &(chunk, offset, length, index) in *slices {
                builder.slice(Slice { chunk, offset, length, index });
            }
        }
        builder.build().unwrap()
    }

    fn bytes_of(trajectory: &Trajectory) -> Vec<Vec<u8>> {
        trajectory.decode().unwrap().iter().map(|tensor| tensor.bytes().unwrap().to_vec()).collect()
    }

    fn row_bytes(trajectory: &Trajectory, known: Option<&RowLayout>) -> (Vec<Vec<u8>>, RowLayout) {
        let (row, layout) = trajectory.row(known).unwrap();
        let layout = layout.or(known.cloned()).unwrap();
        let columns = layout.columns().len();
        ((0..columns).map(|column| layout.column(&row, column).unwrap().to_vec()).collect(), layout)
    }

    #[test]
    fn rows_of_one_chunk_have_one_layout_at_any_offset() {
        for codec in [Codec::Raw, Codec::Snappy] {
            let chunk = chunk(1, &columns(), codec);
            let item = |first| {
                item(
                    std::slice::from_ref(&chunk),
                    &[&[(0, first, 1, 0)], &[(0, first + 1, 1, 0)], &[(0, first, 1, 1)], &[(0, first, 2, 2)]],
                )
            };
            let (first, second) = (item(0), item(1));
            let (bytes, layout) = row_bytes(&first, None);
            assert_eq!(bytes, bytes_of(&first));
            assert!(second.row(Some(&layout)).unwrap().1.is_none(), "the layout is known");
            assert_eq!(row_bytes(&second, Some(&layout)).0, bytes_of(&second));
            assert_eq!(layout.size_bytes(), 8 + 8 + 1 + 16);
        }
    }

    #[test]
    fn items_with_scattered_or_compressed_rows_are_packed() {
        let same = [Tensor::from_slice(&[0.0_f32; 60], [3, 20]).unwrap()];
        let apart = item(
            &[chunk(1, &columns(), Codec::Raw), chunk(2, &columns(), Codec::Raw)],
            &[&[(0, 2, 1, 0), (1, 0, 1, 0)], &[(1, 0, 1, 1)]],
        );
        let packed = item(&[chunk(1, &same, Codec::Zstd)], &[&[(0, 1, 1, 0)]]);
        for item in [apart, packed] {
            let (bytes, layout) = row_bytes(&item, None);
            assert_eq!(bytes, bytes_of(&item));
            assert!(item.row(Some(&layout)).unwrap().1.is_none());
        }
    }

    #[test]
    fn items_are_packed_only_if_little_must_be_decoded() {
        let column = |rows: u32| [Tensor::from_slice(&vec![1_u8; rows as usize * 512], [rows, 512]).unwrap()];
        let first_of = |rows, codec| item(&[chunk(1, &column(rows), codec)], &[&[(0, 0, 1, 0)]]);
        let most = u32::try_from(MAX_DECODED_BYTES / 512).unwrap();
        assert!(first_of(most, Codec::Zstd).row(None).is_some());
        assert!(first_of(most + 1, Codec::Zstd).row(None).is_none());
        // Of uncompressed tensors, only the item's rows are read.
        let two = [1, 2].map(|key| chunk(key, &columns_of(100 * most), Codec::Raw));
        let apart = item(&two, &[&[(0, 0, 1, 0), (1, 7, 1, 0)], &[(1, 9, 2, 1)]]);
        assert_eq!(row_bytes(&apart, None).0, bytes_of(&apart));
    }

    #[test]
    fn large_movable_or_invalid_items_have_no_row() {
        let of = |columns: &[Tensor], codec| item(&[chunk(1, columns, codec)], &[&[(0, 0, 1, 0)]]);
        let size = |bytes: usize| {
            [Tensor::from_slice(&vec![1_u8; bytes], [1, u32::try_from(bytes).unwrap()]).unwrap()]
        };
        assert!(of(&size(MAX_ROW_BYTES), Codec::Raw).row(None).is_some());
        assert!(of(&size(MAX_ROW_BYTES + 1), Codec::Raw).row(None).is_none());
        assert!(of(&size(MAX_PACKED_BYTES), Codec::Zstd).row(None).is_some());
        assert!(of(&size(MAX_PACKED_BYTES + 1), Codec::Zstd).row(None).is_none());
        let strings = [Tensor::from_strings(["a"], [1]).unwrap()];
        assert!(of(&strings, Codec::Raw).row(None).is_none());
        let mut parts = encode_chunk(
            1,
            SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false },
            &[Tensor::from_bools(&[true], [1]).unwrap()],
            false,
            Codec::Raw,
        )
        .unwrap();
        parts.frame = Arc::from([2].as_slice());
        assert!(item(&[Chunk::new(parts).unwrap()], &[&[(0, 0, 1, 0)]]).row(None).is_none());
        let movable =
            chunk(1, &size(MAX_ROW_BYTES), Codec::Raw).with_ledger(Arc::new(Ledger::of_movable_chunks()));
        assert!(movable.is_movable());
        let mut builder = TrajectoryBuilder::new();
        let number = builder.chunk(Arc::new(movable));
        builder.begin_column(false);
        builder.slice(Slice { chunk: number, offset: 0, length: 1, index: 0 });
        assert!(builder.build().unwrap().row(None).is_none());
    }

    proptest! {
        #[test]
        fn a_row_has_the_same_bytes_as_its_item(
            slices in prop::collection::vec((0..2_u32, 0..3_u32, 0..3_u32), 1..5),
            codec in prop::sample::select(vec![Codec::Raw, Codec::Snappy, Codec::Lz4]),
            of_one: bool,
        ) {
            let chunks = [chunk(1, &columns(), codec), chunk(2, &columns(), codec)];
            let columns: Vec<Vec<_>> =
                slices.iter().map(|&(chunk, first, index)| vec![(if of_one { 0 } else { chunk }, first, 3 - first, index)]).collect();
            let columns: Vec<&[_]> = columns.iter().map(Vec::as_slice).collect();
            let item = item(&chunks, &columns);
            let (bytes, layout) = row_bytes(&item, None);
            prop_assert_eq!(&bytes, &bytes_of(&item));
            let shapes: Vec<_> = item.decode().unwrap().iter().map(|tensor| tensor.shape().clone()).collect();
            prop_assert_eq!(layout.columns().map(ColumnLayout::sample_shape).collect::<Vec<_>>(), shapes);
        }
    }
}
