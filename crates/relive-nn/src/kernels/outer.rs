//! Sums of outer products over rows, for gradients of weights, and sums of columns, for gradients of biases. Matrices
//! are not packed, which makes these functions fast for small matrices. On every processor, all sums are computed in
//! the order of the rows.

use pulp::{Simd, WithSimd};

/// Computes `out = aᵀ·b`, where `a` is `[rows, height]`, `b` is `[rows, width]` and `out` is `[height, width]`.
#[derive(Debug)]
pub(crate) struct OuterProducts<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) width: usize,
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for OuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (height, mut row) = (self.out.len() / self.width, 0);
        while row + 4 <= height {
            self.several::<S, 4>(simd, row);
            row += 4;
        }
        while row < height {
            self.several::<S, 1>(simd, row);
            row += 1;
        }
    }
}

impl OuterProducts<'_> {
    /// Computes `R` rows of the output.
    #[inline(always)]
    fn several<S: Simd, const R: usize>(&mut self, simd: S, row: usize) {
        let (lanes, mut column) = (S::F32_LANES, 0);
        // Four rows of four registers each hold sixteen sums. Processors with fewer registers have none left for the
        // factors.
        while S::REGISTER_COUNT >= 32 && column + 4 * lanes <= self.width {
            self.block::<S, R, 4>(simd, row, column);
            column += 4 * lanes;
        }
        while column + 2 * lanes <= self.width {
            self.block::<S, R, 2>(simd, row, column);
            column += 2 * lanes;
        }
        while column < self.width {
            self.part::<S, R>(simd, row, column, lanes.min(self.width - column));
            column += lanes;
        }
    }

    /// Returns the factors for `R` rows and `width` columns of the output.
    #[inline(always)]
    fn factors<const R: usize>(
        &self,
        row: usize,
        column: usize,
        width: usize,
    ) -> impl Iterator<Item = ([f32; R], &[f32])> {
        let height = self.out.len() / self.width;
        let rows = self.a.chunks_exact(height).zip(self.b.chunks_exact(self.width));
        rows.map(move |(a, b)| {
            let a = &a[row..row + R];
            (std::array::from_fn(|r| a[r]), &b[column..column + width])
        })
    }

    /// Computes `V` registers of `R` rows.
    #[inline(always)]
    fn block<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, row: usize, column: usize) {
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        let width = V * S::F32_LANES;
        for (a, b) in self.factors::<R>(row, column, width) {
            let b = S::as_simd_f32s(b).0;
            for (a, sums) in a.into_iter().zip(&mut sums) {
                let a = simd.splat_f32s(a);
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = simd.mul_add_f32s(a, *b, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let out = &mut self.out[(row + r) * self.width + column..][..width];
            S::as_mut_simd_f32s(out).0.copy_from_slice(sums);
        }
    }

    /// Computes at most one register of `R` rows.
    #[inline(always)]
    fn part<S: Simd, const R: usize>(&mut self, simd: S, row: usize, column: usize, width: usize) {
        let mut sums = [simd.splat_f32s(0.0); R];
        for (a, b) in self.factors::<R>(row, column, width) {
            let b = simd.partial_load_f32s(b);
            for (a, sum) in a.into_iter().zip(&mut sums) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(a), b, *sum);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            simd.partial_store_f32s(&mut self.out[(row + r) * self.width + column..][..width], *sum);
        }
    }
}

/// Writes the column sums of `rows` to `sums`.
#[derive(Debug)]
pub(crate) struct ColumnSums<'a> {
    pub(crate) rows: &'a [f32],
    pub(crate) sums: &'a mut [f32],
}

impl WithSimd for ColumnSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (width, lanes, mut column) = (self.sums.len(), S::F32_LANES, 0);
        while column + 4 * lanes <= width {
            let mut found = [simd.splat_f32s(0.0); 4];
            for row in self.rows.chunks_exact(width) {
                let row = S::as_simd_f32s(&row[column..column + 4 * lanes]).0;
                found.iter_mut().zip(row).for_each(|(sum, number)| *sum = simd.add_f32s(*sum, *number));
            }
            S::as_mut_simd_f32s(&mut self.sums[column..column + 4 * lanes]).0.copy_from_slice(&found);
            column += 4 * lanes;
        }
        while column < width {
            let end = width.min(column + lanes);
            let mut found = simd.splat_f32s(0.0);
            for row in self.rows.chunks_exact(width) {
                found = simd.add_f32s(found, simd.partial_load_f32s(&row[column..end]));
            }
            simd.partial_store_f32s(&mut self.sums[column..end], found);
            column = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wide;
    use super::*;

    #[test]
    fn sums_are_correct_and_identical_on_every_processor() {
        let numbers: Vec<f32> = (0..3000_u16).map(|n| (f32::from(n) * 0.7).sin()).collect();
        for (rows, height, width) in [(1, 1, 1), (5, 2, 3), (7, 1, 20), (3, 6, 37), (6, 5, 100)] {
            let (a, b) = (&numbers[..rows * height], &numbers[1000..1000 + rows * width]);
            let (mut fast, mut plain) = (vec![1.0; height * width], vec![1.0; height * width]);
            wide(OuterProducts { a, b, width, out: &mut fast });
            OuterProducts { a, b, width, out: &mut plain }.with_simd(pulp::Scalar);
            assert_eq!(fast, plain);
            for (place, found) in fast.iter().enumerate() {
                let (i, j) = (place / width, place % width);
                let expected: f32 = (0..rows).map(|r| a[r * height + i] * b[r * width + j]).sum();
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            let (mut fast, mut plain) = (vec![1.0; width], vec![1.0; width]);
            wide(ColumnSums { rows: b, sums: &mut fast });
            ColumnSums { rows: b, sums: &mut plain }.with_simd(pulp::Scalar);
            assert_eq!(fast, plain);
            let expected = |column: usize| b.chunks_exact(width).map(|row| row[column]).sum::<f32>();
            assert!((0..width).all(|column| fast[column] == expected(column)));
        }
    }
}
