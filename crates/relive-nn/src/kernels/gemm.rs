//! Matrix products with the crate `gemm`. This is the only module with unsafe code.

/// A matrix over a slice, row-major or transposed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Creates a row-major matrix of consecutive rows.
    ///
    /// # Panics
    /// If the slice does not have exactly `rows · columns` numbers.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a {rows} x {columns} matrix in {} numbers", data.len());
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Returns the transposed matrix over the same numbers.
    pub(crate) fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// How the previous contents of the target are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The product overwrites them.
    Overwrite,
    /// The product is added to the previous contents.
    Add,
}

/// Computes `out = a·b` or `out += a·b`, where `out` is row-major.
///
/// # Panics
/// If the sizes do not match.
pub(crate) fn multiply(out: &mut [f32], target: Target, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!(a.columns, b.rows, "the inner sizes of a product differ");
    assert_eq!(out.len(), a.rows * b.columns, "the product and its target differ in size");
    if out.is_empty() {
        return;
    }
    call(out, target, a, b);
}

/// Returns the strides as `isize`. Slices are at most `isize::MAX` bytes long.
#[expect(clippy::cast_possible_wrap, reason = "strides are less than the lengths of slices")]
fn stride(stride: usize) -> isize {
    stride as isize
}

#[expect(unsafe_code, reason = "the crate's interface takes pointers and strides")]
fn call(out: &mut [f32], target: Target, a: Matrix<'_>, b: Matrix<'_>) {
    // SAFETY: `Matrix` holds exactly rows·columns numbers in one of the two dense orders (its only constructor asserts
    // this, and transposing swaps sizes and strides together), so every index below the sizes lies in its slice.
    // `multiply` has asserted that the inner sizes agree and that `out` has rows·columns numbers. `out` is borrowed
    // mutably, so it does not overlap `a` or `b`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            stride(b.columns),
            target == Target::Add,
            a.data.as_ptr(),
            stride(a.column_stride),
            stride(a.row_stride),
            b.data.as_ptr(),
            stride(b.column_stride),
            stride(b.row_stride),
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
        let at = |m: Matrix<'_>, i: usize, j: usize| m.data[i * m.row_stride + j * m.column_stride];
        let cell = |i, j| (0..a.columns).map(|k| at(a, i, k) * at(b, k, j)).sum();
        (0..a.rows).flat_map(|i| (0..b.columns).map(move |j| (i, j))).map(|(i, j)| cell(i, j)).collect()
    }

    #[test]
    fn products_are_correct_in_all_orders() {
        let numbers: Vec<f32> = (0..1000_u16).map(|n| f32::from(n * 7 % 13) - 6.0).collect();
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (32, 17, 9), (1, 8, 20)] {
            let variants = |rows, columns| {
                let data = &numbers[..rows * columns];
                [Matrix::new(data, rows, columns), Matrix::new(data, columns, rows).transposed()]
            };
            for (a, b) in variants(m, k).into_iter().flat_map(|a| variants(k, n).map(|b| (a, b))) {
                let mut out = vec![1.0; m * n];
                multiply(&mut out, Target::Overwrite, a, b);
                assert_eq!(out, naive(a, b));
                multiply(&mut out, Target::Add, a, b);
                let twice: Vec<f32> = naive(a, b).iter().map(|v| v * 2.0).collect();
                assert_eq!(out, twice);
            }
        }
    }

    #[test]
    #[should_panic(expected = "inner sizes")]
    fn sizes_that_do_not_fit_are_refused() {
        let data = [0.0; 6];
        multiply(&mut [0.0; 4], Target::Add, Matrix::new(&data, 2, 3), Matrix::new(&data[..4], 2, 2));
    }
}
