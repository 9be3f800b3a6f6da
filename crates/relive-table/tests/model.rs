//! Random histories on the table and on a model of it.

use proptest::prelude::*;
use relive_testkit::table::{configs, follow, histories};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_model_does(config in configs(), history in histories(), seed: u64) {
        follow(&config, &history, seed);
    }

    #[test]
    fn the_same_inputs_give_the_same_outputs(config in configs(), history in histories(), seed: u64) {
        let shown = |seed| -> Vec<_> {
            let samples = follow(&config, &history, seed);
            samples.iter().map(|s| (s.item.key, s.item.sequence, s.probability.to_bits(), s.times_sampled)).collect()
        };
        prop_assert_eq!(shown(seed), shown(seed));
    }
}
