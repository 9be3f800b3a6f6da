//! Sums over runs, tiles and super-tiles, and the search for the index at a place in the whole mass.

use super::grid::Grid;
use crate::bytes::narrow;

/// The number of indices per run: their weights are one line of the cache, and so are the sums of half a tile.
pub(crate) const RUN: usize = 16;

/// The number of indices per tile. A tile of weights is 1 KiB: one load of eight numbers by each lane of a GPU's warp.
pub(crate) const TILE: usize = 256;

/// The number of runs per tile.
const RUNS_PER_TILE: usize = TILE / RUN;

/// The number of tiles per super-tile; a super-tile has 65,536 indices.
pub(crate) const TILES_PER_SUPER: usize = 256;

/// The measure from which indices are drawn: in proportion to their masses, or equally for all selectable indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Units of the grid.
    Units,
    /// 1 for each index with a positive mass.
    Count,
}

/// The contribution of one value to the searched mass.
pub(crate) trait Share<T = f32>: Copy {
    /// Whether no contribution is above 1, so that parts with the largest possible sum need not be searched.
    const COUNTS: bool = false;

    /// Returns the contribution of `value`.
    fn of(self, value: T) -> u64;
}

impl Share for Grid {
    #[inline(always)]
    fn of(self, mass: f32) -> u64 {
        self.units(mass)
    }
}

/// 1 for each index with a positive mass.
#[derive(Clone, Copy)]
pub(crate) struct Counted;

impl Share for Counted {
    const COUNTS: bool = true;

    #[inline(always)]
    fn of(self, mass: f32) -> u64 {
        u64::from(mass > 0.0)
    }
}

/// Each sum contributes its own value.
#[derive(Clone, Copy)]
struct Summed;

impl Share<u64> for Summed {
    #[inline(always)]
    fn of(self, sum: u64) -> u64 {
        sum
    }
}

/// The sums of one measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    runs: Vec<u64>,
    tiles: Vec<u64>,
    supers: Vec<u64>,
}

impl Sums {
    pub(crate) fn of_runs(runs: Vec<u64>) -> Self {
        let tiles: Vec<u64> = runs.chunks(RUNS_PER_TILE).map(|runs| runs.iter().sum()).collect();
        let supers = tiles.chunks(TILES_PER_SUPER).map(|tiles| tiles.iter().sum()).collect();
        Self { runs, tiles, supers }
    }

    /// Returns the sums of runs, from which [`of_runs`](Self::of_runs) computes the others.
    pub(crate) fn into_runs(self) -> Vec<u64> {
        self.runs
    }

    /// Replaces the contribution of an index. A sum may wrap only temporarily, because in the end, it is again a sum of
    /// existing contributions.
    #[inline(always)]
    pub(crate) fn replace(&mut self, local: usize, old: u64, new: u64) {
        let change = new.wrapping_sub(old);
        let sums = [
            &mut self.runs[local / RUN],
            &mut self.tiles[local / TILE],
            &mut self.supers[local / TILE / TILES_PER_SUPER],
        ];
        for sum in sums {
            *sum = sum.wrapping_add(change);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.supers.iter().sum()
    }

    /// Returns the start of each super-tile in the whole mass.
    pub(crate) fn starts(&self) -> Vec<u64> {
        let mut start = 0;
        let begin = |sum: &u64| {
            let begin = start;
            start += sum;
            begin
        };
        self.supers.iter().map(begin).collect()
    }

    /// Starts the search for the index whose share of the mass contains `place`, which must be below the total. Continue
    /// with [`to_run`](Self::to_run) and [`to_index`](Self::to_index). The search starts from `cursor`.
    #[inline(always)]
    pub(crate) fn to_tile<S: Share>(&self, starts: &[u64], place: u64, cursor: &mut TileCursor) -> Search {
        if !cursor.walk_to(&self.tiles, place) {
            *cursor = self.search::<S>(starts, place);
        }
        Search { first: cursor.tile, rest: place - cursor.start }
    }

    /// Prefetches the sums that [`to_run`](Self::to_run) reads.
    #[inline(always)]
    pub(crate) fn prefetch_runs(&self, search: &Search) {
        let first = search.first * RUNS_PER_TILE;
        let runs = self.runs.get(first..self.runs.len().min(first + RUNS_PER_TILE));
        relive_prefetch::prefetch_payloads(runs.map(bytemuck::cast_slice).into_iter());
    }

    /// Continues a search from a tile to a run.
    #[inline(always)]
    pub(crate) fn to_run<S: Share>(&self, mut search: Search) -> Search {
        if S::COUNTS && self.tiles[search.first] == TILE as u64 {
            return Search { first: search.first * TILE + narrow(search.rest), rest: 0 };
        }
        let first_run = search.first * RUNS_PER_TILE;
        let runs = &self.runs[first_run..self.runs.len().min(first_run + RUNS_PER_TILE)];
        let run = find_in(runs, Summed, &mut search.rest);
        Search { first: (first_run + run) * RUN, ..search }
    }

    /// Continues a search from a run to the index.
    #[inline(always)]
    pub(crate) fn to_index<S: Share>(masses: &[f32], share: S, mut search: Search) -> usize {
        if S::COUNTS && search.rest == 0 && masses[search.first] > 0.0 {
            return search.first;
        }
        let masses = &masses[search.first..masses.len().min(search.first + RUN)];
        search.first + find_in(masses, share, &mut search.rest)
    }

    /// Returns the tile whose share of the mass contains `place`.
    #[inline(always)]
    fn search<S: Share>(&self, starts: &[u64], place: u64) -> TileCursor {
        // If several super-tiles start at one place, all but the last super-tile are empty.
        let super_tile = starts.partition_point(|start| *start <= place) - 1;
        let mut rest = place - starts[super_tile];
        let first_tile = super_tile * TILES_PER_SUPER;
        if S::COUNTS && self.supers[super_tile] == (TILE * TILES_PER_SUPER) as u64 {
            let tile = first_tile + narrow(rest) / TILE;
            return TileCursor { tile, start: place - rest % TILE as u64 };
        }
        let tiles = &self.tiles[first_tile..self.tiles.len().min(first_tile + TILES_PER_SUPER)];
        let tile = first_tile + find_in_many(tiles, &mut rest);
        TileCursor { tile, start: place - rest }
    }
}

/// A search: the tile or the index from which it continues, and the place in the mass that begins there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Search {
    first: usize,
    rest: u64,
}

impl Search {
    /// Prefetches the masses that [`Sums::to_index`] reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, masses: &[f32]) {
        relive_prefetch::prefetch(masses.as_ptr().wrapping_add(self.first));
    }
}

/// A tile, and its start in the whole mass. For sorted draws, the next draw is only a few tiles further on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TileCursor {
    tile: usize,
    start: u64,
}

impl TileCursor {
    /// Beyond this distance, a search is faster.
    const MOST_STEPS: usize = 24;

    #[inline(always)]
    fn walk_to(&mut self, tiles: &[u64], place: u64) -> bool {
        if place < self.start {
            return false;
        }
        for _ in 0..Self::MOST_STEPS {
            let Some(sum) = tiles.get(self.tile) else { return false };
            if place - self.start < *sum {
                return true;
            }
            self.start += sum;
            self.tile += 1;
        }
        false
    }
}

/// Returns the position whose sum contains `rest`, and reduces `rest` to the remainder within that sum. Adds up runs of
/// 16 sums and then examines only one run, so that most of the work consists of vector sums.
#[inline(always)]
fn find_in_many(sums: &[u64], rest: &mut u64) -> usize {
    let mut first = 0;
    let (runs, _) = sums.as_chunks::<RUN>();
    for run in runs {
        let sum = run.iter().sum();
        if *rest < sum {
            break;
        }
        *rest -= sum;
        first += RUN;
    }
    first + find_in(&sums[first..sums.len().min(first + RUN)], Summed, rest)
}

/// Like [`find_in_many`], for at most one run of values. Has no branches, because they would be unpredictable.
#[inline(always)]
fn find_in<T: Copy>(values: &[T], share: impl Share<T>, rest: &mut u64) -> usize {
    let mut shares = [0; RUN];
    match <&[T; RUN]>::try_from(values) {
        // The usual case, which the compiler unrolls.
        Ok(values) => shares.iter_mut().zip(values).for_each(|(to, value)| *to = share.of(*value)),
        Err(_) => shares.iter_mut().zip(values).for_each(|(to, value)| *to = share.of(*value)),
    }
    let (mut position, mut sum, mut before) = (0, 0, 0);
    for share in shares {
        sum += share;
        let is_passed = sum <= *rest;
        position += usize::from(is_passed);
        before = if is_passed { sum } else { before };
    }
    *rest -= before;
    position.min(values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the index at each place in the whole mass.
    fn walk(sums: &Sums, masses: &[f32]) -> Vec<usize> {
        let (starts, mut cursor) = (sums.starts(), TileCursor::default());
        let find = |place| {
            let search = sums.to_run::<Counted>(sums.to_tile::<Counted>(&starts, place, &mut cursor));
            Sums::to_index(masses, Counted, search)
        };
        (0..sums.total()).map(find).collect()
    }

    fn selectable(masses: &[f32]) -> Vec<usize> {
        masses.iter().enumerate().filter(|(_, mass)| **mass > 0.0).map(|(index, _)| index).collect()
    }

    #[test]
    fn every_position_matches_a_linear_search() {
        let masses: Vec<f32> = (0..70_000u32).map(|index| f32::from(u8::from(index % 977 == 3))).collect();
        let measure = |mass| Counted.of(mass);
        let sums = Sums::of_runs(
            masses.chunks(RUN).map(|run| run.iter().map(|mass| measure(*mass)).sum()).collect(),
        );
        assert_eq!(walk(&sums, &masses), selectable(&masses));
    }

    /// Whole super-tiles and tiles, one with a hole, and a ragged end.
    #[test]
    fn full_tiles_are_not_searched() {
        let mut masses = vec![1.0; TILE * TILES_PER_SUPER + 3 * TILE + 7];
        masses[TILE * TILES_PER_SUPER + TILE + 3] = 0.0;
        let runs = masses.chunks(RUN).map(|run| run.iter().map(|mass| Counted.of(*mass)).sum()).collect();
        let sums = Sums::of_runs(runs);
        assert_eq!(walk(&sums, &masses), selectable(&masses));
    }

    #[test]
    fn empty_super_tiles_are_skipped() {
        let mut masses = vec![0.0; 4 * TILE * TILES_PER_SUPER];
        let last = masses.len() - 1;
        masses[last] = 1.0;
        let mut sums = Sums::of_runs(vec![0; masses.len() / RUN]);
        sums.replace(last, 0, 1);
        assert_eq!(walk(&sums, &masses), [last]);
        sums.replace(last, 1, 0);
        assert_eq!(sums, Sums::of_runs(vec![0; masses.len() / RUN]));
    }
}
