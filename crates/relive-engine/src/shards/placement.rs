//! Maps items to shards, and bounds the items of each shard.

/// Returns which of the `shards` shards an item belongs to.
///
/// Keys are usually random, but a writer may also use consecutive numbers. All bits are therefore mixed (as in the last
/// step of MurmurHash3), with a function different from the one that the shards' own hash tables use.
pub(super) fn shard_of(key: u64, shards: usize) -> usize {
    let mut mixed = key;
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^= mixed >> 33;
    let place = (u128::from(mixed) * shards as u128) >> 64;
    usize::try_from(place).expect("the product's upper half is below the number of shards")
}

/// Divides `max_size` evenly among shards that hold `held` items. A shard that holds more than its share nevertheless
/// keeps its items if the other shards need less than theirs. An uneven distribution of keys alone therefore evicts
/// nothing. Each shard gets at least 1.
pub(super) fn divide(max_size: u64, held: &[u64]) -> Vec<u64> {
    let least = least_sizes(max_size, held);
    let mut fullest_first: Vec<usize> = (0..least.len()).collect();
    fullest_first.sort_by_key(|&shard| std::cmp::Reverse(least[shard]));
    let mut sizes = vec![0; least.len()];
    let mut left = max_size;
    for (shard, others) in fullest_first.into_iter().zip((0..least.len() as u64).rev()) {
        sizes[shard] = least[shard].max(left.div_ceil(others + 1));
        left -= sizes[shard];
    }
    sizes
}

/// Returns the minimum share of each shard, which is at least one item. The sum is at most `max_size`, which is at
/// least the number of shards.
fn least_sizes(max_size: u64, held: &[u64]) -> Vec<u64> {
    let mut least = vec![1; held.len()];
    if held.iter().sum::<u64>() > max_size {
        return least;
    }
    least.iter_mut().zip(held).for_each(|(least, &items)| *least = items.max(1));
    // Runs at most once for each empty shard.
    for _ in max_size..least.iter().sum() {
        least.iter_mut().max().into_iter().for_each(|most| *most -= 1);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shards_get_the_remainder() {
        assert_eq!(divide(10, &[0; 4]), [3, 3, 2, 2]);
        assert_eq!(divide(4, &[0; 4]), [1, 1, 1, 1]);
        assert_eq!(divide(7, &[0]), [7]);
    }

    #[test]
    fn current_shard_sizes_are_kept_if_they_fit() {
        assert_eq!(divide(10, &[1, 5, 2, 2]), [1, 5, 2, 2]);
        assert_eq!(divide(100, &[26, 24, 25, 25]), [26, 24, 25, 25]);
        assert_eq!(divide(8, &[5, 1, 1, 0]), [5, 1, 1, 1]);
        assert_eq!(divide(8, &[6, 1, 1, 0]), [5, 1, 1, 1], "a shard without room could not take any item");
        assert_eq!(divide(7, &[3, 3, 0]), [3, 3, 1]);
    }

    #[test]
    fn an_oversized_shard_gets_only_its_share() {
        assert_eq!(divide(8, &[7, 1, 1, 0]), [2, 2, 2, 2]);
        assert_eq!(divide(8, &[9, 9, 9, 9]), [2, 2, 2, 2]);
    }

    #[test]
    fn keys_of_any_kind_spread_evenly() {
        let kinds: [fn(u64) -> u64; 3] = [|n| n, |n| n << 40, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)];
        for key in kinds {
            let mut counts = [0_i32; 7];
            (0..70_000).for_each(|n| counts[shard_of(key(n), 7)] += 1);
            // The expected number is 10,000 for each shard, with a standard deviation of 93.
            assert!(counts.iter().all(|count| (count - 10_000).abs() < 600), "{counts:?}");
        }
        assert!((0..100).all(|key| shard_of(key, 1) == 0));
    }
}
