//! Decodes columns into the caller's memory.
//!
//! Pieces that are whole tensors or rows stored verbatim are written directly to their destinations, column by column.
//! Other tensors are decoded once for all pieces that need their rows. Large batches are divided among threads.

use std::ops::Range;

use bytes::Bytes;
use relive_table::Sampled;
use relive_tensor::ChunkFault;

use super::kind::Piece;
use super::part::Staged;
use super::target::Target;
use super::threads::{on_threads, threads_for};
use super::{Batch, BatchColumn, BatchError};

/// A piece of a tensor that is decoded for several pieces, and its destination.
struct PieceDestination<'s, 'o> {
    sample: &'s Sampled,
    piece: Piece,
    row_bytes: usize,
    out: &'o mut [u8],
}

impl PieceDestination<'_, '_> {
    fn identity(&self) -> (usize, u32) {
        self.piece.identity(self.sample)
    }
}

impl Batch {
    /// Decodes columns, each to its destination as `[samples, rows, ..cell]`, little-endian. Samples with different
    /// numbers of rows are concatenated.
    ///
    /// # Errors
    /// [`BatchError::Destination`] if a size differs, and for columns of strings, which have no fixed size;
    /// [`BatchError::Damaged`] for data that cannot be decoded. The contents of the destinations are then unspecified.
    pub fn gather_into<'o>(
        &self,
        targets: impl IntoIterator<Item = (usize, &'o mut [u8])>,
    ) -> Result<(), BatchError> {
        let targets = targets.into_iter().map(|(column, out)| self.target(column, None, out));
        self.gather(targets.collect::<Result<_, _>>()?)
    }

    /// Like [`gather_into`](Self::gather_into), but each sample has room for `rows` rows, which must be at least the
    /// number of rows of the longest sample. The room beyond a sample's rows is left unchanged.
    ///
    /// # Errors
    /// The errors of [`gather_into`](Self::gather_into).
    pub fn gather_padded_into(&self, column: usize, rows: u32, out: &mut [u8]) -> Result<(), BatchError> {
        self.gather(vec![self.target(column, Some(rows), out)?])
    }

    fn gather(&self, mut targets: Vec<Target<'_>>) -> Result<(), BatchError> {
        let threads = threads_for(targets.iter().map(|target| target.out.len()).sum());
        let pieces =
            || self.kinds.iter().flat_map(|kind| targets.iter().flat_map(|of| kind.pieces(of.column)));
        let (any_direct, any_decoded) =
            (pieces().any(|piece| piece.is_direct), pieces().any(|piece| !piece.is_direct));
        if any_direct {
            let again = targets.iter_mut().map(Target::reborrow).collect();
            on_threads(self.shares(again, threads), |(samples, targets)| self.copy(samples, targets))
                .map_err(BatchError::Damaged)?;
        }
        if any_decoded {
            let mut parts: Vec<PieceDestination<'_, '_>> =
                targets.into_iter().flat_map(|target| self.decoded(target)).collect();
            parts.sort_by_cached_key(PieceDestination::identity);
            on_threads(in_groups(&mut parts, threads), decode_groups).map_err(BatchError::Damaged)?;
        }
        Ok(())
    }

    /// Divides the samples into shares, each with its part of the targets.
    fn shares<'o>(
        &self,
        mut targets: Vec<Target<'o>>,
        threads: usize,
    ) -> Vec<(Range<usize>, Vec<Target<'o>>)> {
        let (mut start, mut shares) = (0, Vec::with_capacity(threads));
        for left in (2..=threads).rev() {
            let samples = start..start + (self.samples.len() - start) / left;
            let part = |target: &mut Target<'o>| {
                let column = target.column;
                target.split_off(samples.clone().map(|sample| self.rows(sample, column)))
            };
            shares.push((samples.clone(), targets.iter_mut().map(part).collect()));
            start = samples.end;
        }
        shares.push((start..self.samples.len(), targets));
        shares
    }

    fn rows(&self, sample: usize, column: usize) -> u32 {
        self.kind(sample).map_or(0, |kind| kind.rows(column))
    }

    /// Copies or decodes the pieces of some samples that only need their own rows.
    fn copy(&self, samples: Range<usize>, mut targets: Vec<Target<'_>>) -> Result<(), ChunkFault> {
        let mut stage = Staged::default();
        for target in &mut targets {
            for number in samples.clone() {
                let Some((sample, kind)) = self.samples.get(number).zip(self.kind(number)) else { continue };
                let mut place = target.next(kind.rows(target.column));
                for piece in kind.pieces(target.column) {
                    let bytes = (piece.rows as usize).saturating_mul(target.row_bytes);
                    let (out, after) = place.split_at_mut_checked(bytes).unwrap_or_default();
                    place = after;
                    if !piece.is_direct {
                        continue;
                    }
                    if let Some(rows) = piece.in_place(sample, target.row_bytes) {
                        stage.copy(rows, out);
                    } else if let Some(part) = piece.part(sample) {
                        // Each planned piece has a part.
                        stage.decode(part, out)?;
                    }
                }
            }
        }
        stage.end()
    }

    /// Returns the pieces of a column for which more than their own rows must be decoded.
    fn decoded<'s, 'o>(&'s self, mut target: Target<'o>) -> Vec<PieceDestination<'s, 'o>> {
        let mut placed = Vec::new();
        for (number, sample) in self.samples.iter().enumerate() {
            let Some(kind) = self.kind(number) else { continue };
            let mut place = target.next(kind.rows(target.column));
            for &piece in kind.pieces(target.column) {
                let bytes = (piece.rows as usize).saturating_mul(target.row_bytes);
                let (out, after) = place.split_at_mut_checked(bytes).unwrap_or_default();
                place = after;
                if !piece.is_direct {
                    placed.push(PieceDestination { sample, piece, row_bytes: target.row_bytes, out });
                }
            }
        }
        placed
    }

    /// Returns the strings of a column, sample by sample, or nothing for other columns.
    ///
    /// # Errors
    /// [`BatchError::Damaged`] for data that cannot be decoded.
    pub fn strings(&self, column: usize) -> Result<Vec<Bytes>, BatchError> {
        let mut strings = Vec::new();
        let Some(content) = self.columns().get(column) else { return Ok(strings) };
        let cells = content.layout.cell_shape.num_elements().and_then(|count| usize::try_from(count).ok());
        let cells = cells.unwrap_or(0);
        for (sample, piece) in self.pieces(column) {
            let Some(part) = piece.part(sample) else { continue };
            let all = part.tensor.decode_strings().map_err(BatchError::Damaged)?;
            let start = (part.first as usize).saturating_mul(cells);
            let end = start.saturating_add((part.rows as usize).saturating_mul(cells));
            strings.extend_from_slice(all.get(start..end).unwrap_or_default());
        }
        Ok(strings)
    }

    /// Returns a destination that has the size of its column.
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
}

/// Divides pieces into shares, and keeps the pieces of each tensor together.
fn in_groups<'p, 's, 'o>(
    parts: &'p mut [PieceDestination<'s, 'o>],
    threads: usize,
) -> Vec<&'p mut [PieceDestination<'s, 'o>]> {
    let (mut parts, mut shares) = (parts, Vec::with_capacity(threads));
    for left in (2..=threads).rev() {
        let at = parts.len() / left;
        let last = at.checked_sub(1).and_then(|last| parts.get(last)).map(PieceDestination::identity);
        let further = parts.iter().skip(at).take_while(|next| Some(next.identity()) == last).count();
        let (mine, others) = parts.split_at_mut(at + further);
        shares.push(mine);
        parts = others;
    }
    shares.push(parts);
    shares
}

fn decode_groups(parts: &mut [PieceDestination<'_, '_>]) -> Result<(), ChunkFault> {
    let mut scratch = Vec::new();
    for group in parts.chunk_by_mut(|a, b| a.identity() == b.identity()) {
        let Some(part) = group.first().and_then(|first| first.piece.part(first.sample)) else { continue };
        let size = part.tensor.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let scratch = scratch.get_mut(..size).unwrap_or_default();
        part.tensor.decode_into(scratch)?;
        for PieceDestination { sample, piece, row_bytes, out } in group {
            let first = piece.part(sample).map_or(0, |part| part.first as usize);
            let start = first.saturating_mul(*row_bytes);
            if let Some(rows) = scratch.get(start..start.saturating_add(out.len())) {
                out.copy_from_slice(rows);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_table::{ItemData, Timestamp};
    use relive_tensor::{
        Chunk, ChunkParts, Codec, ColumnHeader, DType, ResidenceGuard, SequenceRange, Shape, Slice,
        TrajectoryBuilder,
    };

    use super::*;

    /// Returns rows of a chunk whose payload has the length of a single literal but is not one: it consists of three
    /// literals, and a copy of their contents.
    fn seemingly_plain(first: u32, rows: u32) -> Sampled {
        let payload: [u8; 10] = [8, 1 << 2, 1, 2, 0, 3, 0, 4, 0b001, 4];
        let (dtype, codec, shape) = (DType::UInt8, Codec::Snappy, Shape::from([8]));
        let parts = ChunkParts {
            key: 1,
            range: SequenceRange { episode_id: 1, start: 0, end: 7, sparse: false },
            columns: std::iter::once(ColumnHeader { dtype, codec, shape, span: 0..10 }).collect(),
            delta_encoded: false,
            frame: Arc::new(payload),
            verbatim: false,
        };
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(Arc::new(Chunk::new(parts).unwrap()));
        builder.begin_column(false);
        builder.slice(Slice { chunk, offset: first, length: rows, index: 0 });
        let trajectory = builder.build().unwrap();
        Sampled {
            item: Arc::new(ItemData { trajectory, key: 1, sequence: 0, inserted_at: Timestamp::EPOCH }),
            priority: 1.0,
            probability: 1.0,
            table_size: 1,
            times_sampled: 1,
            rate_limited: false,
            residence_guard: ResidenceGuard::default(),
        }
    }

    #[test]
    fn rows_that_only_look_uncompressed_are_gathered_correctly() {
        let samples: Vec<Sampled> = (0..6).map(|first| seemingly_plain(first, 3)).collect();
        let batch = Batch::new(samples).unwrap();
        assert_eq!(batch.kinds.len(), 1, "they differ in their first row");
        let (sample, piece) = batch.pieces(0).next().unwrap();
        assert!(piece.is_direct && piece.part(sample).unwrap().tensor.plain_rows(0, 8).is_none());
        let mut out = vec![0; 18];
        batch.gather_into([(0, out.as_mut_slice())]).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 1, 2, 3, 4].windows(3).collect::<Vec<_>>().concat());
    }
}
