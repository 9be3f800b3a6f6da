//! Draws with replacement whose results stay on the device.

use std::ops::Range;
use std::sync::PoisonError;

use bytemuck::{Pod, Zeroable};

use super::device::{Device, Kernel};
use super::driver::DevicePtr;
use super::memory::DeviceBuffer;
use super::weights::{Arrays, DeviceWeights};
use crate::select::{
    MAX_COUNT, Measure, Places, RankTotals, Selected, Selection, Selector, TILE, TILES_PER_SUPER,
    WeightsConfig,
};
use crate::{Error, Result};

/// A value larger than any number of units.
const NO_UNITS: u64 = u64::MAX;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Starts {
    sums: u64,
    count: u64,
    starts: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Draws {
    arrays: Arrays,
    starts: u64,
    seed: u64,
    step: u64,
    count: u64,
    total: u64,
    own_start: u64,
    own_end: u64,
    stratified: u64,
    measure: u64,
    out_indices: u64,
    out_units: u64,
    out_least: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Finish {
    units: u64,
    count: u64,
    least: u64,
    whole: u64,
    equal: u64,
    prioritized: u64,
    beta: f64,
    out_probabilities: u64,
    out_importance: u64,
}

/// Where draws are written: for each draw, a 64-bit index and a 64-bit number of units; and optionally, the smallest of
/// these numbers of units.
#[derive(Clone, Copy)]
pub(super) struct DrawsAt {
    pub(super) indices: DevicePtr,
    pub(super) units: DevicePtr,
    pub(super) least: Option<DevicePtr>,
}

/// Device memory for drawn indices.
#[derive(Debug)]
pub struct DeviceDraws {
    indices: DeviceBuffer,
    units: DeviceBuffer,
    probabilities: DeviceBuffer,
    importance: DeviceBuffer,
    least: DeviceBuffer,
    most: u64,
    count: u64,
}

impl DeviceDraws {
    /// Allocates memory for up to `most` draws.
    ///
    /// # Errors
    /// `most` is above [`MAX_COUNT`], or the device does not have enough memory.
    pub fn new(device: &Device, most: u64) -> Result<Self> {
        if most > MAX_COUNT {
            return Err(Error::invalid(format!("memory for {most} draws; the limit is {MAX_COUNT}")));
        }
        let memory = |bytes: u64| DeviceBuffer::new(device, most * bytes);
        Ok(Self {
            indices: memory(8)?,
            units: memory(8)?,
            probabilities: memory(4)?,
            importance: memory(4)?,
            least: DeviceBuffer::new(device, 8)?,
            most,
            count: 0,
        })
    }

    /// Returns the number of draws.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the memory of the drawn indices: 64-bit integers, in the order of the draws.
    #[must_use]
    pub fn indices(&self) -> &DeviceBuffer {
        &self.indices
    }

    /// Returns the memory of the indices' probabilities: 32-bit floats.
    #[must_use]
    pub fn probabilities(&self) -> &DeviceBuffer {
        &self.probabilities
    }

    /// Returns the memory of the importance weights: 32-bit floats.
    #[must_use]
    pub fn importance(&self) -> &DeviceBuffer {
        &self.importance
    }

    /// Copies the draws to the host.
    ///
    /// # Errors
    /// The device fails.
    pub fn read(&self) -> Result<Selected> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        Ok(Selected {
            indices: self.indices.read(0, count)?,
            probabilities: self.probabilities.read(0, count)?,
            importance: self.importance.read(0, count)?,
        })
    }
}

impl DeviceWeights {
    /// Draws `count` indices with replacement, and leaves them on the device. They are the same draws as those of
    /// [`Selector::select`], for weights of a single rank.
    ///
    /// # Errors
    /// The errors of [`Selector::select`]; the selection selects each index only once; there is no room for this many
    /// draws; or the device fails.
    pub fn draw(
        &self,
        selector: &mut Selector,
        selection: Selection,
        count: u64,
        out: &mut DeviceDraws,
    ) -> Result<()> {
        if self.config.total_capacity != self.config.capacity {
            let WeightsConfig { capacity, total_capacity, .. } = self.config;
            return Err(Error::invalid(format!(
                "these weights are {capacity} of {total_capacity}; several ranks draw with `Selector::select_with`"
            )));
        }
        let (measure, places) = selector.draws(&*self.pool().0, selection, count)?;
        if !out.indices.is_on(&self.device) {
            return Err(Error::invalid("the memory for the draws is on another device"));
        }
        if count > out.most {
            return Err(Error::invalid(format!("{count} draws do not fit in memory for {}", out.most)));
        }
        out.count = 0;
        out.least.write(0, &[NO_UNITS])?;
        let least = out.least.address();
        let at = DrawsAt { indices: out.indices.address(), units: out.units.address(), least: Some(least) };
        self.draw_at(measure, &places, 0..places.total, at)?;
        let (prioritized, beta) = match selection {
            Selection::Prioritized { beta, .. } => (1, f64::from(beta)),
            _ => (0, 0.0),
        };
        let parameter = Finish {
            units: out.units.address().0,
            count,
            least: least.0,
            whole: places.total,
            equal: u64::from(measure == Measure::Count),
            prioritized,
            beta,
            out_probabilities: out.probabilities.address().0,
            out_importance: out.importance.address().0,
        };
        // SAFETY: the addresses are those of `out`, which has room for `count` draws, and this function waits for the
        // work.
        unsafe { self.run(Kernel::Finish, count.div_ceil(32), &parameter)? };
        self.finish()?;
        out.count = count;
        selector.advance();
        Ok(())
    }

    /// Draws as part of the device's own stream.
    pub(super) fn draw_at(
        &self,
        measure: Measure,
        places: &Places,
        own: Range<u64>,
        out: DrawsAt,
    ) -> Result<()> {
        self.totals()?;
        let Places { numbers, count, total, stratified } = *places;
        let parameter = Draws {
            arrays: self.arrays,
            starts: self.starts[measure as usize].address().0,
            seed: numbers.seed(),
            step: numbers.step(),
            count,
            total,
            own_start: own.start,
            own_end: own.end,
            stratified: u64::from(stratified),
            measure: measure as u64,
            out_indices: out.indices.0,
            out_units: out.units.0,
            out_least: out.least.map_or(0, |least| least.0),
        };
        // SAFETY: the arrays belong to the weights, and the callers have room for `count` draws.
        unsafe { self.run(Kernel::Draw, count, &parameter) }
    }

    /// Returns the totals of the weights. Afterwards, the starts of the super-tiles are up to date.
    pub(super) fn totals(&self) -> Result<RankTotals> {
        let mut known = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(totals) = *known {
            return Ok(totals);
        }
        let totals = RankTotals {
            units: self.find_starts(Measure::Units)?,
            selectable: self.find_starts(Measure::Count)?,
        };
        *known = Some(totals);
        Ok(totals)
    }

    /// Discards the totals. Must be called before every change.
    pub(super) fn forget_totals(&self) {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Computes the starts of the super-tiles, and returns the total.
    fn find_starts(&self, measure: Measure) -> Result<u64> {
        let sums = match measure {
            Measure::Units => self.arrays.unit_supers,
            Measure::Count => self.arrays.count_supers,
        };
        let count = self.config.capacity.div_ceil(TILE as u64).div_ceil(TILES_PER_SUPER as u64);
        let starts = &self.starts[measure as usize];
        let parameter = Starts { sums, count, starts: starts.address().0 };
        // SAFETY: both arrays belong to the weights; the kernel runs in one block.
        unsafe { self.run(Kernel::Starts, 8, &parameter)? };
        Ok(starts.read::<u64>(count * 8, 1)?[0])
    }
}
