use relive_random::Stream;

/// The first of the largest numbers.
///
/// # Panics
/// If there are none.
pub fn argmax(values: &[f32]) -> usize {
    assert!(!values.is_empty(), "the largest of no numbers");
    let better = |best: usize, index: usize| if values[index] > values[best] { index } else { best };
    (1..values.len()).fold(0, better)
}

/// One of the largest numbers, each of them as likely: the action of a greedy policy.
///
/// # Panics
/// If there are none.
pub fn greedy(values: &[f32], stream: &mut Stream) -> usize {
    let best = values[argmax(values)];
    let ties = || values.iter().enumerate().filter(|(_, value)| **value == best).map(|(index, _)| index);
    match ties().count() {
        0 | 1 => argmax(values),
        count => ties().nth(stream.below(count)).unwrap_or_default(),
    }
}

/// ln Σ eˣ, without overflow.
pub(super) fn log_sum_exp(values: &[f32]) -> f32 {
    let max = values.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
    max + values.iter().map(|value| (value - max).exp()).sum::<f32>().ln()
}

#[expect(clippy::cast_precision_loss, reason = "batches, atoms and samples are far below 2^24")]
pub(super) fn count(len: usize) -> f32 {
    len as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

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
