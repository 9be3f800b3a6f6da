//! The slices of chunks that form the columns of a received sample.

use std::ops::Range;

use crate::WireError;
use crate::limits::{MAX_COLUMNS_PER_ITEM, MAX_SLICES_PER_ITEM};
use crate::reader::{Fields, MalformedMessage, int32};

/// A `FlatTrajectory` as two flat lists. It can be reused, so that not every sample needs an allocation.
#[derive(Debug, Clone, Default)]
pub struct TrajectoryLayout {
    slices: Vec<ReceivedSlice<i32>>,
    /// For each column, the end of its slices, and whether it is squeezed.
    columns: Vec<(usize, bool)>,
}

/// One column of a [`TrajectoryLayout`].
#[derive(Debug, Clone, Copy)]
pub struct ReceivedColumn<'a> {
    /// The slices to be concatenated.
    pub slices: &'a [ReceivedSlice<i32>],
    /// Whether to drop the leading dimension.
    pub squeeze: bool,
}

/// Some rows of a tensor of a chunk. `N` is `i32` for the numbers as sent, and `u32` once their signs have been
/// checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceivedSlice<N> {
    /// The chunk.
    pub chunk_key: u64,
    /// The first row.
    pub offset: N,
    /// The number of rows.
    pub length: N,
    /// The index of the tensor in the chunk.
    pub index: N,
}

impl TrajectoryLayout {
    /// Iterates over the columns. An invalid description may have columns without slices.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = ReceivedColumn<'_>> {
        (0..self.columns.len()).map(|column| {
            let start = column.checked_sub(1).and_then(|before| self.columns.get(before)).map_or(0, |c| c.0);
            let (end, squeeze) = self.columns.get(column).copied().unwrap_or_default();
            ReceivedColumn { slices: self.slices.get(start..end).unwrap_or_default(), squeeze }
        })
    }

    pub(super) fn read(&mut self, item: u64, entry: &[u8], at: Range<usize>) -> Result<(), WireError> {
        self.slices.clear();
        self.columns.clear();
        let malformed = |error| WireError::malformed_sample(item, error);
        let mut fields = Fields::new(entry, at);
        while let Some(field) = fields.next().map_err(malformed)? {
            if field.number == 1 {
                let squeeze =
                    self.read_column(entry, field.bytes().map_err(malformed)?).map_err(malformed)?;
                self.columns.push((self.slices.len(), squeeze));
                self.check_counts(item)?;
            }
        }
        if self.slices.is_empty() { Err(WireError::NoTrajectory { item }) } else { Ok(()) }
    }

    /// Adds a column's slices. Returns whether it is squeezed.
    fn read_column(&mut self, entry: &[u8], range: Range<usize>) -> Result<bool, MalformedMessage> {
        let mut squeeze = false;
        let mut fields = Fields::new(entry, range);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => self.slices.push(ReceivedSlice::read(entry, field.bytes()?)?),
                2 => squeeze = field.varint()? != 0,
                _ => {}
            }
        }
        Ok(squeeze)
    }

    fn check_counts(&self, item: u64) -> Result<(), WireError> {
        let columns = ("columns", self.columns.len(), MAX_COLUMNS_PER_ITEM);
        let slices = ("chunk slices", self.slices.len(), MAX_SLICES_PER_ITEM);
        let over = [columns, slices].into_iter().find(|(_, count, limit)| count > limit);
        over.map_or(Ok(()), |(what, count, limit)| Err(WireError::TooMany { item, what, count, limit }))
    }
}

impl ReceivedSlice<i32> {
    fn read(entry: &[u8], range: Range<usize>) -> Result<Self, MalformedMessage> {
        let mut slice = Self::default();
        let mut fields = Fields::new(entry, range);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => slice.chunk_key = field.varint()?,
                2 => slice.offset = int32(field.varint()?),
                3 => slice.length = int32(field.varint()?),
                4 => slice.index = int32(field.varint()?),
                _ => {}
            }
        }
        Ok(slice)
    }

    /// Returns the slice, if none of its numbers is negative.
    ///
    /// # Errors
    /// [`WireError::NegativeSlice`] names the item, the column and the number.
    pub fn checked(&self, item: u64, column: usize) -> Result<ReceivedSlice<u32>, WireError> {
        let at_least_zero = |what, value: i32| {
            let negative = WireError::NegativeSlice { item, column, chunk: self.chunk_key, what, value };
            u32::try_from(value).map_err(|_| negative)
        };
        Ok(ReceivedSlice {
            chunk_key: self.chunk_key,
            offset: at_least_zero("offset", self.offset)?,
            length: at_least_zero("length", self.length)?,
            index: at_least_zero("index", self.index)?,
        })
    }
}
