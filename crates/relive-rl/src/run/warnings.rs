//! Warnings about runs that probably do not do what was meant.

use super::{RunOptions, Summary};
use crate::Result;
use crate::plan::Agent;

/// Logs warnings about a run that has not taken a step yet.
pub(super) fn at_begin(agent: &dyn Agent, options: &RunOptions) -> Result<()> {
    if has_no_steps(options) {
        tracing::warn!(
            "the run has no steps to take: set env_steps, or learner_steps to learn from what its tables have"
        );
    }
    if let Some(warning) = late_learning(agent, options)? {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn has_no_steps(options: &RunOptions) -> bool {
    options.env_steps == 0 && options.learner_steps.is_none()
}

/// Returns a warning if all steps of a run together fill its tables too little for the first learner step.
fn late_learning(agent: &dyn Agent, options: &RunOptions) -> Result<Option<String>> {
    let Some(period) = agent.steps_per_item() else { return Ok(None) };
    let of_each = agent.tables()?.into_iter().map(|table| table.rate_limiter.min_size_to_sample);
    // Tables of demonstrations, which need one item, are filled at the start.
    let least: u64 = of_each.filter(|least| *least > 1).filter_map(|least| u64::try_from(least).ok()).sum();
    let needed = least.saturating_mul(u64::try_from(period).unwrap_or(u64::MAX));
    let steps = options.env_steps;
    let is_late = options.data.is_none() && steps > 0 && needed > steps;
    let every = if period == 1 { "at every step".to_owned() } else { format!("every {period} steps") };
    Ok(is_late.then(|| {
        format!(
            "learning begins when the replay table has {least} items (min_replay_size). An environment adds an item \
             {every}, and some at the end of an episode, so this takes about {needed} steps, but the run has only \
             {steps}: make more steps, or lower min_replay_size"
        )
    }))
}

/// Logs a warning if the run ended before the learner's first step.
pub(super) fn at_end(summary: &Summary) {
    let &Summary { env_steps, learner_steps, .. } = summary;
    if env_steps > 0 && learner_steps == 0 {
        tracing::warn!(
            "the run ended after {env_steps} steps, before the learner's first step, so its policy is untrained: make \
             more steps, or let the learner start earlier (min_size, min_replay_size, or the steps of a rollout)"
        );
    }
}

#[cfg(test)]
mod tests {
    use relive_flow::Flow;
    use relive_table::TableConfig;

    use super::*;
    use crate::plan::{Crew, Progress, ReplayTable, for_recorded_data};
    use crate::{Policy, PolicyContext, RlError};

    /// An agent that learns from 1,000 items and a demonstration, with the given number of steps between two items.
    struct Patient(Option<usize>);

    impl Agent for Patient {
        fn name(&self) -> &'static str {
            "patient"
        }

        fn settings(&self) -> Vec<(String, String)> {
            Vec::new()
        }

        fn validate(&self) -> Result<()> {
            Ok(())
        }

        fn tables(&self) -> Result<Vec<TableConfig>> {
            let replay = ReplayTable {
                name: "replay",
                batch_size: 32,
                samples_per_insert: 1.0,
                min_size: 1_000,
                max_size: 9_999,
                burst: 1,
            };
            Ok(vec![replay.config()?, for_recorded_data(TableConfig::new("demonstrations"))?])
        }

        fn steps_per_item(&self) -> Option<usize> {
            self.0
        }

        fn policy(&self, _: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
            Err(RlError::Stopped)
        }

        fn plan(&self, _: &Crew) -> Result<Flow<Progress>> {
            Err(RlError::Stopped)
        }
    }

    #[test]
    fn runs_without_steps_are_told() {
        let without = RunOptions::default();
        assert!(has_no_steps(&without));
        assert!(!has_no_steps(&RunOptions { env_steps: 1, ..without.clone() }));
        assert!(!has_no_steps(&RunOptions { learner_steps: Some(1), ..without }));
    }

    #[test]
    fn a_run_that_ends_before_its_first_learner_step_is_told_at_its_start() {
        let told = |period, env_steps| {
            let options = RunOptions { env_steps, ..RunOptions::default() };
            late_learning(&Patient(period), &options).unwrap()
        };
        let expected = "learning begins when the replay table has 1000 items (min_replay_size). An environment adds \
                        an item every 40 steps, and some at the end of an episode, so this takes about 40000 steps, \
                        but the run has only 39999: make more steps, or lower min_replay_size";
        assert_eq!(told(Some(40), 39_999).as_deref(), Some(expected));
        assert!(told(Some(1), 999).is_some_and(|warning| warning.contains("an item at every step, and")));
        assert_eq!(
            [told(Some(40), 40_000), told(Some(1), 1_000), told(None, 1), told(Some(1), 0)],
            [const { None }; 4]
        );
    }
}
