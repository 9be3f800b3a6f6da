//! Weights on a device.

use std::sync::{Mutex, PoisonError};

use bytemuck::{NoUninit, Pod, Zeroable};

use super::device::{Device, Kernel};
use super::driver::DevicePtr;
use super::memory::DeviceBuffer;
use crate::select::{Grid, RankTotals, TILE, TILES_PER_SUPER, WeightsConfig, check_all, check_update};
use crate::{Error, Result};

/// The parameters that all selection kernels share: `Arrays` in `kernels/select.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Arrays {
    weights: u64,
    masses: u64,
    unit_tiles: u64,
    count_tiles: u64,
    pub(super) unit_supers: u64,
    pub(super) count_supers: u64,
    pub(super) first: u64,
    pub(super) capacity: u64,
    exponent: f64,
    max_weight: f64,
    scale: f64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Update {
    arrays: Arrays,
    indices: u64,
    values: u64,
    count: u64,
    last: u64,
    refused: u64,
}

/// The maximum number of weights in one update, whose positions have 32 bits.
const MAX_UPDATE: usize = u32::MAX as usize - 1;

/// A value that is not a position in an update.
const NOTHING: u64 = u64::MAX;

/// The weights of a rank's indices on a device, with sums that are kept up to date: the bit-identical counterpart of
/// [`Weights`](crate::select::Weights).
///
/// Memory per index: 4 bytes for weights, 4 for updates, 4 more if the exponent is not 1, and one sixteenth of a byte
/// for sums.
#[derive(Debug)]
pub struct DeviceWeights {
    pub(super) device: Device,
    pub(super) config: WeightsConfig,
    pub(super) grid: Grid,
    pub(super) arrays: Arrays,
    /// Owns the memory at the addresses in `arrays`.
    memory: Vec<DeviceBuffer>,
    last: DeviceBuffer,
    refused: DeviceBuffer,
    /// The start of each super-tile: in units, then in counts.
    pub(super) starts: [DeviceBuffer; 2],
    /// The totals of the current weights, once they and `starts` have been computed.
    pub(super) totals: Mutex<Option<RankTotals>>,
    scratch: Mutex<DeviceBuffer>,
}

impl DeviceWeights {
    /// Starts with all weights set to 0.
    ///
    /// # Errors
    /// The configuration is out of range, or the device does not have enough memory.
    pub fn new(device: &Device, config: WeightsConfig) -> Result<Self> {
        let grid = config.grid()?;
        let capacity = config.capacity;
        let tiles = capacity.div_ceil(TILE as u64);
        let supers = tiles.div_ceil(TILES_PER_SUPER as u64);
        let zeroed = |bytes| DeviceBuffer::zeroed(device, bytes);
        let has_powers = config.exponent != 1.0;
        let sizes = [capacity * 4, tiles * 8, tiles * 8, supers * 8, supers * 8];
        let powers = has_powers.then_some(capacity * 4);
        let memory = sizes.into_iter().chain(powers).map(zeroed).collect::<Result<Vec<_>>>()?;
        let at = |number: usize| memory[number].address().0;
        let arrays = Arrays {
            weights: at(0),
            masses: at(if has_powers { 5 } else { 0 }),
            unit_tiles: at(1),
            count_tiles: at(2),
            unit_supers: at(3),
            count_supers: at(4),
            first: config.first,
            capacity,
            exponent: f64::from(config.exponent),
            max_weight: f64::from(config.max_weight),
            scale: grid.scale(),
        };
        let starts = [zeroed((supers + 1) * 8)?, zeroed((supers + 1) * 8)?];
        let (last, refused) = (zeroed(capacity * 4)?, zeroed(8)?);
        let (totals, scratch) = (Mutex::new(None), Mutex::new(zeroed(1 << 20)?));
        let device = device.clone();
        Ok(Self { device, config, grid, arrays, memory, last, refused, starts, totals, scratch })
    }

    /// Returns the configuration of the weights.
    #[must_use]
    pub fn config(&self) -> &WeightsConfig {
        &self.config
    }

    /// Copies the weights from the device, ordered by index within the rank.
    ///
    /// # Errors
    /// The device fails.
    pub fn weights(&self) -> Result<Vec<f32>> {
        self.memory[0].read(0, self.capacity())
    }

    /// Sets the weights of these global indices, like [`Weights::update`](crate::select::Weights::update).
    ///
    /// # Errors
    /// The errors of [`Weights::update`](crate::select::Weights::update), or the device fails.
    pub fn update(&mut self, indices: &[u64], weights: &[f32]) -> Result<()> {
        check_update(&self.config, indices, weights)?;
        if indices.is_empty() {
            return Ok(());
        }
        let begin = size_of_val(indices) as u64;
        self.with_scratch(begin + size_of_val(weights) as u64, |scratch| {
            scratch.write(0, indices)?;
            scratch.write(begin, weights)?;
            let at = scratch.address();
            // SAFETY: both lists have just been written there.
            unsafe { self.update_at(at, at.at(begin), indices.len()) }
        })
    }

    /// Sets `count` weights from lists on the device: u64 indices and f32 weights. If any weight is refused, no weight
    /// is set.
    ///
    /// # Safety
    /// The lists must be complete, in memory that the device can read.
    ///
    /// # Errors
    /// An index is not of this rank, or a weight is refused (the error names the first one); or the device fails.
    pub unsafe fn update_from(&mut self, indices: DevicePtr, weights: DevicePtr, count: usize) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.update_at(indices, weights, count) }
    }

    /// Sets all weights at once, like [`Weights::load`](crate::select::Weights::load).
    ///
    /// # Errors
    /// The errors of [`Weights::load`](crate::select::Weights::load), or the device fails.
    pub fn load(&mut self, weights: &[f32]) -> Result<()> {
        check_all(&self.config, weights)?;
        self.forget_totals();
        self.memory[0].write(0, weights)?;
        let tiles = self.config.capacity.div_ceil(TILE as u64);
        // SAFETY: the arrays are ours.
        unsafe {
            self.run(Kernel::Load, tiles, &self.arrays)?;
            self.run(Kernel::Supers, tiles.div_ceil(TILES_PER_SUPER as u64), &self.arrays)?;
        }
        self.finish()
    }

    /// # Safety
    /// Same as [`update_from`](Self::update_from).
    unsafe fn update_at(&self, indices: DevicePtr, weights: DevicePtr, count: usize) -> Result<()> {
        if count > MAX_UPDATE {
            return Err(Error::invalid(format!("{count} weights in one update; the limit is {MAX_UPDATE}")));
        }
        let (last, refused) = (self.last.address().0, self.refused.address().0);
        let count = count as u64;
        let update =
            Update { arrays: self.arrays, indices: indices.0, values: weights.0, count, last, refused };
        self.forget_totals();
        self.refused.write(0, &[NOTHING])?;
        // SAFETY: the arrays are ours; the lists are the caller's contract.
        unsafe {
            self.run(Kernel::Claim, count.div_ceil(32), &update)?;
            self.run(Kernel::Apply, count.div_ceil(32), &update)?;
        }
        match self.refused.read::<u64>(0, 1)?[0] {
            NOTHING => Ok(()),
            number => Err(Error::invalid(format!(
                "entry {number} of an update is invalid: its index must be {} to {}, and its weight between 0 and {}",
                self.config.first,
                self.config.first + self.config.capacity - 1,
                self.config.max_weight
            ))),
        }
    }

    /// Runs a kernel in the device's own stream.
    ///
    /// # Safety
    /// Same as [`Device::launch`].
    pub(super) unsafe fn run<P: NoUninit>(&self, kernel: Kernel, warps: u64, parameter: &P) -> Result<()> {
        let most = if kernel == Kernel::Starts { 1 } else { self.device.full() };
        // SAFETY: the caller's contract.
        unsafe { self.device.launch(kernel, warps, most, self.device.stream(), parameter) }
    }

    pub(super) fn finish(&self) -> Result<()> {
        self.device.synchronize(self.device.stream())
    }

    /// Provides memory for one operation. Before the memory is freed, waits for all work that uses it.
    pub(super) fn with_scratch<R>(
        &self,
        bytes: u64,
        work: impl FnOnce(&DeviceBuffer) -> Result<R>,
    ) -> Result<R> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if scratch.bytes() < bytes {
            *scratch = DeviceBuffer::new(&self.device, bytes.next_power_of_two())?;
        }
        let result = work(&scratch);
        self.finish()?;
        result
    }

    fn capacity(&self) -> usize {
        usize::try_from(self.config.capacity).unwrap_or(usize::MAX)
    }
}
