//! Masses as integers: their sums are exact, regardless of the order and the number of ranks.

use crate::{Error, Result};

/// The maximum number of bits of a mass on the grid.
const MAX_UNIT_BITS: u32 = 40;

/// The maximum number of indices of all ranks together. At this number, each mass still has 24 bits.
pub const MAX_CAPACITY: u64 = 1 << 39;

/// The grid of a set of masses, which are weights to the power of their exponent: a mass m becomes the integer nearest
/// to m · 2^exponent, and at least 1 if m > 0.
///
/// The largest mass has `min(40, 63 - log2(capacity))` bits, so that the sum of all masses fits in 64 bits. For up to
/// 2²³ (8 million) indices, the unit is 2⁻⁴⁰ of the largest mass; for 2³⁰ (a billion), it is 2⁻³³. All ranks have the
/// same grid, because it depends only on the largest mass and the number of indices of all ranks. Selections are
/// refused if the mean mass is below 256 units, because rounding would change the probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    exponent: i32,
    max_mass: f32,
    scale: f64,
}

impl Grid {
    /// Creates a grid for `capacity` masses of up to `max_mass`.
    pub(crate) fn new(max_mass: f32, capacity: u64) -> Result<Self> {
        if !(max_mass.is_normal() && max_mass > 0.0) {
            return Err(Error::invalid(format!(
                "the largest mass is {max_mass}, but it must be positive and finite, and not below {}",
                f32::MIN_POSITIVE
            )));
        }
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(Error::invalid(format!(
                "{capacity} indices in total; there must be 1 to {MAX_CAPACITY}"
            )));
        }
        let capacity_bits = u64::BITS - (capacity - 1).leading_zeros();
        let bits = MAX_UNIT_BITS.min(63 - capacity_bits);
        let exponent = bits.cast_signed() - ceil_log2(max_mass);
        Ok(Self { exponent, max_mass, scale: power_of_two(exponent) })
    }

    /// Returns one unit of the grid, as a mass.
    #[must_use]
    pub fn resolution(&self) -> f64 {
        power_of_two(-self.exponent)
    }

    /// Returns the largest mass that fits on the grid.
    #[must_use]
    pub fn max_mass(&self) -> f32 {
        self.max_mass
    }

    /// Returns the number of binary digits after the point.
    #[must_use]
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// Returns 2^exponent.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the mass as an integer number of units. `mass` must be from 0 to [`max_mass`](Self::max_mass).
    #[inline(always)]
    pub(crate) fn units(&self, mass: f32) -> u64 {
        // Adding 2⁵² leaves the nearest integer (ties to even) in the low bits, with instructions that can be
        // vectorized.
        const ROUNDER: f64 = 4_503_599_627_370_496.0;
        let rounded = (f64::from(mass) * self.scale + ROUNDER).to_bits() - ROUNDER.to_bits();
        rounded.max(u64::from(mass > 0.0))
    }
}

/// Returns the smallest n with 2^n >= x, for a positive normal x.
fn ceil_log2(x: f32) -> i32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23).cast_signed() - 127;
    exponent + i32::from(bits & 0x007f_ffff != 0)
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_nearest_whole_numbers() {
        let grid = Grid::new(1024.0, 1 << 23).unwrap();
        assert_eq!(grid.exponent(), 30);
        assert_eq!(grid.units(1024.0), 1 << 40);
        assert_eq!(grid.units(0.0), 0);
        assert_eq!(grid.units(1e-30), 1, "any positive weight can be drawn");
        assert_eq!(grid.units(1.5), 3 << 29);
        assert_eq!(grid.units(2.5 * 2f32.powi(-30)), 2, "ties go to the even number");
        assert_eq!(grid.resolution(), 2f64.powi(-30));
    }

    #[test]
    fn the_sum_of_the_largest_weights_fits() {
        for capacity in [1, 2, 1_000, 1 << 23, (1 << 23) + 1, 1_000_000_000, MAX_CAPACITY] {
            for max_mass in [f32::MIN_POSITIVE, 0.1, 1.0, 1.000_001, 3e9, f32::MAX] {
                let grid = Grid::new(max_mass, capacity).unwrap();
                let units = grid.units(max_mass);
                assert!(units >= 1 << 22, "{capacity} {max_mass}: {units}");
                assert!(u128::from(units) * u128::from(capacity) < 1 << 64, "{capacity} {max_mass}");
            }
        }
    }

    #[test]
    fn invalid_grids_are_refused() {
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-40] {
            assert!(Grid::new(bad, 10).unwrap_err().to_string().contains("must be positive and finite"));
        }
        for capacity in [0, MAX_CAPACITY + 1] {
            assert!(Grid::new(1.0, capacity).unwrap_err().to_string().contains(&capacity.to_string()));
        }
    }
}
