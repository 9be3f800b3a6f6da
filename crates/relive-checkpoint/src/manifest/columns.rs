//! The items of a block, column by column.

use relive_table::StoredItem;

use crate::layout::{Cursor, Malformed, planes};

/// The columns of a block of items, with one number per item, or per chunk, column or slice of each item.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ItemColumns {
    pub(super) keys: Vec<u64>,
    pub(super) sequences: Vec<u64>,
    pub(super) times: Vec<u64>,
    /// As bit patterns.
    pub(super) priorities: Vec<u64>,
    /// As bit patterns.
    pub(super) times_sampled: Vec<u32>,
    pub(super) chunk_counts: Vec<u32>,
    pub(super) column_counts: Vec<u32>,
    /// The positions of the items' chunks in the checkpoint.
    pub(super) chunks: Vec<u32>,
    pub(super) slice_counts: Vec<u32>,
    pub(super) squeezed: Vec<u8>,
    pub(super) slice_chunks: Vec<u32>,
    pub(super) slice_offsets: Vec<u32>,
    pub(super) slice_lengths: Vec<u32>,
    pub(super) slice_indices: Vec<u32>,
}

impl ItemColumns {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The sequence numbers of the items.
    pub(crate) fn sequences(&self) -> &[u64] {
        &self.sequences
    }

    /// Returns the positions of the chunks of each item.
    pub(crate) fn chunks_by_item(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = self.chunks.as_slice();
        self.chunk_counts.iter().map(move |count| {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            let (taken, left) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = left;
            taken
        })
    }

    /// Returns the positions of all chunks to which the items refer.
    pub(crate) fn chunks(&self) -> &[u32] {
        &self.chunks
    }

    /// Returns the number of bytes in the content.
    pub(crate) fn size_bytes(&self) -> usize {
        let (items, columns) = (self.keys.len(), self.slice_counts.len());
        44 * items + 4 * self.chunks.len() + 5 * columns + 16 * self.slice_chunks.len()
    }

    /// Adds an item with the positions of its chunks.
    pub(crate) fn push(&mut self, item: &StoredItem, chunks: impl IntoIterator<Item = u32>) {
        let data = &item.data;
        self.keys.push(data.key);
        self.sequences.push(data.sequence);
        self.times.push(data.inserted_at.as_nanos().cast_unsigned());
        self.priorities.push(item.priority.to_bits());
        self.times_sampled.push(item.times_sampled.cast_unsigned());
        let before = self.chunks.len();
        self.chunks.extend(chunks);
        self.chunk_counts.push(count(self.chunks.len() - before));
        self.column_counts.push(count(data.trajectory.num_columns()));
        for column in data.trajectory.columns() {
            self.slice_counts.push(count(column.slices().len()));
            self.squeezed.push(column.squeeze().into());
            for slice in column.slices() {
                self.slice_chunks.push(slice.chunk);
                self.slice_offsets.push(slice.offset);
                self.slice_lengths.push(slice.length);
                self.slice_indices.push(slice.index);
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_bytes());
        planes::put_u64s(&mut out, &self.keys);
        planes::put_u64s(&mut out, &differences(&self.sequences, u64::wrapping_sub));
        planes::put_u64s(&mut out, &differences(&self.times, u64::wrapping_sub));
        planes::put_u64s(&mut out, &self.priorities);
        planes::put_u32s(&mut out, &self.times_sampled);
        planes::put_u32s(&mut out, &self.chunk_counts);
        planes::put_u32s(&mut out, &self.column_counts);
        planes::put_u32s(&mut out, &differences(&self.chunks, u32::wrapping_sub));
        planes::put_u32s(&mut out, &self.slice_counts);
        out.extend_from_slice(&self.squeezed);
        planes::put_u32s(&mut out, &self.slice_chunks);
        planes::put_u32s(&mut out, &self.slice_offsets);
        planes::put_u32s(&mut out, &self.slice_lengths);
        planes::put_u32s(&mut out, &self.slice_indices);
        out
    }

    pub(crate) fn decode(bytes: &[u8], items: u32) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let cursor = &mut cursor;
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        let keys = planes::take_u64s(cursor, items)?;
        let sequences = sums(planes::take_u64s(cursor, items)?, u64::wrapping_add);
        let times = sums(planes::take_u64s(cursor, items)?, u64::wrapping_add);
        let priorities = planes::take_u64s(cursor, items)?;
        let times_sampled = planes::take_u32s(cursor, items)?;
        let chunk_counts = planes::take_u32s(cursor, items)?;
        let column_counts = planes::take_u32s(cursor, items)?;
        let chunks = planes::take_u32s(cursor, total(&chunk_counts))?;
        let chunks = sums(chunks, u32::wrapping_add);
        let columns = total(&column_counts);
        let slice_counts = planes::take_u32s(cursor, columns)?;
        let squeezed = cursor.bytes(columns as u64)?.to_vec();
        let slices = total(&slice_counts);
        let slice_chunks = planes::take_u32s(cursor, slices)?;
        let slice_offsets = planes::take_u32s(cursor, slices)?;
        let slice_lengths = planes::take_u32s(cursor, slices)?;
        let slice_indices = planes::take_u32s(cursor, slices)?;
        cursor.finish()?;
        if let Some(code) = squeezed.iter().find(|flag| **flag > 1) {
            return Err(Malformed::Code { what: "whether a column is squeezed", code: (*code).into() });
        }
        Ok(Self {
            keys,
            sequences,
            times,
            priorities,
            times_sampled,
            chunk_counts,
            column_counts,
            chunks,
            slice_counts,
            squeezed,
            slice_chunks,
            slice_offsets,
            slice_lengths,
            slice_indices,
        })
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a trajectory has fewer than 2^32 chunks, columns and slices")
}

/// Returns the sum of the counts. The code that reads these numbers refuses impossible totals.
fn total(counts: &[u32]) -> usize {
    let sum = counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    usize::try_from(sum).unwrap_or(usize::MAX)
}

fn differences<T: Copy + Default>(numbers: &[T], minus: impl Fn(T, T) -> T) -> Vec<T> {
    let before = std::iter::once(T::default()).chain(numbers.iter().copied());
    numbers.iter().zip(before).map(|(number, before)| minus(*number, before)).collect()
}

fn sums<T: Copy + Default>(mut differences: Vec<T>, plus: impl Fn(T, T) -> T) -> Vec<T> {
    let mut sum = T::default();
    for number in &mut differences {
        sum = plus(sum, *number);
        *number = sum;
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> ItemColumns {
        ItemColumns {
            keys: vec![u64::MAX, 1],
            sequences: vec![7, 9],
            times: vec![5, 4],
            priorities: vec![f64::NAN.to_bits(), 0],
            times_sampled: vec![u32::MAX, 3],
            chunk_counts: vec![1, 2],
            column_counts: vec![0, 2],
            chunks: vec![3, 2, 4],
            slice_counts: vec![1, 0],
            squeezed: vec![1, 0],
            slice_chunks: vec![8],
            slice_offsets: vec![9],
            slice_lengths: vec![10],
            slice_indices: vec![11],
        }
    }

    #[test]
    fn item_columns_round_trip_and_truncation_is_detected() {
        let bytes = columns().encode();
        assert_eq!(bytes.len(), columns().size_bytes());
        assert_eq!(ItemColumns::decode(&bytes, 2), Ok(columns()));
        for end in 0..bytes.len() {
            assert!(ItemColumns::decode(&bytes[..end], 2).is_err(), "cut at {end}");
        }
        assert!(ItemColumns::decode(&bytes, 1).is_err());
        assert!(ItemColumns::decode(&[], u32::MAX).is_err());
    }
}
