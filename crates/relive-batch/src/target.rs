//! Where columns go.

/// A column to be decoded, and where it goes.
#[derive(Debug)]
pub(crate) struct Target<'o> {
    /// Number of the column.
    pub(crate) column: usize,
    /// Bytes of one row.
    pub(crate) row_bytes: usize,
    /// Rows that each sample has room for; none if samples lie one behind the other, however many rows each has.
    pub(crate) room: Option<usize>,
    /// The place.
    pub(crate) out: &'o mut [u8],
}

impl Target<'_> {
    /// Takes the part of the first `samples` samples off, of a place where each has room for `rows`.
    pub(crate) fn split_off(&mut self, samples: usize, rows: usize) -> Self {
        let bytes = self.row_bytes * rows * samples;
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut_checked(bytes).unwrap_or_default();
        self.out = rest;
        Target { out, ..*self }
    }
}
