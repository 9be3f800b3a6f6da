//! Runs all rules, one after another.

use super::{Violation, rules};
use crate::environment::Environment;

/// The seeds with which every rule is tested.
const SEEDS: [u64; 3] = [0, 1, 42];

/// Tests an environment against the whole contract of [`Environment`], with random actions.
///
/// `make` creates an environment for a seed; equal seeds must give equal environments. An environment without
/// randomness may ignore the seed. The test takes a few thousand steps.
///
/// # Errors
/// The first [`Violation`] found.
pub fn check<E: Environment>(make: impl Fn(u64) -> E) -> Result<(), Violation> {
    for seed in SEEDS {
        let make = || make(seed);
        rules::episodes_are_sequences(&make)?;
        rules::the_same_seed_gives_the_same_trajectory(&make)?;
        rules::a_step_before_the_first_reset_is_one(&make)?;
        rules::a_reset_is_possible_at_any_time(&make)?;
        rules::observations_are_written_whole(&make)?;
        rules::what_the_spec_forbids_is_refused(&make)?;
        rules::other_memory_is_refused(&make)?;
        rules::saved_state_is_all_there_is(&make)?;
    }
    Ok(())
}
