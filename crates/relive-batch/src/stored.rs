//! Columns that need no decoding: their rows can be sent from where they are stored.

use relive_tensor::EncodedTensor;

use super::Batch;
use super::kind::Piece;
use super::part::Part;

/// The rows of a column of a batch, in place.
#[derive(Debug)]
pub struct StoredColumn<'a>(Vec<PlainRows<'a>>);

#[derive(Debug)]
struct PlainRows<'a> {
    tensor: EncodedTensor<'a>,
    first: u32,
    rows: u32,
}

impl StoredColumn<'_> {
    /// Returns the bytes in the order of the samples. Concatenated, they equal the output of [`Batch::gather_into`].
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(PlainRows::bytes)
    }
}

impl<'a> PlainRows<'a> {
    /// Returns `rows` rows of a tensor, starting with row `first`, if they can be sent verbatim and have at least
    /// `min_bytes`.
    fn of(tensor: EncodedTensor<'a>, first: u32, rows: u32, min_bytes: usize) -> Option<Self> {
        let plain = Self { tensor, first, rows };
        (plain.bytes()?.len() >= min_bytes).then_some(plain)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.tensor.plain_rows(self.first, self.rows)
    }
}

impl Batch {
    /// Returns the rows of a column in place, if they are stored verbatim in parts of at least `min_part` bytes.
    #[must_use]
    pub fn stored_column(&self, column: usize, min_part: usize) -> Option<StoredColumn<'_>> {
        if column >= self.columns().len() {
            return None;
        }
        let plain = |(sample, piece): (_, &Piece)| {
            let Part { tensor, first, rows } = piece.part(sample)?;
            PlainRows::of(tensor, first, rows, min_part)
        };
        let parts: Option<Vec<_>> = self.pieces(column).map(plain).collect();
        parts.map(StoredColumn)
    }
}
