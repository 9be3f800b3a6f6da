//! Products of rows with a matrix, row by row: the bits of a row's result do not depend on the other rows. These
//! functions do not pack matrices, which also makes them the fastest choice for few rows and for small matrices.

use pulp::{Simd, WithSimd};

/// Rows of `x`, `[rows, inputs]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) inputs: usize,
}

impl<'a> Rows<'a> {
    fn count(self) -> usize {
        self.x.len() / self.inputs
    }

    /// Returns the `R` rows that start at `from`.
    #[inline(always)]
    fn several<const R: usize>(self, from: usize) -> [&'a [f32]; R] {
        std::array::from_fn(|row| &self.x[(from + row) * self.inputs..][..self.inputs])
    }
}

/// Computes `out += x·weight`, adding the terms of each sum in the order of the inputs. `weight` is `[inputs,
/// outputs]`, and `out` is `[rows, outputs]`.
#[derive(Debug)]
pub(crate) struct AddProduct<'a> {
    pub(crate) rows: Rows<'a>,
    pub(crate) weight: &'a [f32],
    pub(crate) outputs: usize,
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for AddProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (count, mut row) = (self.rows.count(), 0);
        while row + 4 <= count {
            self.several::<S, 4>(simd, row);
            row += 4;
        }
        while row < count {
            self.several::<S, 1>(simd, row);
            row += 1;
        }
    }
}

impl AddProduct<'_> {
    /// Computes all outputs of `R` rows.
    #[inline(always)]
    fn several<S: Simd, const R: usize>(&mut self, simd: S, row: usize) {
        let (lanes, mut output) = (S::F32_LANES, 0);
        // Four rows of four registers each hold sixteen sums. Processors with fewer registers have none left for the
        // factors.
        while S::REGISTER_COUNT >= 32 && output + 4 * lanes <= self.outputs {
            self.block::<S, R, 4>(simd, row, output);
            output += 4 * lanes;
        }
        while output + 2 * lanes <= self.outputs {
            self.block::<S, R, 2>(simd, row, output);
            output += 2 * lanes;
        }
        while output < self.outputs {
            self.part::<S, R>(simd, row, output, lanes.min(self.outputs - output));
            output += lanes;
        }
    }

    /// Computes `V` registers of outputs of `R` rows.
    #[inline(always)]
    fn block<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, row: usize, output: usize) {
        let (rows, outputs, width) = (self.rows.several::<R>(row), self.outputs, V * S::F32_LANES);
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            sums.copy_from_slice(S::as_simd_f32s(&self.out[(row + r) * outputs + output..][..width]).0);
        }
        for input in 0..self.rows.inputs {
            let weights = S::as_simd_f32s(&self.weight[input * outputs + output..][..width]).0;
            for (row, sums) in rows.iter().zip(&mut sums) {
                let x = simd.splat_f32s(row[input]);
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = simd.mul_add_f32s(x, *weight, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let out = &mut self.out[(row + r) * outputs + output..][..width];
            S::as_mut_simd_f32s(out).0.copy_from_slice(sums);
        }
    }

    /// Computes at most one register of outputs of `R` rows.
    #[inline(always)]
    fn part<S: Simd, const R: usize>(&mut self, simd: S, row: usize, output: usize, width: usize) {
        let (rows, outputs) = (self.rows.several::<R>(row), self.outputs);
        let mut sums = [simd.splat_f32s(0.0); R];
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = simd.partial_load_f32s(&self.out[(row + r) * outputs + output..][..width]);
        }
        for input in 0..self.rows.inputs {
            let weights = simd.partial_load_f32s(&self.weight[input * outputs + output..][..width]);
            for (row, sum) in rows.iter().zip(&mut sums) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(row[input]), weights, *sum);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            simd.partial_store_f32s(&mut self.out[(row + r) * outputs + output..][..width], *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wide;
    use super::*;

    #[test]
    fn rows_do_not_depend_on_batching_or_processor() {
        let numbers: Vec<f32> = (0..5000_u16).map(|n| (f32::from(n) * 0.7).sin()).collect();
        for (count, inputs, outputs) in [(1, 1, 1), (9, 3, 2), (7, 20, 16), (6, 5, 37), (4, 11, 100)] {
            let (x, weight) = (&numbers[..count * inputs], &numbers[900..900 + inputs * outputs]);
            let product = |x, begin: &[f32], wide_too: bool| {
                let mut out = begin.to_vec();
                let task = AddProduct { rows: Rows { x, inputs }, weight, outputs, out: &mut out };
                if wide_too {
                    wide(task);
                } else {
                    task.with_simd(pulp::Scalar);
                }
                out
            };
            let begin = &numbers[2000..2000 + count * outputs];
            let together = product(x, begin, true);
            assert_eq!(together, product(x, begin, false));
            for row in 0..count {
                let of_row = row * outputs..(row + 1) * outputs;
                let alone = product(&x[row * inputs..][..inputs], &begin[of_row.clone()], true);
                assert_eq!(alone, together[of_row.clone()]);
                for (output, found) in alone.iter().enumerate() {
                    let products = (0..inputs).map(|i| x[row * inputs + i] * weight[i * outputs + output]);
                    let expected = begin[of_row.start + output] + products.sum::<f32>();
                    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                }
            }
        }
    }
}
