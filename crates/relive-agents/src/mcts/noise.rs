//! Noise from a Dirichlet distribution.

use relive_nn::Stream;

/// Draws shares that add up to 1 from the symmetric Dirichlet distribution in `count` dimensions.
#[expect(clippy::cast_possible_truncation, reason = "priors are float32")]
pub(super) fn dirichlet(count: usize, alpha: f32, stream: &mut Stream) -> Vec<f32> {
    let drawn: Vec<f64> = (0..count).map(|_| gamma(f64::from(alpha), stream)).collect();
    let sum: f64 = drawn.iter().sum();
    // With a tiny α all numbers may underflow.
    let even = 1.0 / f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    drawn.iter().map(|share| if sum > 0.0 { share / sum } else { even } as f32).collect()
}

/// Draws a sample from the gamma distribution with this shape (Marsaglia and Tsang 2000).
fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - stream.uniform()).powf(1.0 / shape);
        return boost * gamma(shape + 1.0, stream);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = stream.normal();
        let cube = (1.0 + c * normal).powi(3);
        let bound = 0.5 * normal * normal + d - d * cube + d * cube.ln();
        if cube > 0.0 && (1.0 - stream.uniform()).ln() < bound {
            return d * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_nn::Key;

    use super::*;

    #[test]
    fn dirichlet_noise_has_the_expected_mean_and_variance() {
        let mut stream = Key::from_seed(1).stream();
        for alpha in [0.3_f32, 1.0, 5.0] {
            let drawn: Vec<f64> =
                (0..20_000).map(|_| f64::from(dirichlet(4, alpha, &mut stream)[0])).collect();
            let mean = drawn.iter().sum::<f64>() / 20_000.0;
            let variance = drawn.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = 0.25 * 0.75 / (4.0 * f64::from(alpha) + 1.0);
            assert!((mean - 0.25).abs() < 0.01, "{alpha}: {mean}");
            assert!((variance / expected - 1.0).abs() < 0.06, "{alpha}: {variance} for {expected}");
        }
    }
}
