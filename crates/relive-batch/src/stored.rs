//! Columns that need not be decoded: their rows can be sent from where they are stored.

use relive_tensor::EncodedTensor;

use super::Batch;
use super::part::Part;
use super::piece::Piece;

/// The rows of a column of a batch, where they are stored.
#[derive(Debug)]
pub struct StoredColumn<'a>(Vec<PlainRows<'a>>);

#[derive(Debug)]
struct PlainRows<'a> {
    tensor: EncodedTensor<'a>,
    first: u32,
    rows: u32,
}

impl StoredColumn<'_> {
    /// The bytes in the order of the samples: together what [`Batch::gather_into`] would write.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(PlainRows::bytes)
    }
}

impl<'a> PlainRows<'a> {
    /// So many rows of a tensor from number `first` on, if they can be sent as they are and have at least `min_bytes`.
    fn of(tensor: EncodedTensor<'a>, first: u32, rows: u32, min_bytes: usize) -> Option<Self> {
        let plain = Self { tensor, first, rows };
        (plain.bytes()?.len() >= min_bytes).then_some(plain)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.tensor.plain_rows(self.first, self.rows)
    }
}

impl Batch {
    /// The rows of a column where they are stored, if they are stored as they are, in parts of at least `min_part` bytes.
    #[must_use]
    pub fn stored_column(&self, column: usize, min_part: usize) -> Option<StoredColumn<'_>> {
        let parts: Option<Vec<_>> = match self.is_uniform {
            true => {
                let parts = self.samples.iter().map(|sample| Part::of(sample, column));
                let plain = |Part { tensor, first, rows }| PlainRows::of(tensor, first, rows, min_part);
                parts.map(|part| plain(part?)).collect()
            }
            false => {
                let pieces = self.pieces.get(column)?.iter();
                let part = |piece: &Piece| {
                    PlainRows::of(piece.tensor(&self.samples)?, piece.offset, piece.rows, min_part)
                };
                pieces.map(part).collect()
            }
        };
        parts.map(StoredColumn)
    }
}
