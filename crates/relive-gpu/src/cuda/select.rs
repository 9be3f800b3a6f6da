//! Selection on a device: the operations of [`Rank`], by kernels.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::device::Kernel;
use super::draws::DrawsAt;
use super::driver::DevicePtr;
use super::memory::DeviceBuffer;
use super::weights::{Arrays, DeviceWeights};
use crate::Result;
use crate::select::{
    Candidate, Draw, Grid, KeyKind, Measure, Numbers, Places, Pool, Rank, RankTotals, WeightsConfig, first,
};

/// The number of values of a key's digit, which has 11 bits.
const DIGITS: usize = 2048;
const DIGIT_BITS: u64 = 11;

/// Bit positions of the highest digit of a key and of an index.
const HIGHEST_KEY_SHIFT: u64 = 55;
const HIGHEST_INDEX_SHIFT: u64 = 33;

/// The maximum number of candidates that are collected beyond the wanted number. Sorting them is cheaper than another
/// pass over all indices.
const ROOM: u64 = 1 << 16;

/// A value that is not a global index.
const NOTHING: u64 = u64::MAX;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Keys {
    arrays: Arrays,
    kind: u64,
    inserted: u64,
    seed: u64,
    step: u64,
    prefix: u64,
    shift: u64,
    of_index: u64,
    exact: u64,
    histogram: u64,
    limit_key: u64,
    limit_index: u64,
    out_keys: u64,
    out_indices: u64,
    out_units: u64,
    out_count: u64,
    room: u64,
}

/// Weights on a device, with insertion numbers if available.
struct DeviceRank<'a> {
    weights: &'a DeviceWeights,
    inserted: Option<&'a DeviceBuffer>,
}

impl DeviceWeights {
    /// Returns a pool for selections that do not need insertion numbers.
    #[must_use]
    pub fn pool(&self) -> Pool<'_> {
        Pool(Box::new(DeviceRank { weights: self, inserted: None }))
    }

    /// Returns a pool for all selections. `inserted` contains the 64-bit insertion number of each index of the rank.
    #[must_use]
    pub fn pool_with_inserted<'a>(&'a self, inserted: &'a DeviceBuffer) -> Pool<'a> {
        Pool(Box::new(DeviceRank { weights: self, inserted: Some(inserted) }))
    }
}

impl Rank for DeviceRank<'_> {
    fn config(&self) -> &WeightsConfig {
        &self.weights.config
    }

    fn grid(&self) -> &Grid {
        &self.weights.grid
    }

    fn inserted(&self) -> u64 {
        self.inserted.map_or(0, |inserted| inserted.bytes() / 8)
    }

    fn whole(&self) -> Result<RankTotals> {
        self.weights.totals()
    }

    fn smallest(&self, kind: KeyKind, numbers: &Numbers, count: u64) -> Result<Vec<Candidate>> {
        let count = count.min(self.weights.config.capacity);
        if count == 0 {
            return Ok(Vec::new());
        }
        let room = count + ROOM;
        let histogram_bytes = (DIGITS * 8) as u64;
        self.weights.with_scratch(histogram_bytes + 8 + room * 24, |scratch| {
            let at = scratch.address();
            let out = at.at(histogram_bytes + 8);
            let mut keys = Keys {
                arrays: self.weights.arrays,
                kind: kind as u64,
                inserted: self.inserted.map_or(0, |inserted| inserted.address().0),
                seed: numbers.seed(),
                step: numbers.step(),
                histogram: at.0,
                out_count: at.at(histogram_bytes).0,
                out_keys: out.0,
                out_indices: out.at(room * 8).0,
                out_units: out.at(room * 16).0,
                room,
                ..Keys::zeroed()
            };
            (keys.limit_key, keys.limit_index) = self.limit(keys, scratch, count)?;
            let mut found = self.collect(&keys, scratch, histogram_bytes)?;
            first(&mut found, usize::try_from(count).unwrap_or(usize::MAX));
            Ok(found)
        })
    }

    fn draw(&self, measure: Measure, places: &Places, own: Range<u64>) -> Result<Vec<Draw>> {
        if own.is_empty() || places.count == 0 {
            return Ok(Vec::new());
        }
        let count = places.count;
        self.weights.with_scratch(count * 16, |scratch| {
            let out =
                DrawsAt { indices: scratch.address(), units: scratch.address().at(count * 8), least: None };
            self.weights.draw_at(measure, places, own, out)?;
            let draws = usize::try_from(count).unwrap_or(usize::MAX);
            let indices: Vec<u64> = scratch.read(0, draws)?;
            let units: Vec<u64> = scratch.read(count * 8, draws)?;
            let all = (0..).zip(indices.into_iter().zip(units));
            let own = all.filter(|(_, (index, _))| *index != NOTHING);
            Ok(own.map(|(position, (index, units))| Draw { position, index, units }).collect())
        })
    }
}

impl DeviceRank<'_> {
    /// Finds, digit by digit, a bound (a key and an index) such that at least `count` candidates (or all, if there are
    /// fewer) are within it, but not many more.
    fn limit(&self, mut keys: Keys, scratch: &DeviceBuffer, count: u64) -> Result<(u64, u64)> {
        let mut below = 0;
        keys.shift = HIGHEST_KEY_SHIFT;
        loop {
            let histogram = self.histogram(&keys, scratch)?;
            if below + histogram.iter().sum::<u64>() <= keys.room {
                // The candidates are exactly the counted ones; the digits below the shift no longer matter.
                return Ok(limit_of(&keys, keys.prefix, keys.shift + DIGIT_BITS));
            }
            let mut digit = 0;
            while below + histogram[digit] < count && digit + 1 < DIGITS {
                below += histogram[digit];
                digit += 1;
            }
            let number = keys.prefix << DIGIT_BITS | digit as u64;
            if below + histogram[digit] <= keys.room || (keys.of_index == 1 && keys.shift == 0) {
                return Ok(limit_of(&keys, number, keys.shift));
            }
            keys.prefix = number;
            match keys.shift {
                0 => {
                    keys = Keys { of_index: 1, exact: number, prefix: 0, shift: HIGHEST_INDEX_SHIFT, ..keys }
                }
                shift => keys.shift = shift - DIGIT_BITS,
            }
        }
    }

    fn histogram(&self, keys: &Keys, scratch: &DeviceBuffer) -> Result<Vec<u64>> {
        scratch.write(0, &[0u64; DIGITS])?;
        // SAFETY: the arrays belong to the weights, and the histogram is at the start of the scratch memory.
        unsafe { self.weights.run(Kernel::Histogram, self.weights.config.capacity.div_ceil(32), keys)? };
        scratch.read(0, DIGITS)
    }

    fn collect(&self, keys: &Keys, scratch: &DeviceBuffer, count_at: u64) -> Result<Vec<Candidate>> {
        scratch.write(count_at, &[0u64])?;
        // SAFETY: the arrays belong to the weights, and the scratch memory has room for this many candidates.
        unsafe { self.weights.run(Kernel::CollectKeys, self.weights.config.capacity.div_ceil(32), keys)? };
        let found = scratch.read::<u64>(count_at, 1)?[0].min(keys.room);
        let count = usize::try_from(found).unwrap_or(usize::MAX);
        let begin = DevicePtr(keys.out_keys).0 - scratch.address().0;
        let list = |number: u64| scratch.read::<u64>(begin + number * keys.room * 8, count);
        let (found, indices, units) = (list(0)?, list(1)?, list(2)?);
        let found = found.into_iter().zip(indices).zip(units);
        Ok(found.map(|((key, index), units)| Candidate { key, index, units }).collect())
    }
}

/// Returns the largest key and index that start with these digits.
fn limit_of(keys: &Keys, digits: u64, shift: u64) -> (u64, u64) {
    let last = if shift >= 64 { u64::MAX } else { digits << shift | ((1 << shift) - 1) };
    if keys.of_index == 1 { (keys.exact, last) } else { (last, u64::MAX) }
}
