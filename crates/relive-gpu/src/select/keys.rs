//! Selections of distinct indices: the k smallest keys, with ties broken by the lower index.

use relive_threads::Pool;

use super::philox::Numbers;
use super::race;
use super::smallest::{Candidate, Smallest, first};
use super::sums::TILE;
use super::weights::{Weights, joined};

/// The number by which indices are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum KeyKind {
    /// The weight, largest first.
    Largest = 0,
    /// The insertion number.
    Oldest = 1,
    /// The insertion number, largest first.
    Newest = 2,
    /// The arrival time in a [race](super::race).
    Race = 3,
}

/// Weights, and insertion numbers if the kind of key needs them.
#[derive(Clone, Copy)]
pub(crate) struct Scanned<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) inserted: &'a [u64],
}

/// Returns the `count` smallest candidates of this rank, in order.
pub(crate) fn smallest(
    kind: KeyKind,
    scanned: Scanned<'_>,
    numbers: &Numbers,
    count: usize,
) -> Vec<Candidate> {
    if count == 0 {
        return Vec::new();
    }
    let Scanned { weights, .. } = scanned;
    let (masses, grid) = (weights.masses(), weights.grid());
    let per_thread = masses.len().div_ceil(TILE).div_ceil(weights.threads()) * TILE;
    let starts = (0..masses.len()).step_by(per_thread);
    let parts = starts.map(|start| start..masses.len().min(start + per_thread));
    let scans = Pool::of_process().map(parts, |part| {
        let mut smallest = Smallest::new(count);
        scan(kind, scanned, numbers, part, &mut smallest);
        smallest.finish()
    });
    let mut found = joined(scans);
    first(&mut found, count);
    for candidate in &mut found {
        #[expect(clippy::cast_possible_truncation, reason = "the indices of this rank fit in memory")]
        let local = (candidate.index - weights.config().first) as usize;
        candidate.units = grid.units(masses[local]);
    }
    found
}

fn scan(
    kind: KeyKind,
    scanned: Scanned<'_>,
    numbers: &Numbers,
    part: std::ops::Range<usize>,
    smallest: &mut Smallest,
) {
    let first = scanned.weights.config().first + part.start as u64;
    let weights = &scanned.weights.weights()[part.clone()];
    let arch = pulp::Arch::new();
    match kind {
        KeyKind::Largest => arch.dispatch(Largest { first, weights, smallest }),
        KeyKind::Oldest => {
            arch.dispatch(Inserted::<false> { first, weights, inserted: &scanned.inserted[part], smallest });
        }
        KeyKind::Newest => {
            arch.dispatch(Inserted::<true> { first, weights, inserted: &scanned.inserted[part], smallest });
        }
        KeyKind::Race => {
            arch.dispatch(Race { numbers, first, masses: &scanned.weights.masses()[part], smallest });
        }
    }
}

/// A scan compiled for the widest vectors that the processor supports. (Closures are not inlined into code compiled for
/// them.)
struct Race<'a> {
    numbers: &'a Numbers,
    first: u64,
    masses: &'a [f32],
    smallest: &'a mut Smallest,
}

impl pulp::NullaryFnOnce for Race<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        race::scan(self.numbers, self.first, self.masses, self.smallest);
    }
}

/// Positive f32 values have the same order as their bits.
pub(crate) fn largest_key(weight: f32) -> u64 {
    u64::from(!weight.to_bits())
}

/// A scan for the largest weights. It skips tiles whose weights are all too small.
struct Largest<'a> {
    first: u64,
    weights: &'a [f32],
    smallest: &'a mut Smallest,
}

impl pulp::NullaryFnOnce for Largest<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (tile, weights) in self.weights.chunks(TILE).enumerate() {
            // Compared as integers, since their maximum can be vectorized.
            let mut largest = 0;
            for weight in weights {
                largest = weight.to_bits().cast_signed().max(largest);
            }
            if largest_key(f32::from_bits(largest.cast_unsigned())) > self.smallest.ceiling() {
                continue;
            }
            for (index, weight) in (self.first + (tile * TILE) as u64..).zip(weights) {
                if *weight > 0.0 {
                    self.smallest.offer(largest_key(*weight), index);
                }
            }
        }
    }
}

/// A scan for the lowest or highest insertion numbers.
struct Inserted<'a, const NEWEST: bool> {
    first: u64,
    weights: &'a [f32],
    inserted: &'a [u64],
    smallest: &'a mut Smallest,
}

impl<const NEWEST: bool> pulp::NullaryFnOnce for Inserted<'_, NEWEST> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        const RUN: usize = 64;
        let runs = self.weights.chunks(RUN).zip(self.inserted.chunks(RUN));
        for (run, (weights, inserted)) in runs.enumerate() {
            let ceiling = self.smallest.ceiling();
            let mut near = false;
            for (weight, number) in weights.iter().zip(inserted) {
                near |= (inserted_key::<NEWEST>(*number) <= ceiling) & (*weight > 0.0);
            }
            if !near {
                continue;
            }
            let first = self.first + (run * RUN) as u64;
            for ((index, weight), number) in (first..).zip(weights).zip(inserted) {
                if *weight > 0.0 {
                    self.smallest.offer(inserted_key::<NEWEST>(*number), index);
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) fn inserted_key<const NEWEST: bool>(number: u64) -> u64 {
    if NEWEST { !number } else { number }
}
