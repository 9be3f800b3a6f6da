//! Products for layers with few outputs, such as a value or the scores of a few actions. For such layers, a general
//! matrix product spends most of its time on packing. Weights are transposed, `[outputs, inputs]`, and all sums are
//! computed in the same order on every processor.

use pulp::{Simd, WithSimd};

/// The maximum number of outputs of a narrow layer.
pub(crate) const NARROW: usize = 4;

/// The number of lanes in sums over inputs.
const LANES: usize = 16;

/// Computes `out += x·weightᵀ`, where `x` is `[rows, inputs]` and `out` is `[rows, outputs]`.
#[derive(Debug)]
pub(crate) struct AddOutputs<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) inputs: usize,
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for AddOutputs<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let outputs = self.weight.len() / self.inputs;
        let rows = self.x.chunks_exact(self.inputs).zip(self.out.chunks_exact_mut(outputs));
        for (x, out) in rows {
            for (out, weight) in out.iter_mut().zip(self.weight.chunks_exact(self.inputs)) {
                *out += dot(simd, x, weight);
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let registers = LANES / S::F32_LANES;
    let mut sums = [simd.splat_f32s(0.0); LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (S::as_simd_f32s(a).0, S::as_simd_f32s(b).0);
        for register in 0..registers {
            sums[register] = simd.mul_add_f32s(a[register], b[register], sums[register]);
        }
    }
    let rest = a_rest.chunks(S::F32_LANES).zip(b_rest.chunks(S::F32_LANES));
    for (sum, (a, b)) in sums.iter_mut().zip(rest) {
        *sum = simd.mul_add_f32s(simd.partial_load_f32s(a), simd.partial_load_f32s(b), *sum);
    }
    let mut lanes = [0.0; LANES];
    S::as_mut_simd_f32s(&mut lanes).0.copy_from_slice(&sums[..registers]);
    sum(&lanes)
}

/// Adds the lanes by halves, which every processor supports.
#[inline(always)]
fn sum(lanes: &[f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|lane| lanes[lane] + lanes[lane + 8]);
    let four: [f32; 4] = std::array::from_fn(|lane| eight[lane] + eight[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Computes `out = dy·weight`, the gradient with respect to the inputs, where `dy` is `[rows, outputs]` and `out` is
/// `[rows, inputs]`.
#[derive(Debug)]
pub(crate) struct InputGradient<'a> {
    pub(crate) dy: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) inputs: usize,
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for InputGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { dy, weight, inputs, out } = self;
        let outputs = weight.len() / inputs;
        for (out, dy) in out.chunks_exact_mut(inputs).zip(dy.chunks_exact(outputs)) {
            let (registers, rest) = S::as_mut_simd_f32s(out);
            let whole = registers.len() * S::F32_LANES;
            for (at, register) in registers.iter_mut().enumerate() {
                let mut sum = simd.splat_f32s(0.0);
                for (dy, weight) in dy.iter().zip(weight.chunks_exact(inputs)) {
                    let weight = S::as_simd_f32s(&weight[at * S::F32_LANES..][..S::F32_LANES]).0[0];
                    sum = simd.mul_add_f32s(simd.splat_f32s(*dy), weight, sum);
                }
                *register = sum;
            }
            let mut sum = simd.splat_f32s(0.0);
            for (dy, weight) in dy.iter().zip(weight.chunks_exact(inputs)) {
                sum = simd.mul_add_f32s(simd.splat_f32s(*dy), simd.partial_load_f32s(&weight[whole..]), sum);
            }
            simd.partial_store_f32s(rest, sum);
        }
    }
}

/// Transposes a matrix of `rows` rows.
pub(crate) fn transpose(from: &[f32], rows: usize, to: &mut [f32]) {
    let columns = from.len() / rows.max(1);
    for (row, numbers) in from.chunks_exact(columns.max(1)).enumerate() {
        numbers.iter().enumerate().for_each(|(column, number)| to[column * rows + row] = *number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::wide;
    use super::*;

    fn both(size: usize, task: impl Fn(&mut [f32], bool)) -> Vec<f32> {
        let (mut fast, mut plain) = (vec![1.0; size], vec![1.0; size]);
        task(&mut fast, true);
        task(&mut plain, false);
        assert_eq!(fast, plain, "the result depends on the processor");
        fast
    }

    fn run(task: impl WithSimd<Output = ()>, is_wide: bool) {
        if is_wide { wide(task) } else { task.with_simd(pulp::Scalar) }
    }

    fn close(found: &[f32], expected: impl Iterator<Item = f32>) {
        let expected: Vec<f32> = expected.collect();
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 2e-5), "{found:?}\n{expected:?}");
    }

    #[test]
    fn products_are_correct_and_identical_on_every_processor() {
        let numbers: Vec<f32> = (0..5000_u16).map(|n| (f32::from(n) * 0.7).sin()).collect();
        for (rows, inputs, outputs) in [(1, 1, 1), (5, 3, 2), (4, 16, 1), (3, 50, 3), (6, 100, 4)] {
            let (x, dy) = (&numbers[..rows * inputs], &numbers[1000..1000 + rows * outputs]);
            let weight = &numbers[2000..2000 + outputs * inputs];
            let out =
                both(rows * outputs, |out, is_wide| run(AddOutputs { x, weight, inputs, out }, is_wide));
            let cell = |r: usize, o: usize| -> f32 {
                (0..inputs).map(|i| x[r * inputs + i] * weight[o * inputs + i]).sum()
            };
            close(&out, (0..rows).flat_map(|r| (0..outputs).map(move |o| 1.0 + cell(r, o))));
            let out =
                both(rows * inputs, |out, is_wide| run(InputGradient { dy, weight, inputs, out }, is_wide));
            let cell = |r: usize, i: usize| -> f32 {
                (0..outputs).map(|o| dy[r * outputs + o] * weight[o * inputs + i]).sum()
            };
            close(&out, (0..rows).flat_map(|r| (0..inputs).map(move |i| cell(r, i))));
        }
    }

    #[test]
    fn a_matrix_is_transposed() {
        let mut turned = [0.0; 6];
        transpose(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &mut turned);
        assert_eq!(turned, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
