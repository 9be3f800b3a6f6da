//! One line of a log.

use crate::bsuite::Totals;
use crate::state::State;
use crate::timestep::TimeStep;

/// The state of an agent after an episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogRow {
    /// The number of actions so far.
    pub steps: u64,
    /// The number of episodes so far.
    pub episode: u64,
    /// The sum of rewards so far.
    pub total_return: f64,
    /// The number of actions in the last episode.
    pub episode_len: u64,
    /// The sum of rewards in the last episode.
    pub episode_return: f64,
    /// The environment's own totals.
    pub totals: Vec<(String, f64)>,
}

impl LogRow {
    /// Returns the environment's total with the given name.
    #[must_use]
    pub fn total(&self, name: &str) -> Option<f64> {
        self.totals.iter().find(|(total, _)| total == name).map(|(_, value)| *value)
    }

    /// Counts a step of the environment. Returns whether it ended an episode.
    pub fn count(&mut self, step: TimeStep) -> bool {
        if step.first() {
            (self.episode_len, self.episode_return) = (0, 0.0);
            return false;
        }
        self.steps += 1;
        self.episode_len += 1;
        self.episode_return += step.reward;
        self.total_return += step.reward;
        self.episode += u64::from(step.last());
        step.last()
    }

    /// Returns a copy with the totals of the environment.
    #[must_use]
    pub fn with_totals(&self, environment: &impl Totals) -> LogRow {
        let totals = environment.totals().into_iter().map(|(name, value)| (name.to_owned(), value));
        LogRow { totals: totals.collect(), ..self.clone() }
    }

    /// Saves or restores the counts, without the totals.
    pub fn visit_counts(&mut self, state: &mut State<'_>) {
        state.field(&mut self.steps);
        state.field(&mut self.episode);
        state.field(&mut self.total_return);
        state.field(&mut self.episode_len);
        state.field(&mut self.episode_return);
    }
}
