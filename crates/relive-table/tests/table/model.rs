//! Performs random operations on a table and on a reference model of it.

use proptest::prelude::*;
use relive_testkit::table::{configs, follow, histories};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_matches_the_model(config in configs(), history in histories(), seed: u64) {
        follow(&config, &history, seed);
    }

    #[test]
    fn tables_are_deterministic(config in configs(), history in histories(), seed: u64) {
        let shown = |seed| -> Vec<_> {
            let samples = follow(&config, &history, seed);
            samples.iter().map(|s| (s.item.key, s.item.sequence, s.probability.to_bits(), s.times_sampled)).collect()
        };
        prop_assert_eq!(shown(seed), shown(seed));
    }
}
