//! Draws with replacement: positions in the whole mass, and the indices there.

use std::ops::Range;

use relive_threads::Pool;

use super::philox::Numbers;
use super::radix;
use super::sums::{Counted, Measure, Search, Share, Sums, TileCursor};
use super::weights::{Weights, joined};

/// The minimum number of draws for which draws are sorted before the lookup, so that neighboring draws share cache
/// lines.
const SORTED_FROM: usize = 1 << 12;

/// The number of bits by which places are sorted.
const SORTED_BITS: u32 = 22;

/// The minimum number of draws per thread; for fewer, another thread costs more than it saves.
const DRAWS_PER_THREAD: usize = 1 << 12;

/// A drawn index, and the number of its draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Draw {
    /// The number of the draw, counted from 0.
    pub(crate) position: u64,
    pub(crate) index: u64,
    /// The mass of the index, in units of the grid.
    pub(crate) units: u64,
}

/// The places of a selection's draws in a total mass of `total`, which is positive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) numbers: Numbers,
    pub(crate) count: u64,
    pub(crate) total: u64,
    pub(crate) stratified: bool,
}

impl Places {
    #[inline(always)]
    pub(crate) fn of(&self, position: u64) -> u64 {
        if !self.stratified {
            return self.numbers.below(position, self.total);
        }
        let [begin, end] = [self.stratum(position), self.stratum(position + 1)];
        begin + self.numbers.below(position, end - begin)
    }

    /// Returns the start of part `position` of `count` equal parts: total · position / count, rounded down, in 64 bits.
    fn stratum(&self, position: u64) -> u64 {
        let (whole, rest) = (self.total / self.count, self.total % self.count);
        position * whole + position * rest / self.count
    }
}

/// Returns the draws that fall into `own`, this rank's part of the whole mass, in order of position.
pub(crate) fn draw(weights: &Weights, measure: Measure, places: &Places, own: Range<u64>) -> Vec<Draw> {
    let mut found = Vec::new();
    for position in 0..places.count {
        let place = places.of(position);
        if own.contains(&place) {
            found.push((place - own.start, position));
        }
    }
    if found.len() < SORTED_FROM {
        return look_up(weights, measure, &found);
    }
    // The order may be approximate: it suffices that the sorted bits distinguish more parts than there are tiles.
    let shift = (u64::BITS - (own.end - own.start).leading_zeros()).saturating_sub(SORTED_BITS);
    let order = radix::order(&found.iter().map(|(place, _)| place >> shift).collect::<Vec<u64>>());
    let sorted: Vec<(u64, u64)> = order.iter().map(|position| found[*position as usize]).collect();
    let mut draws = vec![Draw { position: 0, index: 0, units: 0 }; found.len()];
    for (draw, position) in look_up(weights, measure, &sorted).into_iter().zip(order) {
        draws[position as usize] = draw;
    }
    draws
}

fn look_up(weights: &Weights, measure: Measure, places: &[(u64, u64)]) -> Vec<Draw> {
    let starts = weights.sums(measure).starts();
    let threads = weights.threads().min(places.len().div_ceil(DRAWS_PER_THREAD)).max(1);
    let parts = places.chunks(places.len().div_ceil(threads).max(1));
    joined(Pool::of_process().map(parts, |part| look_up_part(weights, measure, &starts, part)))
}

fn look_up_part(weights: &Weights, measure: Measure, starts: &[u64], places: &[(u64, u64)]) -> Vec<Draw> {
    let sums = weights.sums(measure);
    let arch = pulp::Arch::new();
    match measure {
        Measure::Units => arch.dispatch(Searches { weights, sums, starts, places, share: *weights.grid() }),
        Measure::Count => arch.dispatch(Searches { weights, sums, starts, places, share: Counted }),
    }
}

/// The number of searches that take each step together, so that the processor waits for several lines of memory at once.
const TOGETHER: usize = 32;

/// Searches compiled for the widest vectors that the processor supports.
struct Searches<'a, S> {
    weights: &'a Weights,
    sums: &'a Sums,
    starts: &'a [u64],
    places: &'a [(u64, u64)],
    share: S,
}

impl<S: Share> pulp::NullaryFnOnce for Searches<'_, S> {
    type Output = Vec<Draw>;

    #[inline(always)]
    fn call(self) -> Vec<Draw> {
        let (grid, masses) = (self.weights.grid(), self.weights.masses());
        let first = self.weights.config().first;
        let mut draws = Vec::with_capacity(self.places.len());
        let (mut cursor, mut searches) = (TileCursor::default(), [Search::default(); TOGETHER]);
        for places in self.places.chunks(TOGETHER) {
            for (search, (place, _)) in searches.iter_mut().zip(places) {
                *search = self.sums.to_tile::<S>(self.starts, *place, &mut cursor);
                self.sums.prefetch_runs(search);
            }
            for search in &mut searches[..places.len()] {
                *search = self.sums.to_run::<S>(*search);
                search.prefetch(masses);
            }
            for (search, (_, position)) in searches.iter().zip(places) {
                let local = Sums::to_index(masses, self.share, *search);
                let (index, units) = (first + local as u64, grid.units(masses[local]));
                draws.push(Draw { position: *position, index, units });
            }
        }
        draws
    }
}
