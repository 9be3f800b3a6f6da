//! Where columns go.

/// A column to be decoded: its number, the bytes of one of its rows, the rows that each sample has room for, and where it
/// goes.
#[derive(Debug)]
pub struct Target<'o> {
    /// Number of the column.
    pub column: usize,
    /// Bytes of one row.
    pub row_bytes: usize,
    /// Rows that each sample has room for.
    pub rows: usize,
    /// The place.
    pub out: &'o mut [u8],
}

impl Target<'_> {
    /// Takes the part of the first `samples` samples off.
    #[must_use]
    pub fn split_off(&mut self, samples: usize) -> Self {
        let bytes = self.row_bytes * self.rows * samples;
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut_checked(bytes).unwrap_or_default();
        self.out = rest;
        Target { out, ..*self }
    }
}
