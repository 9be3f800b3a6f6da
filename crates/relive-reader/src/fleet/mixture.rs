//! Weighted draws of the server from which to request a sample.
//!
//! A server's weight is the total weight of its selector: the number of items in its table or, for a prioritized
//! selector, the sum of its priorities raised to the exponent. An item's probability is then the same as if all servers
//! were one table. Servers do not report this sum, so it is computed from the priority and the probability of a sample.

use rand::{Rng, RngExt};
use relive_batch::SampleInfo;
use relive_fleet::TableFacts;

/// Returns the average weight of an item, computed from a sample of the table.
pub(super) fn weight_per_item(facts: TableFacts, sample: &SampleInfo) -> Option<f64> {
    let weight = sample.priority.powf(facts.exponent?);
    let whole = sample.probability * count(sample.table_size);
    let per_item = weight / whole;
    (per_item.is_finite() && per_item > 0.0).then_some(per_item)
}

/// Converts the sizes and average weights of all servers' tables to the weight of each server. A server with an unknown
/// average is assigned the average of the others.
pub(super) fn weights(tables: &[(u64, Option<f64>)]) -> Vec<f64> {
    let known =
        tables.iter().filter_map(|(size, per_item)| per_item.map(|per_item| (count(*size), per_item)));
    let (items, weight) = known
        .fold((0.0, 0.0), |(items, weight), (size, per_item)| (items + size, size.mul_add(per_item, weight)));
    let usual = if items > 0.0 { weight / items } else { 1.0 };
    tables.iter().map(|(size, per_item)| count(*size) * per_item.unwrap_or(usual)).collect()
}

/// Draws an index with a probability proportional to its weight, or uniformly if all weights are 0. Returns `None` if
/// there are no weights.
pub(super) fn draw(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return (!weights.is_empty()).then(|| rng.random_range(0..weights.len()));
    }
    let mut left = rng.random::<f64>() * total;
    for (place, weight) in weights.iter().enumerate() {
        if left < *weight {
            return Some(place);
        }
        left -= weight;
    }
    // Rounding can leave a small remainder.
    weights.iter().rposition(|weight| *weight > 0.0)
}

/// Converts a size to a float. Tables have far fewer than 2^53 items, so this is exact.
#[expect(clippy::cast_precision_loss, reason = "sizes of tables")]
pub(super) fn count(size: u64) -> f64 {
    size as f64
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use relive_table::SelectorKind;

    use super::*;

    /// Returns the sum of (observed - expected)^2 / expected over the servers with a positive weight.
    fn chi_square(observed: &[u64], weights: &[f64]) -> f64 {
        let draws: u64 = observed.iter().sum();
        let total: f64 = weights.iter().sum();
        let parts =
            observed.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(observed, weight)| {
                let expected = count(draws) * weight / total;
                (count(*observed) - expected).powi(2) / expected
            });
        parts.sum()
    }

    fn drawn(weights: &[f64], draws: usize, seed: u64) -> Vec<u64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut counts = vec![0; weights.len()];
        for _ in 0..draws {
            counts[draw(weights, &mut rng).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [100.0, 300.0, 0.0, 50.0, 550.0];
        let counts = drawn(&weights, 100_000, 7);
        assert_eq!(counts[2], 0);
        // With 3 degrees of freedom, 16.27 is exceeded once in a thousand cases.
        let statistic = chi_square(&counts, &weights);
        assert!(statistic < 16.27, "{statistic}: {counts:?}");
        assert!(
            chi_square(&counts, &[110.0, 290.0, 0.0, 50.0, 550.0]) > 16.27,
            "the test can distinguish these weights"
        );
    }

    #[test]
    fn servers_without_items_are_drawn_uniformly() {
        let counts = drawn(&[0.0; 4], 40_000, 3);
        let statistic = chi_square(&counts, &[1.0; 4]);
        assert!(statistic < 16.27, "{statistic}: {counts:?}");
        assert_eq!(draw(&[], &mut Xoshiro256PlusPlus::seed_from_u64(1)), None);
    }

    #[test]
    fn servers_are_weighted_by_the_sum_of_their_priorities() {
        let facts = TableFacts::new(4, SelectorKind::Prioritized { exponent: 0.5 });
        // Priorities 1, 4, 9 and 16: their square roots add up to 10.
        let sample = |priority: f64, probability| SampleInfo {
            key: 1,
            probability,
            table_size: 4,
            priority,
            times_sampled: 1,
            rate_limited: false,
        };
        for (priority, probability) in [(1.0, 0.1), (16.0, 0.4)] {
            let per_item = weight_per_item(facts, &sample(priority, probability)).unwrap();
            assert!((per_item - 2.5).abs() < 1e-12, "{per_item}");
        }
        assert_eq!(
            weight_per_item(facts, &sample(0.0, 0.25)),
            None,
            "all priorities are 0, so the sample contains no information"
        );
        assert_eq!(weight_per_item(TableFacts::new(4, SelectorKind::Uniform), &sample(1.0, 0.1)), None);
        let weights = weights(&[(4, Some(2.5)), (2, Some(1.0)), (6, None)]);
        assert_eq!(weights, [10.0, 2.0, 12.0]);
    }
}
