//! Decoding the blocks of a plan into memory of the caller.
//!
//! The destination is cut into one piece per slice. Pieces of one block are worked on together: the block is decoded once, in
//! its place if one piece takes it whole, otherwise beside and copied from there. Large batches are split over threads.

use std::hint::black_box;

use relive_engine::batch::{Target, on_threads, threads_for};
use relive_tensor::{ChunkFault, EncodedTensor};

use super::plan::{Plan, PlannedSlice};
use crate::{Error, ErrorKind, Result, Sample};

/// Where a slice goes.
pub(super) struct Piece<'o> {
    slice: PlannedSlice,
    row_bytes: usize,
    out: &'o mut [u8],
}

/// Decodes columns into their places. Room beyond the rows of a sample is left as it is.
pub(super) fn gather(plan: &Plan, samples: &[Sample], targets: Vec<Target<'_>>) -> Result<()> {
    let total: usize = targets.iter().map(|target| target.out.len()).sum();
    let mut pieces = Vec::with_capacity(samples.len() * targets.len());
    for target in targets {
        cut(plan, target, samples.len(), &mut pieces);
    }
    if !pieces.is_sorted_by(|a, b| a.slice.block < b.slice.block) {
        pieces.sort_by_key(|piece| piece.slice.block);
    }
    let mut rest = pieces.as_mut_slice();
    let mut shares = Vec::new();
    for left in (2..=threads_for(total)).rev() {
        let (mine, others) = rest.split_at_mut(fair_share(rest, left));
        shares.push(mine);
        rest = others;
    }
    shares.push(rest);
    on_threads(shares, |pieces| run(plan, samples, pieces)).map_err(|fault| {
        let text = format!("a sample of table {:?} cannot be decoded: {fault}", table_of(samples));
        Error::with_source(ErrorKind::DataLoss, text, fault)
    })
}

/// Cuts a destination into pieces, one per slice.
fn cut<'o>(plan: &Plan, target: Target<'o>, samples: usize, pieces: &mut Vec<Piece<'o>>) {
    let Target { column, row_bytes, rows, out } = target;
    let sample_bytes = rows * row_bytes;
    let mut rest = out;
    for sample in 0..samples {
        let (mut room, after) = rest.split_at_mut_checked(sample_bytes).unwrap_or_default();
        rest = after;
        for slice in plan.part(sample, column).0 {
            let bytes = to_usize(slice.length) * row_bytes;
            let (out, after) = room.split_at_mut_checked(bytes).unwrap_or_default();
            room = after;
            pieces.push(Piece { slice: *slice, row_bytes, out });
        }
    }
}

/// How many pieces make one of `threads` equal shares of the bytes; pieces of one block stay together.
fn fair_share(pieces: &[Piece<'_>], threads: usize) -> usize {
    let share = pieces.iter().map(|piece| piece.out.len()).sum::<usize>() / threads;
    let mut bytes = 0;
    let mut groups = pieces.chunk_by(|a, b| a.slice.block == b.slice.block);
    let mut count = 0;
    while bytes < share {
        let Some(group) = groups.next() else { break };
        bytes += group.iter().map(|piece| piece.out.len()).sum::<usize>();
        count += group.len();
    }
    count
}

/// Decodes into pieces that are sorted by their blocks.
fn run(plan: &Plan, samples: &[Sample], mut pieces: &mut [Piece<'_>]) -> std::result::Result<(), ChunkFault> {
    let mut scratch = Vec::new();
    while !pieces.is_empty() {
        let (stage, rest) = pieces.split_at_mut(end_of_stage(pieces));
        touch(plan, samples, stage);
        for group in stage.chunk_by_mut(|a, b| a.slice.block == b.slice.block) {
            let block = group.first().map_or(0, |piece| piece.slice.block);
            decode(plan, samples, block, group, &mut scratch)?;
        }
        pieces = rest;
    }
    Ok(())
}

/// Pieces that are worked on side by side; those of one block stay together.
fn end_of_stage(pieces: &[Piece<'_>]) -> usize {
    let last = pieces.get(STAGE - 1).map(|piece| piece.slice.block);
    let further = pieces.iter().skip(STAGE).take_while(|piece| Some(piece.slice.block) == last).count();
    STAGE.min(pieces.len()) + further
}

/// Brings the payloads of some blocks near. They lie all over the memory, and their loads do not depend on each other: side by
/// side these waits are one wait.
fn touch(plan: &Plan, samples: &[Sample], pieces: &[Piece<'_>]) {
    for piece in pieces {
        let Some(tensor) = plan.tensor(samples, piece.slice.block) else { continue };
        let lines = tensor.payload.iter().step_by(LINE_BYTES).take(TOUCHED_LINES);
        black_box(lines.fold(0_u8, |seen, byte| seen ^ byte));
    }
}

/// Pieces in a stage: enough to keep a processor's memory requests busy.
const STAGE: usize = 16;

/// Bytes that memory is fetched in.
const LINE_BYTES: usize = 64;

/// Lines of a payload that are fetched ahead; of larger ones the processor fetches the rest by itself.
const TOUCHED_LINES: usize = 8;

/// Decodes one block into all pieces that need it.
fn decode(
    plan: &Plan,
    samples: &[Sample],
    block: usize,
    pieces: &mut [Piece<'_>],
    scratch: &mut Vec<u8>,
) -> std::result::Result<(), ChunkFault> {
    let Some(tensor) = plan.tensor(samples, block) else { return Ok(()) };
    if let [piece] = pieces
        && tensor.shape.rows() == Some(piece.slice.length)
    {
        return tensor.decode_into(piece.out);
    }
    if copy_plain(&tensor, pieces)? {
        return Ok(());
    }
    let size = tensor.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    if scratch.len() < size {
        scratch.resize(size, 0);
    }
    let scratch = scratch.get_mut(..size).unwrap_or_default();
    tensor.decode_into(scratch)?;
    for piece in pieces {
        let start = to_usize(piece.slice.offset) * piece.row_bytes;
        let rows = scratch.get(start..start + piece.out.len());
        piece.out.copy_from_slice(rows.unwrap_or_else(|| unreachable_rows(piece)));
    }
    Ok(())
}

/// Copies pieces of a block that is stored as it is; whether it is.
fn copy_plain(tensor: &EncodedTensor<'_>, pieces: &mut [Piece<'_>]) -> std::result::Result<bool, ChunkFault> {
    for piece in pieces {
        match tensor.copy_plain_rows(piece.slice.offset, piece.out) {
            Some(copied) => copied?,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The planner lets no slice leave its block.
fn unreachable_rows(piece: &Piece<'_>) -> ! {
    unreachable!("rows {} + {} lie in their block", piece.slice.offset, piece.slice.length)
}

fn table_of(samples: &[Sample]) -> &str {
    samples.first().map_or("", Sample::table)
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
