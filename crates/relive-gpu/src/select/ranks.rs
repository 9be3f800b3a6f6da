//! Selection by several ranks, each with some of the indices. The result is exactly the same as for one rank with all
//! indices.
//!
//! Ranks exchange [`Summary`]s: their masses, and for selections of distinct indices, their own best candidates. All
//! ranks then compute the same numbers, so that each knows the draws in its own part of the mass. The draws there are
//! its [`Part`]; [`merge`] combines the parts.

use std::ops::Range;

use super::draws::Draw;
use super::pool::{Rank, RankTotals};
use super::smallest::Candidate;
use super::weights::WeightsConfig;
use crate::bytes::{Cursor, put, wide};
use crate::{Error, ErrorKind, Result};

const SUMMARY: [u8; 8] = *b"RLSUMM01";
const PART: [u8; 8] = *b"RLPART01";

/// The parameters of a selection on which all ranks must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectionRequest {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) selection: u64,
    pub(crate) count: u64,
    /// The exponents of the grid and of the weights, as bits.
    pub(crate) grid: u64,
    pub(crate) total_capacity: u64,
}

impl SelectionRequest {
    const NAMES: [&'static str; 6] = [
        "the seed",
        "the step",
        "the kind of selection",
        "the number of indices to select",
        "the grid or the exponent of the weights",
        "the number of all indices",
    ];

    fn numbers(&self) -> [u64; 6] {
        [self.seed, self.step, self.selection, self.count, self.grid, self.total_capacity]
    }

    fn read(from: &mut Cursor<'_>) -> Result<Self> {
        let [seed, step, selection, count, grid, total_capacity] = from.words()?;
        Ok(Self { seed, step, selection, count, grid, total_capacity })
    }

    /// An error that names the first difference.
    pub(crate) fn agree(&self, other: &Self, who: usize) -> Result<()> {
        let pairs = self.numbers().into_iter().zip(other.numbers()).zip(Self::NAMES);
        for ((own, others), name) in pairs {
            if own != others {
                return Err(Error::invalid(format!(
                    "rank {who} has {others} as {name}, but this rank has {own}; all ranks must make the same selections in the same order"
                )));
            }
        }
        Ok(())
    }
}

pub(crate) fn grid_code(rank: &dyn Rank) -> u64 {
    let exponent = u64::from(rank.config().exponent.to_bits());
    u64::from(rank.grid().exponent().cast_unsigned()) << 32 | exponent
}

/// A rank's message to the others before a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub(crate) request: SelectionRequest,
    pub(crate) indices: Range<u64>,
    pub(crate) units: u64,
    pub(crate) selectable: u64,
    pub(crate) candidates: Vec<Candidate>,
}

impl Summary {
    pub(crate) fn new(
        request: SelectionRequest,
        rank: &dyn Rank,
        candidates: Vec<Candidate>,
    ) -> Result<Self> {
        let WeightsConfig { first, capacity, .. } = *rank.config();
        let RankTotals { units, selectable } = rank.whole()?;
        Ok(Self { request, indices: first..first + capacity, units, selectable, candidates })
    }

    /// Returns whether this summary describes the rank's current weights.
    pub(crate) fn is_of(&self, rank: &dyn Rank) -> Result<bool> {
        let now = Self::new(self.request, rank, Vec::new())?;
        Ok((&self.indices, self.units, self.selectable) == (&now.indices, now.units, now.selectable))
    }

    /// Returns the bytes to gather on all ranks: 96 bytes, plus 24 for each candidate of selections without
    /// replacement.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = SUMMARY.to_vec();
        put(&mut out, self.request.numbers());
        put(&mut out, [self.indices.start, self.indices.end, self.units, self.selectable]);
        put(&mut out, [wide(self.candidates.len())]);
        put(&mut out, self.candidates.iter().flat_map(|found| [found.key, found.index, found.units]));
        out
    }

    /// Decodes a summary.
    ///
    /// # Errors
    /// The bytes are not a summary.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Cursor::new(bytes, "a summary of a rank");
        from.expect_magic(SUMMARY)?;
        let request = SelectionRequest::read(&mut from)?;
        let [start, end, units, selectable] = from.words()?;
        let candidates = (0..from.count(24)?)
            .map(|_| from.words().map(|[key, index, units]| Candidate { key, index, units }))
            .collect::<Result<_>>()?;
        from.finish("its last candidate")?;
        Ok(Self { request, indices: start..end, units, selectable, candidates })
    }
}

/// Checks that the summaries belong to one selection, and that their ranks cover the index space in order, without
/// gaps.
pub(crate) fn whole(summaries: &[Summary], request: &SelectionRequest) -> Result<RankTotals> {
    let mut end = 0;
    let mut whole = RankTotals { units: 0, selectable: 0 };
    let too_much = || Error::invalid("the masses of all ranks do not fit in 64 bits: a summary is wrong");
    for (rank, summary) in summaries.iter().enumerate() {
        request.agree(&summary.request, rank)?;
        if summary.indices.start != end || summary.indices.is_empty() {
            return Err(Error::invalid(format!(
                "rank {rank} owns the indices {:?}, but the ranks before it own {end}; summaries must be in \
                 the order of ranks, without gaps",
                summary.indices
            )));
        }
        end = summary.indices.end;
        whole.units = whole.units.checked_add(summary.units).ok_or_else(too_much)?;
        whole.selectable = whole.selectable.checked_add(summary.selectable).ok_or_else(too_much)?;
    }
    if end != request.total_capacity {
        return Err(Error::invalid(format!(
            "the ranks own {end} of {} indices: a summary is missing",
            request.total_capacity
        )));
    }
    Ok(whole)
}

/// One rank's contribution to a selection: the draws of its own indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(crate) request: SelectionRequest,
    pub(crate) whole: RankTotals,
    pub(crate) draws: Vec<Draw>,
}

impl Part {
    /// Returns the positions in the result, and the global indices there.
    pub fn draws(&self) -> impl Iterator<Item = (u64, u64)> {
        self.draws.iter().map(|draw| (draw.position, draw.index))
    }

    /// Returns the bytes to gather on each rank that needs the whole list: 80 bytes, plus 24 for each draw.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = PART.to_vec();
        put(&mut out, self.request.numbers());
        put(&mut out, [self.whole.units, self.whole.selectable, wide(self.draws.len())]);
        put(&mut out, self.draws.iter().flat_map(|draw| [draw.position, draw.index, draw.units]));
        out
    }

    /// Decodes a part.
    ///
    /// # Errors
    /// The bytes are not a part.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Cursor::new(bytes, "a part of a selection");
        from.expect_magic(PART)?;
        let request = SelectionRequest::read(&mut from)?;
        let [units, selectable] = from.words()?;
        let draws = (0..from.count(24)?)
            .map(|_| from.words().map(|[position, index, units]| Draw { position, index, units }))
            .collect::<Result<_>>()?;
        from.finish("its last draw")?;
        Ok(Self { request, whole: RankTotals { units, selectable }, draws })
    }
}

/// Returns all draws of all ranks, in order of position.
pub(crate) fn assemble(parts: &[Part]) -> Result<(SelectionRequest, RankTotals, Vec<Draw>)> {
    let Some(first) = parts.first() else {
        return Err(Error::invalid("there are no parts; every rank must contribute one"));
    };
    for (rank, part) in parts.iter().enumerate() {
        first.request.agree(&part.request, rank)?;
        if part.whole != first.whole {
            return Err(Error::invalid(format!("rank {rank} had different summaries than rank 0")));
        }
    }
    let mut draws: Vec<Draw> = parts.iter().flat_map(|part| &part.draws).copied().collect();
    if parts.len() > 1 {
        draws.sort_unstable_by_key(|draw| draw.position);
    }
    let complete = draws.len() as u64 == first.request.count
        && draws.iter().zip(0..).all(|(draw, position)| draw.position == position);
    if !complete {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the parts have {} draws for the positions 0 to {}, or one position twice: a part is missing or duplicated",
                draws.len(),
                first.request.count
            ),
        ));
    }
    Ok((first.request, first.whole, draws))
}
