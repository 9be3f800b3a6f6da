use relive_random::Stream;

/// The initialization of a leaf.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All numbers are equal.
    Constant(f32),
    /// Numbers are uniform in `[-1/√fan_in, 1/√fan_in]`, PyTorch's default for weights and biases of linear and
    /// convolutional layers. For an LSTM, PyTorch's default has the bound 1/√units instead.
    PyTorch {
        /// The number of inputs per output.
        fan_in: usize,
    },
    /// The rows or the columns, whichever are fewer, are orthogonal, with norm `gain` (Saxe et al. 2014). The numbers
    /// form a matrix with `columns` columns.
    Orthogonal {
        /// The number of columns in the matrix.
        columns: usize,
        /// The norm of the rows or columns.
        gain: f32,
    },
    /// A variance of `scale / fan`, as in Haiku, Sonnet and TensorFlow.
    VarianceScaling {
        /// The numerator of the variance.
        scale: f32,
        /// The divisor: the number of the layer's inputs or outputs.
        fan: usize,
        /// The distribution.
        distribution: Distribution,
    },
}

/// The distribution of [`Init::VarianceScaling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform in `±√(3·variance)`.
    Uniform,
    /// A normal distribution truncated at two standard deviations, widened so that the variance is correct after
    /// truncation.
    TruncatedNormal,
}

/// The standard deviation of a standard normal distribution truncated at ±2.
const TRUNCATED_STDDEV: f64 = 0.879_625_661_034_239_8;

impl Init {
    pub(crate) fn fill(self, values: &mut [f32], stream: &mut Stream) {
        match self {
            Self::Constant(value) => values.fill(value),
            Self::PyTorch { fan_in } => uniform(values, stream, 1.0 / root(fan_in)),
            Self::Orthogonal { columns, gain } => orthogonal(values, columns, gain, stream),
            Self::VarianceScaling { scale, fan, distribution } => {
                let stddev = f64::from(scale).sqrt() / root(fan);
                match distribution {
                    Distribution::Uniform => uniform(values, stream, 3.0_f64.sqrt() * stddev),
                    Distribution::TruncatedNormal => {
                        let factor = stddev / TRUNCATED_STDDEV;
                        fill_with(values, || stream.truncated_normal() * factor);
                    }
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "fans are far below 2^52")]
fn root(fan: usize) -> f64 {
    (fan.max(1) as f64).sqrt()
}

fn uniform(values: &mut [f32], stream: &mut Stream, bound: f64) {
    fill_with(values, || (2.0 * stream.uniform() - 1.0) * bound);
}

/// Draws normal vectors, and makes them orthonormal one after the other (Gram–Schmidt), in f64.
#[expect(clippy::cast_possible_truncation, reason = "f32 is what parameters are")]
fn orthogonal(values: &mut [f32], columns: usize, gain: f32, stream: &mut Stream) {
    let rows = values.len() / columns.max(1);
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| stream.normal()).collect();
        for other in &basis {
            let along = dot(&vector, other);
            vector.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
        }
        let norm = dot(&vector, &vector).sqrt();
        // A vector that is almost in the span of the previous vectors would consist of rounding errors, so another
        // vector is drawn.
        if norm > 1e-6 {
            vector.iter_mut().for_each(|value| *value /= norm);
            basis.push(vector);
        }
    }
    for (index, value) in values.iter_mut().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let (vector, place) = if rows <= columns { (row, column) } else { (column, row) };
        *value = gain * basis[vector][place] as f32;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[expect(clippy::cast_possible_truncation, reason = "f32 is what parameters are")]
fn fill_with(values: &mut [f32], mut draw: impl FnMut() -> f64) {
    values.iter_mut().for_each(|value| *value = draw() as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_random::Key;

    fn variance(init: Init) -> (f32, f32) {
        let mut values = vec![0.0; 50_000];
        init.fill(&mut values, &mut Key::from_seed(1).stream());
        let largest = values.iter().fold(0.0_f32, |max, v| max.max(v.abs()));
        (values.iter().map(|v| v * v).sum::<f32>() / 50_000.0, largest)
    }

    #[test]
    fn orthogonal_vectors_have_the_requested_length() {
        for (rows, columns) in [(4, 64), (64, 64), (64, 2), (3, 1)] {
            let mut values = vec![0.0; rows * columns];
            Init::Orthogonal { columns, gain: 2.0 }.fill(&mut values, &mut Key::from_seed(3).stream());
            let at = |vector: usize, place: usize| {
                values[if rows <= columns { vector * columns + place } else { place * columns + vector }]
            };
            let product = |a, b| (0..rows.max(columns)).map(|place| at(a, place) * at(b, place)).sum::<f32>();
            for a in 0..rows.min(columns) {
                for b in 0..=a {
                    let expected = if a == b { 4.0 } else { 0.0 };
                    assert!((product(a, b) - expected).abs() < 1e-4, "{rows} x {columns}: {a} and {b}");
                }
            }
        }
    }

    #[test]
    fn initializers_have_the_requested_variance() {
        let scaling = |distribution| Init::VarianceScaling { scale: 0.333, fan: 64, distribution };
        for distribution in [Distribution::Uniform, Distribution::TruncatedNormal] {
            let (variance, _) = variance(scaling(distribution));
            assert!((variance / (0.333 / 64.0) - 1.0).abs() < 0.03, "{distribution:?} {variance}");
        }
        let (_, largest) = variance(Init::PyTorch { fan_in: 64 });
        assert!(largest <= 0.125 && largest > 0.124, "{largest}");
    }
}
