//! Decoding columns into memory of the caller.
//!
//! The destination is cut into one place per piece. A piece that is a whole tensor, or rows that are stored as they are, goes straight to its
//! place; other tensors are decoded once for all pieces that need rows of them. Large batches are split over threads.

use bytes::Bytes;
use relive_tensor::ChunkFault;

use super::part::{Part, STAGE, Stage, decode};
use super::piece::Piece;
use super::target::Target;
use super::threads::{on_threads, threads_for};
use super::{Batch, BatchColumn, BatchError};

/// A piece, and where it goes.
struct Placed<'o> {
    piece: Piece,
    row_bytes: usize,
    out: &'o mut [u8],
}

impl Batch {
    /// Decodes columns, each into its destination as `[samples, rows, ..cell]`, little endian; samples that have other
    /// numbers of rows lie one behind the other all the same.
    ///
    /// # Errors
    /// [`BatchError::Destination`] for another size, also for columns of strings, which have no fixed one;
    /// [`BatchError::Damaged`] for data that cannot be decoded: what the destinations then hold is unspecified.
    pub fn gather_into<'o>(
        &self,
        targets: impl IntoIterator<Item = (usize, &'o mut [u8])>,
    ) -> Result<(), BatchError> {
        let targets = targets.into_iter().map(|(column, out)| self.target(column, None, out));
        self.gather(targets.collect::<Result<_, _>>()?)
    }

    /// As [`gather_into`](Self::gather_into), but each sample has room for `rows` rows, at least as many as the longest has. Room beyond the
    /// rows of a sample is left as it is.
    ///
    /// # Errors
    /// As [`gather_into`](Self::gather_into).
    pub fn gather_padded_into(&self, column: usize, rows: u32, out: &mut [u8]) -> Result<(), BatchError> {
        self.gather(vec![self.target(column, Some(rows), out)?])
    }

    fn gather(&self, targets: Vec<Target<'_>>) -> Result<(), BatchError> {
        // More room than rows is for pieces.
        let is_even =
            |target: &Target<'_>| target.room.is_none_or(|room| room == self.rows_of(target.column));
        if self.is_uniform && targets.iter().all(is_even) {
            return self.gather_uniform(targets).map_err(BatchError::Damaged);
        }
        let (mut direct, mut parts, mut total) = (Vec::with_capacity(self.samples.len()), Vec::new(), 0);
        for target in targets {
            total += target.out.len();
            if self.is_uniform {
                cut(&self.uniform_pieces(target.column), target, &mut direct, &mut parts);
            } else {
                let pieces = self.pieces.get(target.column).map_or(&[][..], Vec::as_slice);
                cut(pieces, target, &mut direct, &mut parts);
            }
        }
        parts.sort_by_cached_key(|placed: &Placed<'_>| placed.piece.identity(&self.samples));
        self.split(&mut direct, &mut parts, threads_for(total)).map_err(BatchError::Damaged)
    }

    /// The strings of a column, sample by sample; none of other columns.
    ///
    /// # Errors
    /// [`BatchError::Damaged`] for data that cannot be decoded.
    pub fn strings(&self, column: usize) -> Result<Vec<Bytes>, BatchError> {
        let mut strings = Vec::new();
        let Some((content, pieces)) = self.columns().get(column).zip(self.pieces.get(column)) else {
            return Ok(strings);
        };
        let cells = content.layout.cell_shape.num_elements().and_then(|count| usize::try_from(count).ok());
        let cells = cells.unwrap_or(0);
        for piece in pieces {
            let Some(tensor) = piece.tensor(&self.samples) else { continue };
            let all = tensor.decode_strings().map_err(BatchError::Damaged)?;
            let start = (piece.offset as usize).saturating_mul(cells);
            let end = start.saturating_add((piece.rows as usize).saturating_mul(cells));
            strings.extend_from_slice(all.get(start..end).unwrap_or_default());
        }
        Ok(strings)
    }

    /// A place that has the size of its column.
    fn target<'o>(
        &self,
        column: usize,
        room: Option<u32>,
        out: &'o mut [u8],
    ) -> Result<Target<'o>, BatchError> {
        let content = self.columns().get(column);
        let size = |content: &BatchColumn| match room {
            Some(rows) => {
                content.layout.cell_bytes()?.checked_mul(rows as usize)?.checked_mul(self.samples.len())
            }
            None => content.size_bytes(self.samples.len()),
        };
        let expected = content.and_then(size).unwrap_or(0);
        if expected != out.len() {
            return Err(BatchError::Destination { column, expected, got: out.len() });
        }
        let row_bytes = content.and_then(|content| content.layout.cell_bytes()).unwrap_or(0);
        Ok(Target { column, row_bytes, room: room.map(|rows| rows as usize), out })
    }

    /// Decodes on so many threads; pieces of one tensor stay together.
    fn split(
        &self,
        direct: &mut [Placed<'_>],
        parts: &mut [Placed<'_>],
        threads: usize,
    ) -> Result<(), ChunkFault> {
        let (mut direct, mut parts, mut shares) = (direct, parts, Vec::with_capacity(threads));
        for left in (2..=threads).rev() {
            let (mine, others) = direct.split_at_mut(direct.len() / left);
            let (my_parts, other_parts) = parts.split_at_mut(self.share_of(parts, left));
            shares.push((mine, my_parts));
            (direct, parts) = (others, other_parts);
        }
        shares.push((direct, parts));
        on_threads(shares, |(direct, parts)| {
            self.decode_direct(direct).and_then(|()| self.decode_parts(parts))
        })
    }

    /// Number of the first pieces that make a share for one of `threads`.
    fn share_of(&self, parts: &[Placed<'_>], threads: usize) -> usize {
        let at = parts.len() / threads;
        let Some(last) = at.checked_sub(1).and_then(|last| parts.get(last)) else { return 0 };
        let identity = last.piece.identity(&self.samples);
        let further = parts.iter().skip(at).take_while(|next| next.piece.identity(&self.samples) == identity);
        at + further.count()
    }

    fn decode_direct(&self, placed: &mut [Placed<'_>]) -> Result<(), ChunkFault> {
        for stage in placed.chunks_mut(STAGE) {
            // Each piece has one, or it would not have been planned.
            let parts: Stage<Part<'_>> =
                stage.iter().filter_map(|placed| placed.piece.part(&self.samples)).collect();
            decode(&parts, stage.iter_mut().map(|placed| &mut *placed.out))?;
        }
        Ok(())
    }

    fn decode_parts(&self, parts: &mut [Placed<'_>]) -> Result<(), ChunkFault> {
        let mut scratch = Vec::new();
        let is_same = |a: &Placed<'_>, b: &Placed<'_>| {
            a.piece.identity(&self.samples) == b.piece.identity(&self.samples)
        };
        for group in parts.chunk_by_mut(is_same) {
            let Some(tensor) = group.first().and_then(|first| first.piece.tensor(&self.samples)) else {
                continue;
            };
            let size = tensor.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
            if scratch.len() < size {
                scratch.resize(size, 0);
            }
            let scratch = scratch.get_mut(..size).unwrap_or_default();
            tensor.decode_into(scratch)?;
            for Placed { piece, row_bytes, out } in group {
                let start = (piece.offset as usize).saturating_mul(*row_bytes);
                if let Some(rows) = scratch.get(start..start.saturating_add(out.len())) {
                    out.copy_from_slice(rows);
                }
            }
        }
        Ok(())
    }
}

/// Cuts a destination into places, one per piece.
fn cut<'o>(pieces: &[Piece], target: Target<'o>, direct: &mut Vec<Placed<'o>>, parts: &mut Vec<Placed<'o>>) {
    let Target { row_bytes, room, out: mut rest, .. } = target;
    for pieces in pieces.chunk_by(|a, b| a.sample == b.sample) {
        let rows: usize = pieces.iter().map(|piece| piece.rows as usize).sum();
        let bytes = room.unwrap_or(rows).saturating_mul(row_bytes);
        let (mut place, after) = std::mem::take(&mut rest).split_at_mut_checked(bytes).unwrap_or_default();
        rest = after;
        for &piece in pieces {
            let bytes = (piece.rows as usize).saturating_mul(row_bytes);
            let (out, after) = place.split_at_mut_checked(bytes).unwrap_or_default();
            place = after;
            let placed = Placed { piece, row_bytes, out };
            if piece.is_direct { direct.push(placed) } else { parts.push(placed) }
        }
    }
}
