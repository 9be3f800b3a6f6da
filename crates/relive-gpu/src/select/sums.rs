//! Sums over tiles and super-tiles, and the search for the index at a place in the whole mass.

use super::grid::Grid;

/// The number of indices per tile. A tile of weights is 1 KiB: one load of eight numbers per lane of a GPU's warp.
pub(crate) const TILE: usize = 256;

/// The number of tiles per super-tile; a super-tile has 65,536 indices.
pub(crate) const TILES_PER_SUPER: usize = 256;

/// The measure of draws: each index in proportion to its mass, or all selectable ones equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Units of the grid.
    Units,
    /// 1 for each index with a positive mass.
    Count,
}

/// The contribution of one value to the searched mass.
pub(crate) trait Share<T = f32>: Copy {
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
    #[inline(always)]
    fn of(self, mass: f32) -> u64 {
        u64::from(mass > 0.0)
    }
}

/// A sum contributes its own value.
#[derive(Clone, Copy)]
struct Summed;

impl Share<u64> for Summed {
    #[inline(always)]
    fn of(self, sum: u64) -> u64 {
        sum
    }
}

/// The sums of one measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) tiles: Vec<u64>,
    pub(crate) supers: Vec<u64>,
}

impl Sums {
    pub(crate) fn of_tiles(tiles: Vec<u64>) -> Self {
        let supers = tiles.chunks(TILES_PER_SUPER).map(|tiles| tiles.iter().sum()).collect();
        Self { tiles, supers }
    }

    /// Replaces the contribution of an index of `tile`. A sum wraps only temporarily, because it ends up as a sum of
    /// existing contributions.
    #[inline(always)]
    pub(crate) fn replace(&mut self, tile: usize, old: u64, new: u64) {
        let change = new.wrapping_sub(old);
        let sum = &mut self.tiles[tile];
        *sum = sum.wrapping_add(change);
        let sum = &mut self.supers[tile / TILES_PER_SUPER];
        *sum = sum.wrapping_add(change);
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

    /// Returns the index whose share of the mass contains `place`, which must be below the total. The search starts
    /// from `cursor`.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        starts: &[u64],
        masses: &[f32],
        share: impl Share,
        place: u64,
        cursor: &mut TileCursor,
    ) -> usize {
        if !cursor.walk_to(&self.tiles, place) {
            *cursor = self.search(starts, place);
        }
        let first = cursor.tile * TILE;
        let masses = &masses[first..masses.len().min(first + TILE)];
        first + find_in(masses, share, &mut (place - cursor.start))
    }

    /// Returns the tile whose share of the mass contains `place`.
    #[inline(always)]
    fn search(&self, starts: &[u64], place: u64) -> TileCursor {
        // If several super-tiles start at one place, all but the last super-tile are empty.
        let super_tile = starts.partition_point(|start| *start <= place) - 1;
        let mut rest = place - starts[super_tile];
        let first_tile = super_tile * TILES_PER_SUPER;
        let tiles = &self.tiles[first_tile..self.tiles.len().min(first_tile + TILES_PER_SUPER)];
        let tile = first_tile + find_in(tiles, Summed, &mut rest);
        TileCursor { tile, start: place - rest }
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

/// Returns the position whose share contains `rest`; reduces `rest` to the remainder within that share. Sums runs of 16
/// values and then examines only one run, so that most of the work is vector sums.
#[inline(always)]
fn find_in<T: Copy>(values: &[T], share: impl Share<T>, rest: &mut u64) -> usize {
    const RUN: usize = 16;
    let mut first = 0;
    let (runs, _) = values.as_chunks::<RUN>();
    for run in runs {
        let mut sum = 0;
        for value in run {
            sum += share.of(*value);
        }
        if *rest < sum {
            break;
        }
        *rest -= sum;
        first += RUN;
    }
    for value in &values[first..] {
        let share = share.of(*value);
        if *rest < share {
            break;
        }
        *rest -= share;
        first += 1;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_matches_a_linear_search() {
        let masses: Vec<f32> = (0..70_000u32).map(|index| f32::from(u8::from(index % 977 == 3))).collect();
        let measure = |mass| Counted.of(mass);
        let sums = Sums::of_tiles(
            masses.chunks(TILE).map(|tile| tile.iter().map(|mass| measure(*mass)).sum()).collect(),
        );
        let starts = sums.starts();
        let mut cursor = TileCursor::default();
        let walk = masses.iter().enumerate().filter(|(_, mass)| **mass > 0.0);
        for (place, (index, _)) in walk.enumerate() {
            assert_eq!(sums.find(&starts, &masses, Counted, place as u64, &mut TileCursor::default()), index);
            assert_eq!(sums.find(&starts, &masses, Counted, place as u64, &mut cursor), index);
        }
    }

    #[test]
    fn empty_super_tiles_are_skipped() {
        let mut masses = vec![0.0; 4 * TILE * TILES_PER_SUPER];
        let last = masses.len() - 1;
        masses[last] = 1.0;
        let mut sums = Sums::of_tiles(vec![0; masses.len() / TILE]);
        sums.replace(last / TILE, 0, 1);
        assert_eq!(sums.find(&sums.starts(), &masses, Counted, 0, &mut TileCursor::default()), last);
        sums.replace(last / TILE, 1, 0);
        assert_eq!(sums, Sums::of_tiles(vec![0; masses.len() / TILE]));
    }
}
