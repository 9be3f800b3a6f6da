//! Destinations of columns.

/// A column to decode, and its destination.
#[derive(Debug)]
pub(crate) struct Target<'o> {
    /// The number of the column.
    pub(crate) column: usize,
    /// The number of bytes in one row.
    pub(crate) row_bytes: usize,
    /// The number of rows for which each sample has room, or `None` if samples are concatenated, regardless of their
    /// numbers of rows.
    pub(crate) room: Option<usize>,
    /// The destination.
    pub(crate) out: &'o mut [u8],
}

impl<'o> Target<'o> {
    /// Reborrows the target.
    pub(crate) fn reborrow(&mut self) -> Target<'_> {
        Target { out: self.out, ..*self }
    }

    /// Splits off the place of the next sample, which has this many rows.
    pub(crate) fn next(&mut self, rows: u32) -> &'o mut [u8] {
        let bytes = self.room.unwrap_or(rows as usize).saturating_mul(self.row_bytes);
        let (place, rest) = std::mem::take(&mut self.out).split_at_mut_checked(bytes).unwrap_or_default();
        self.out = rest;
        place
    }

    /// Splits off the places of the next samples, which have these numbers of rows.
    pub(crate) fn split_off(&mut self, rows: impl Iterator<Item = u32>) -> Self {
        let rows: usize = rows.map(|rows| self.room.unwrap_or(rows as usize)).sum();
        let bytes = rows.saturating_mul(self.row_bytes);
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut_checked(bytes).unwrap_or_default();
        self.out = rest;
        Target { out, ..*self }
    }
}
