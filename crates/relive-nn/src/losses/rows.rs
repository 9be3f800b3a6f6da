use crate::kernels::{math, wide};
use relive_random::Stream;

/// Returns the index of the first of the largest numbers.
///
/// # Panics
/// If there are no numbers.
pub fn argmax(values: &[f32]) -> usize {
    assert!(!values.is_empty(), "the largest of no numbers");
    let better = |best: usize, index: usize| if values[index] > values[best] { index } else { best };
    (1..values.len()).fold(0, better)
}

/// Returns the index of one of the largest numbers, breaking ties at random, as for the action of a greedy policy.
///
/// # Panics
/// If there are no numbers.
pub fn greedy(values: &[f32], stream: &mut Stream) -> usize {
    let best = values[argmax(values)];
    let ties = || values.iter().enumerate().filter(|(_, value)| **value == best).map(|(index, _)| index);
    match ties().count() {
        0 | 1 => argmax(values),
        count => ties().nth(stream.below(count)).unwrap_or_default(),
    }
}

/// Returns ln Σ eˣ, without overflow.
pub(super) fn log_sum_exp(values: &[f32]) -> f32 {
    let max = values.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
    max + values.iter().map(|value| (value - max).exp()).sum::<f32>().ln()
}

/// Computes the probabilities of rows of `width` logits each: eˣ / Σ eˣ.
///
/// # Panics
/// If `width` is 0.
pub fn softmax(logits: &[f32], width: usize, probabilities: &mut Vec<f32>) {
    probabilities.clear();
    probabilities.extend_from_slice(logits);
    for row in probabilities.chunks_exact_mut(width) {
        let max = row.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
        // The maximum ignores NaN, but the sum does not.
        wide(|| row.iter_mut().for_each(|value| *value = math::exp(*value - max)));
        let factor = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Returns the number of elements per row, for `len` elements in `rows` rows.
///
/// # Panics
/// If the rows cannot have the same number of elements.
pub(super) fn width(len: usize, rows: usize) -> usize {
    assert!(len.is_multiple_of(rows), "{len} numbers are not {rows} rows of the same length");
    len / rows.max(1)
}

#[expect(clippy::cast_precision_loss, reason = "batches, atoms and samples are far below 2^24")]
pub(super) fn count(len: usize) -> f32 {
    len as f32
}

/// Returns the importance weights of prioritized samples (Schaul et al. 2016): `(1/pᵢ)^β`, divided by the largest
/// weight of the batch.
pub fn importance_weights(probabilities: &[f32], exponent: f32) -> Vec<f32> {
    let mut weights: Vec<f32> = probabilities.iter().map(|p| p.recip().powf(exponent)).collect();
    let largest = weights.iter().fold(0.0_f32, |max, weight| max.max(*weight));
    weights.iter_mut().for_each(|weight| *weight /= largest);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn probabilities_sum_to_one() {
        let mut found = Vec::new();
        softmax(&[0.0, 2.0_f32.ln(), 500.0, 0.0], 2, &mut found);
        let near = |(got, want): (&f32, f32)| (got - want).abs() < 1e-6;
        assert!(found.iter().zip([1.0 / 3.0, 2.0 / 3.0, 1.0, 0.0]).all(near), "{found:?}");
        softmax(&[f32::NAN, 1.0], 2, &mut found);
        assert!(found.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn ties_are_broken_evenly() {
        let mut stream = Key::from_seed(1).stream();
        let mut seen = [0; 4];
        (0..3000).for_each(|_| seen[greedy(&[1.0, 2.0, 2.0, 2.0], &mut stream)] += 1);
        assert_eq!(seen[0], 0);
        assert!(seen[1..].iter().all(|count| (900..1100).contains(count)), "{seen:?}");
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(greedy(&[f32::NAN, 1.0], &mut stream), 0);
    }
}
