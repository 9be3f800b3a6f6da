//! Weights of indices, with sums that are kept up to date.

use std::sync::LazyLock;
use std::thread;

use relive_threads::Pool;

use super::grid::Grid;
use super::math;
use super::sums::{Measure, RUN, Sums};
use crate::{Error, Result};

/// The maximum exponent of priorities.
pub const MAX_EXPONENT: f32 = 16.0;

/// The minimum number of indices per thread; for fewer, another thread costs more than it saves.
const INDICES_PER_THREAD: usize = 1 << 16;

/// The number of threads that can run in parallel. It is cached, because determining it requires reading files.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// The configuration of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightsConfig {
    /// The number of indices of this rank.
    pub capacity: u64,
    /// The number of indices of all ranks. It determines the grid, and must be the same everywhere.
    pub total_capacity: u64,
    /// The global index of this rank's index 0.
    pub first: u64,
    /// The largest weight that will ever be set. The weight and the exponent determine the grid of masses; see [`Grid`]
    /// for the resolution. If it is far above the actual weights, weighted selections are refused, because they would
    /// use coarsely rounded weights.
    pub max_weight: f32,
    /// α: the mass of an index is its weight to this power, by [`power`](super::power). 1 leaves weights unchanged, and
    /// 0 makes the masses of all positive weights equal. Weight 0 has mass 0 with every exponent.
    pub exponent: f32,
    /// The number of threads for operations over all indices; 0 means one for each processor.
    pub threads: usize,
}

impl WeightsConfig {
    /// Creates a configuration for weights up to 65,536, and for one rank that owns all indices.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { capacity, total_capacity: capacity, first: 0, max_weight: 65_536.0, exponent: 1.0, threads: 0 }
    }

    pub(crate) fn grid(&self) -> Result<Grid> {
        let end = self.first.checked_add(self.capacity);
        if self.capacity == 0 || end.is_none_or(|end| end > self.total_capacity) {
            let Self { capacity, total_capacity, first, .. } = self;
            return Err(Error::invalid(format!(
                "{capacity} indices starting at index {first}, of {total_capacity} in total; there must be at \
                 least one, and all must be below the total"
            )));
        }
        if !(0.0..=MAX_EXPONENT).contains(&self.exponent) {
            return Err(Error::invalid(format!(
                "the exponent of weights is {}, but it must be between 0 and {MAX_EXPONENT}",
                self.exponent
            )));
        }
        if !(self.max_weight.is_normal() && self.max_weight > 0.0) {
            return Err(Error::invalid(format!(
                "the largest weight is {}, but it must be positive and finite, and not below {}",
                self.max_weight,
                f32::MIN_POSITIVE
            )));
        }
        // Powers are monotone except in the last bit, so this allows for it with the smallest factor above 1.
        let room = if self.exponent == 1.0 { 1.0 } else { 1.0 + f32::EPSILON };
        let max_mass = math::power(self.max_weight, self.exponent) * room;
        if !max_mass.is_finite() {
            return Err(Error::invalid(format!(
                "max_weight {} to the power of {} is above {:e}, the largest mass; give a lower max_weight, \
                 close to the largest expected weight",
                self.max_weight,
                self.exponent,
                f32::MAX
            )));
        }
        Grid::new(max_mass, self.total_capacity)
    }
}

/// The weights of a rank's indices.
///
/// An update changes three sums; a draw takes four short searches. Sums are over integers (see [`Grid`]), so they do
/// not depend on the order of updates, and the sums of ranks add up to the sums of one rank with all indices. Indices
/// with weight 0 are never selected.
///
/// ```
/// use relive_gpu::select::{Weights, WeightsConfig};
///
/// let mut weights = Weights::new(WeightsConfig::new(1_000))?;
/// weights.update(&[3, 7], &[0.5, 1.5])?;
/// assert_eq!((weights.selectable(), weights.mass()), (2, 2.0));
/// assert!(weights.update(&[3], &[f32::NAN]).is_err());
/// # Ok::<(), relive_gpu::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    config: WeightsConfig,
    grid: Grid,
    weights: Vec<f32>,
    /// Powers of the weights, if the exponent is not 1.
    powers: Option<Vec<f32>>,
    pub(crate) units: Sums,
    pub(crate) counts: Sums,
}

impl Weights {
    /// Starts with all weights set to 0.
    ///
    /// # Errors
    /// A capacity, the largest weight or the exponent is out of range.
    pub fn new(config: WeightsConfig) -> Result<Self> {
        let grid = config.grid()?;
        let capacity = usize::try_from(config.capacity)
            .map_err(|_| Error::invalid(format!("{} indices do not fit in memory", config.capacity)))?;
        let sums = Sums::of_runs(vec![0; capacity.div_ceil(RUN)]);
        let powers = (config.exponent != 1.0).then(|| vec![0.0; capacity]);
        Ok(Self { config, grid, weights: vec![0.0; capacity], powers, units: sums.clone(), counts: sums })
    }

    /// Returns the configuration of the weights.
    #[must_use]
    pub fn config(&self) -> &WeightsConfig {
        &self.config
    }

    /// Returns the grid of the weights' masses.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the weights, by index within the rank.
    #[must_use]
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Returns the weights to the power of the exponent, by index within the rank.
    #[must_use]
    pub fn masses(&self) -> &[f32] {
        self.powers.as_deref().unwrap_or(&self.weights)
    }

    /// Returns the number of indices with a positive weight.
    #[must_use]
    pub fn selectable(&self) -> u64 {
        self.counts.total()
    }

    /// Returns the sum of all masses, rounded to f64.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the sum is only for display; draws use whole units")]
    pub fn mass(&self) -> f64 {
        self.units.total() as f64 * self.grid.resolution()
    }

    /// Sets the weights of these global indices. If one weight is refused, no weight is set. If an index occurs several
    /// times, its last weight counts.
    ///
    /// # Errors
    /// The lists differ in length, an index does not belong to this rank, or a weight is negative, NaN, or above the
    /// largest.
    pub fn update(&mut self, indices: &[u64], weights: &[f32]) -> Result<()> {
        check_update(&self.config, indices, weights)?;
        for (index, weight) in indices.iter().zip(weights) {
            #[expect(clippy::cast_possible_truncation, reason = "the number is below the capacity")]
            self.set((index - self.config.first) as usize, *weight);
        }
        Ok(())
    }

    /// Sets all weights at once, by index within the rank.
    ///
    /// # Errors
    /// The number of weights is not the capacity, or a weight is refused as in [`update`](Self::update).
    pub fn load(&mut self, weights: &[f32]) -> Result<()> {
        check_all(&self.config, weights)?;
        self.weights.copy_from_slice(weights);
        self.rescan();
        Ok(())
    }

    /// Returns the number of threads for work over all indices.
    pub(crate) fn threads(&self) -> usize {
        let wanted = match self.config.threads {
            0 => *PROCESSORS,
            threads => threads,
        };
        wanted.min(self.weights.len().div_ceil(INDICES_PER_THREAD)).max(1)
    }

    pub(crate) fn sums(&self, measure: Measure) -> &Sums {
        match measure {
            Measure::Units => &self.units,
            Measure::Count => &self.counts,
        }
    }

    #[inline(always)]
    fn set(&mut self, local: usize, weight: f32) {
        let (mass, old) = match &mut self.powers {
            None => (weight, self.weights[local]),
            Some(powers) => {
                let mass = mass_of(weight, self.config.exponent);
                (mass, std::mem::replace(&mut powers[local], mass))
            }
        };
        self.weights[local] = weight;
        self.units.replace(local, self.grid.units(old), self.grid.units(mass));
        let counted = |mass: f32| u64::from(mass > 0.0);
        if counted(old) != counted(mass) {
            self.counts.replace(local, counted(old), counted(mass));
        }
    }

    /// Recomputes powers and sums from the weights, on as many threads as are worthwhile.
    fn rescan(&mut self) {
        let per_thread = self.weights.len().div_ceil(RUN).div_ceil(self.threads());
        let (grid, exponent) = (self.grid, self.config.exponent);
        if let Some(powers) = &mut self.powers {
            let parts = powers.chunks_mut(per_thread * RUN).zip(self.weights.chunks(per_thread * RUN));
            Pool::of_process().map(parts, |(powers, weights)| {
                for (power, weight) in powers.iter_mut().zip(weights) {
                    *power = mass_of(*weight, exponent);
                }
            });
        }
        let masses = self.powers.as_deref().unwrap_or(&self.weights);
        let [mut units, mut counts] =
            [&mut self.units, &mut self.counts].map(|sums| std::mem::take(sums).into_runs());
        let parts = units.chunks_mut(per_thread).zip(counts.chunks_mut(per_thread));
        Pool::of_process().map(parts.zip(masses.chunks(per_thread * RUN)), |((units, counts), masses)| {
            sum_runs(&grid, masses, units, counts);
        });
        (self.units, self.counts) = (Sums::of_runs(units), Sums::of_runs(counts));
    }
}

/// Joins lists. A single list is not copied.
pub(super) fn joined<T: Copy>(mut lists: Vec<Vec<T>>) -> Vec<T> {
    if lists.len() == 1 { lists.swap_remove(0) } else { lists.concat() }
}

/// Checks an update against this configuration.
pub(crate) fn check_update(config: &WeightsConfig, indices: &[u64], weights: &[f32]) -> Result<()> {
    let WeightsConfig { capacity, first, .. } = *config;
    if indices.len() != weights.len() {
        let [indices, weights] = [indices.len(), weights.len()];
        return Err(Error::invalid(format!(
            "got {indices} indices with {weights} weights; pass one for each"
        )));
    }
    for (position, (index, weight)) in indices.iter().zip(weights).enumerate() {
        check_weight(config, *weight, || format!("entry {position} of an update (index {index})"))?;
        if index.checked_sub(first).is_none_or(|local| local >= capacity) {
            return Err(Error::invalid(format!(
                "entry {position} of an update has index {index}, but this rank has the indices {first} to {}",
                first + capacity - 1
            )));
        }
    }
    Ok(())
}

/// Checks that these weights are valid as the complete weights of a rank.
pub(crate) fn check_all(config: &WeightsConfig, weights: &[f32]) -> Result<()> {
    if weights.len() as u64 != config.capacity {
        return Err(Error::invalid(format!(
            "got {} weights for {} indices; pass one for each",
            weights.len(),
            config.capacity
        )));
    }
    for (index, weight) in weights.iter().enumerate() {
        check_weight(config, *weight, || format!("the weight of index {index} within the rank"))?;
    }
    Ok(())
}

fn check_weight(config: &WeightsConfig, weight: f32, place: impl Fn() -> String) -> Result<()> {
    let max = config.max_weight;
    if (0.0..=max).contains(&weight) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is {weight}, but weights must be between 0 and {max}, the largest weight at creation; lower it, or \
         create the store with a larger max_weight",
        place()
    )))
}

/// Returns the mass of a weight: 0 stays 0.
#[inline(always)]
pub(crate) fn mass_of(weight: f32, exponent: f32) -> f32 {
    if weight > 0.0 { math::power(weight, exponent) } else { 0.0 }
}

fn sum_runs(grid: &Grid, masses: &[f32], units: &mut [u64], counts: &mut [u64]) {
    for ((masses, units), counts) in masses.chunks(RUN).zip(units).zip(counts) {
        *units = masses.iter().map(|mass| grid.units(*mass)).sum();
        *counts = masses.iter().map(|mass| u64::from(*mass > 0.0)).sum();
    }
}
